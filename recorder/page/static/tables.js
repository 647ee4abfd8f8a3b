// Tables by API, topic, group and so on. Each value goes into the filter by a click; a click on a title sorts.

import { clock, count, element, plural, shown, size } from "./text.js";
import { valueButton } from "./values.js";

const FORMATS = { sent: size, received: size, bytes: size, last: clock, committed_at: clock, end_at: clock };
const TITLES = { client_id: "client", software_version: "version of it", last: "last seen (UTC)", committed_at: "committed at", end_at: "end seen at" };
// the columns of a key; all others are numbers or times
const KEYS = {
  apis: ["api", "version"],
  topics: ["topic"],
  groups: ["group"],
  clients: ["client_id", "software", "software_version"],
  nodes: ["node"],
  connections: ["session", "connection", "client_id", "node"],
  errors: ["error", "api", "client_id", "topic"],
  lags: ["group", "topic", "partition"],
};
const NOTHING = {
  lags: "No group has committed offsets while this was watched.",
  errors: "No response held an error.",
};
// column -> whether a value of it is bad
const BAD = { errors: (number) => number > 0, lag: (number) => number > 0, state: (state) => ["stalled", "stopped"].includes(state) };
// table -> the column that it is sorted by, and whether upwards
const orders = new Map();

// The section of a table. `again`: draws it again, once it is sorted otherwise.
export function tableOf(name, title, { lines, total, forgotten }, again) {
  const made = element("section", { "aria-label": title }, element("h2", {}, title));
  if (!lines.length) {
    made.append(element("p", { class: "note" }, NOTHING[name] ?? "Nothing yet."));
    return made;
  }
  const columns = [...new Set(lines.flatMap(Object.keys))];
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...columns.map((one) => head(name, one, again)))));
  const body = element("tbody", {});
  for (const line of ordered(name, lines)) body.append(element("tr", {}, ...columns.map((one) => cell(name, one, line[one]))));
  table.append(body);
  made.append(element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": title }, table));
  const notes = total > lines.length ? [`The first ${count(lines.length)} of ${plural(total, "line")}.`] : [];
  if (forgotten) notes.push(`The table is full: ${plural(forgotten, "line")} that had been idle longest made room for others.`);
  if (notes.length) made.append(element("p", { class: "note" }, notes.join(" ")));
  return made;
}

const isKey = (name, column) => KEYS[name].includes(column);

function head(name, column, again) {
  const order = orders.get(name);
  const button = element("button", { type: "button" }, TITLES[column] ?? column.replaceAll("_", " "));
  button.dataset.sorts = `${name} ${column}`;
  button.addEventListener("click", () => {
    orders.set(name, { column, isUp: order?.column === column ? !order.isUp : isKey(name, column) });
    again();
    document.querySelector(`[data-sorts="${name} ${column}"]`)?.focus();
  });
  const sorted = order?.column === column ? (order.isUp ? "ascending" : "descending") : undefined;
  return element("th", { scope: "col", class: isKey(name, column) ? "" : "number", "aria-sort": sorted }, button);
}

function ordered(name, lines) {
  const order = orders.get(name);
  if (!order) return lines;
  const sign = order.isUp ? 1 : -1;
  const known = (line) => line[order.column] !== null && line[order.column] !== undefined;
  const compared = (one, other) => {
    const [left, right] = [one[order.column], other[order.column]];
    return sign * (typeof left === "number" ? left - right : left < right ? -1 : left > right ? 1 : 0);
  };
  return [...lines.filter(known).sort(compared), ...lines.filter((line) => !known(line))];
}

function cell(name, column, value) {
  if (isKey(name, column)) return element("td", { class: "cut" }, valueButton(column, value));
  const format = FORMATS[column] ?? ((number) => (typeof number === "number" ? count(number) : shown(String(number))));
  const isBad = BAD[column]?.(value);
  return element("td", { class: `number${isBad ? " bad" : ""}` }, value === null || value === undefined ? "–" : format(value));
}
