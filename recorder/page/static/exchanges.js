// The list of exchanges: the newest first, those that come as they come, older ones when they are asked for.

import { Refused, ask } from "./ask.js";
import { showError } from "./filter_box.js";
import { change, linkTo, state } from "./state.js";
import { clock, count, duration, element, plural, size } from "./text.js";
import { valueButton } from "./values.js";

const MOST_ROWS = 500;
const PAGE = 100;
// asks again after that many ms, longer each time
const [SOONEST, LATEST] = [1000, 15000];
const body = document.querySelector("#exchanges tbody");
const news = document.getElementById("news");
const end = document.getElementById("end");
const more = document.getElementById("more");
let stream = null;
let asked = null;
let older = null;
let last = -1;
let retry = SOONEST;
let isLost = false;
let timer = 0;
let waiting = [];
let passedOver = 0;
export let isPaused = false;
let say = () => {};

export function listenToExchanges(sayState) {
  say = sayState;
  // a browser has six connections for a server: tabs that nobody sees leave them to others
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else if (stream === null) listen();
  });
  more.addEventListener("click", showOlder);
  news.addEventListener("click", () => (isPaused ? pause(false) : begin()));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a")) change({ id: row.dataset.id });
  });
  body.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("tr")) change({ id: event.target.dataset.id });
  });
}

// Asks for the newest that pass the filter, and then for what comes.
export async function begin() {
  stop();
  asked?.abort();
  asked = new AbortController();
  [waiting, passedOver] = [[], 0];
  showNews();
  body.replaceChildren();
  end.textContent = "Searching …";
  more.hidden = true;
  try {
    await search(null, asked.signal);
    listen();
  } catch (failure) {
    failed(failure);
  }
}

function failed(failure) {
  if (failure.name === "AbortError") return;
  if (failure instanceof Refused) {
    showError(failure.told, state.filter);
    end.textContent = "This filter can't be read.";
  } else lost();
}

// A page of the list; goes on until it is full or there is nothing more: the server searches for half a second at a time.
async function search(before, signal) {
  let wanted = PAGE;
  let next = before;
  do {
    const told = await ask("exchanges", { filter: state.filter, limit: wanted, before: next }, signal);
    if (before === null && next === null) last = told.last;
    body.append(...told.exchanges.map(row));
    wanted -= told.exchanges.length;
    next = told.next;
    older = next;
    end.textContent = next === null ? summary(told.unsure) : `Searched down to exchange ${count(next)} …`;
  } while (wanted > 0 && next !== null);
  more.hidden = older === null;
  if (older !== null) end.textContent = `${plural(body.rows.length, "exchange")} shown.`;
  focusable();
}

function summary(unsure) {
  const told = body.rows.length ? `${plural(body.rows.length, "exchange")}; older ones are not kept here.` : empty();
  return unsure ? `${told} Of ${plural(unsure, "further exchange")} nobody can tell whether they pass.` : told;
}

const empty = () => (state.filter ? "No exchange that is kept here passes the filter." : "No exchange yet.");

async function showOlder() {
  more.hidden = true;
  try {
    await search(older, asked.signal);
  } catch (failure) {
    failed(failure);
  }
}

const newsAddress = () => `/api/news?${new URLSearchParams({ filter: state.filter, after: last < 0 ? "" : last })}`;

function listen() {
  if (document.hidden) return;
  stream = new EventSource(newsAddress());
  stream.addEventListener("open", () => {
    retry = SOONEST;
    if (!isLost) return;
    isLost = false;
    say("lost", "");
    // the server may be another one, which counts from the beginning
    if (!isPaused) begin();
  });
  stream.addEventListener("exchanges", (event) => take(JSON.parse(event.data), event.lastEventId));
  stream.addEventListener("missed", (event) => {
    passedOver += JSON.parse(event.data).exchanges;
    showNews();
  });
  stream.addEventListener("error", lost);
}

// The browser tries again by itself, unless the server refused: then this does, asks why, and who it is.
async function lost() {
  isLost = true;
  const isRefused = stream?.readyState === EventSource.CLOSED;
  if (stream === null || isRefused) {
    clearTimeout(timer);
    timer = setTimeout(begin, retry);
    retry = Math.min(retry * 2, LATEST);
  }
  const why = isRefused ? await refusal() : "";
  if (isLost) say("lost", `${why ? `This page is not live: ${why}.` : "Connection lost;"} trying again …`);
}

// What the server says against a stream: an EventSource does not tell. "": nothing, or there is no server.
async function refusal() {
  const asking = new AbortController();
  try {
    const answer = await fetch(newsAddress(), { signal: asking.signal });
    return answer.ok ? "" : (await answer.json()).error;
  } catch {
    return "";
  } finally {
    // a stream that is granted now would never end
    asking.abort();
  }
}

function stop() {
  clearTimeout(timer);
  stream?.close();
  stream = null;
}

function take(lines, number) {
  last = Number(number);
  if (isPaused) {
    waiting = [...waiting, ...lines];
    passedOver += Math.max(waiting.length - MOST_ROWS, 0);
    waiting = waiting.slice(-MOST_ROWS);
    showNews();
  } else put(lines);
}

function put(lines) {
  body.prepend(...lines.map(row).reverse());
  if (body.rows.length > MOST_ROWS && scrollY < 200) {
    const gone = [...body.rows].slice(MOST_ROWS);
    older = Number(gone[0].dataset.number) + 1;
    for (const one of gone) one.remove();
    more.hidden = false;
  }
  if (end.textContent === empty()) end.textContent = "";
  focusable();
}

export function pause(isOn) {
  isPaused = isOn;
  const button = document.getElementById("pause");
  button.setAttribute("aria-pressed", String(isOn));
  button.textContent = isOn ? "Go on" : "Pause";
  say("paused", isOn ? "Paused." : "");
  if (!isOn) {
    put(waiting);
    waiting = [];
  }
  showNews();
}

function showNews() {
  news.hidden = !waiting.length && !passedOver;
  const parts = [waiting.length ? `${plural(waiting.length, "new exchange")} while paused` : ""];
  parts.push(passedOver ? `${plural(passedOver, "exchange")} came too fast to be listed` : "");
  const label = isPaused ? "Go on" : "Show the newest";
  news.replaceChildren(`${parts.filter(Boolean).join("; ")}. `, element("button", { type: "button" }, label));
}

function row(line) {
  const topics = [...names("topic", line.topic), ...names("group", line.group)];
  const outcome = line.outcome === "answered" ? [] : [valueButton("outcome", line.outcome, { inList: true })];
  const errors = line.errors.map((name) => valueButton("error", name, { inList: true }));
  const unread = line.errors.length ? "" : line.error_text;
  const value = (field, label) => valueButton(field, line[field], { inList: true, label });
  const cells = [
    ["time", "", element("a", { href: linkTo(line.id), tabIndex: -1, title: line.at }, clock(line.at))],
    ["api", "", value("api"), line.version === null ? null : value("version", `v${line.version}`)],
    ["client", "", value("client_id")],
    ["node", "", value("node")],
    ["about", "", ...topics],
    ["sent", "number", size(line.sent)],
    ["received", "number", size(line.received)],
    ["latency", "number", duration(line.latency_ms), line.wait ? element("abbr", { title: "A long poll: the broker may have waited on purpose" }, " poll") : null],
    ["outcome", "", ...outcome, ...errors, unread],
  ];
  const made = element("tr", { tabIndex: -1, class: line.fault || line.outcome === "unanswered" ? "fault" : "" });
  made.dataset.id = line.id;
  made.dataset.number = line.number;
  if (line.id === state.id) made.setAttribute("aria-current", "true");
  for (const [name, kind, ...children] of cells) {
    made.append(element("td", { class: `${name} ${kind}` }, ...children));
  }
  return made;
}

function names(field, { names: found, more: further }) {
  const made = found.map((name) => valueButton(field, name, { inList: true }));
  return further ? [...made, element("span", { class: "none" }, `+${further}`)] : made;
}

// One row of the list is in the order of Tab; the arrow keys go to the others.
function focusable(row = body.querySelector('tr[tabindex="0"]') ?? body.rows[0]) {
  for (const other of body.querySelectorAll('tr[tabindex="0"]')) other.tabIndex = -1;
  if (row) row.tabIndex = 0;
}

export function step(by) {
  const rows = [...body.rows];
  const current = rows.indexOf(document.activeElement.closest?.("tr") ?? body.querySelector("tr[aria-current]"));
  const next = rows[current < 0 ? 0 : Math.min(Math.max(current + by, 0), rows.length - 1)];
  if (!next) return;
  focusable(next);
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  if (state.id) change({ id: next.dataset.id });
}

export function markCurrent() {
  for (const row of body.rows) {
    if (row.dataset.id === state.id) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
}

export const focusCurrent = () => (body.querySelector("tr[aria-current]") ?? body.querySelector('tr[tabindex="0"]'))?.focus();
