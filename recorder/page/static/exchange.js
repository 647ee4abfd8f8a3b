// One exchange, decoded: its head, what it says of partitions and groups, both frames with their records.

import { Refused, ask } from "./ask.js";
import { change, linkTo, state } from "./state.js";
import { count, element, shown } from "./text.js";
import { valueButton } from "./values.js";

const detail = document.getElementById("detail");
// deeper lines are folded in a body of more lines than this
const FOLDED_FROM = 400;
let number = 0;

export async function showExchange() {
  const id = state.id;
  detail.hidden = !id;
  document.body.classList.toggle("with-detail", Boolean(id));
  if (!id) return;
  number += 1;
  const own = number;
  if (detail.dataset.id !== id) detail.replaceChildren(heading(id, "Loading …"));
  detail.dataset.id = id;
  try {
    const told = await ask("exchange", { id });
    if (own === number) detail.replaceChildren(...parts(told));
  } catch (failure) {
    const why = failure instanceof Refused ? failure.message : "the server does not answer";
    if (own === number) detail.replaceChildren(heading(id, why));
  }
}

function heading(id, said = "") {
  const close = element("button", { type: "button", class: "close", "aria-label": "Close", "aria-keyshortcuts": "Escape" }, "×");
  close.addEventListener("click", () => change({ id: "" }));
  const link = element("a", { href: linkTo(id), title: "A link to this exchange" }, shown(id));
  return element("header", {}, element("h2", { id: "detail-title" }, "Exchange ", link), close, element("p", {}, said));
}

function parts(told) {
  const said = [told.errors && `Errors: ${told.errors}.`, told.wait].filter(Boolean).join(" ");
  const made = [heading(told.id, shown(said, 1000)), head(told.head)];
  if (told.fields.length) made.push(elements(told));
  return [...made, ...told.frames.map(frame)];
}

function head(facts) {
  const list = element("dl", { class: "facts" });
  for (const [field, value] of facts) {
    // a moment is hardly ever another exchange's
    const shownValue = field === "at" ? element("time", {}, value) : valueButton(field, value);
    list.append(element("div", {}, element("dt", {}, field), element("dd", {}, shownValue)));
  }
  return list;
}

function elements({ fields, elements: rows, more_elements: further }) {
  const table = element("table", {}, element("caption", {}, "Partitions, groups, members"));
  table.append(element("thead", {}, element("tr", {}, ...fields.map((name) => element("th", { scope: "col" }, name)))));
  const lines = rows.map((values) =>
    element("tr", {}, ...values.map((value, at) => element("td", {}, valueButton(fields[at], value)))),
  );
  table.append(element("tbody", {}, ...lines));
  const box = element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Partitions, groups, members" }, table);
  if (further) box.append(element("p", { class: "note" }, `${count(further)} more are not shown.`));
  return box;
}

function frame({ kind, id, at, size, notes, lines }) {
  const title = element("h3", {}, kind === "request" ? "Request" : "Response");
  const about = `${count(size)} bytes at ${at.slice(11, 26)}, frame ${shown(id)}`;
  const made = element("section", { class: "frame", "aria-label": kind }, title, element("p", { class: "note" }, about));
  made.append(...notes.map((note) => element("p", { class: "note" }, shown(note, 500))));
  made.append(tree(lines));
  return made;
}

// Lines with depths as a tree that folds.
function tree(lines) {
  const root = element("div", { class: "tree" });
  const open = [root];
  lines.forEach(({ depth, text }, at) => {
    while (open.length > depth + 1) open.pop();
    const isParent = lines[at + 1]?.depth > depth;
    if (!isParent) {
      open.at(-1).append(element("div", { class: "leaf" }, ...colored(text)));
      return;
    }
    const branch = element("details", { open: lines.length < FOLDED_FROM || depth < 2 });
    branch.append(element("summary", {}, ...colored(text)));
    open.at(-1).append(branch);
    while (open.length < depth + 1) open.push(open.at(-1));
    open[depth + 1] = branch;
    open.length = depth + 2;
  });
  return root;
}

// The name of a field, and its value. The server has made all of it printable.
function colored(text) {
  const [, dash, name, value] = /^(- )?([\w.-]+:)?(.*)$/s.exec(text);
  return [dash ?? "", name ? element("span", { class: "name" }, name) : "", value];
}
