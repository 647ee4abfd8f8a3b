// Puts the page together: views, keys, what is said of the source, and the sums that are asked for again and again.

import { ask } from "./ask.js";
import { showCharts } from "./charts.js";
import { showExchange } from "./exchange.js";
import { begin, focusCurrent, isPaused, listenToExchanges, markCurrent, pause, step } from "./exchanges.js";
import { listenToFilter, showFilter } from "./filter_box.js";
import { change, onChange, readAddress, state } from "./state.js";
import { tableOf } from "./tables.js";
import { count, element, plural, shown, size } from "./text.js";
import { listenForValues, markAll } from "./values.js";

const SUMS_MS = 2000;
const TABS = {
  exchanges: ["Exchanges", []],
  apis: ["APIs", [["apis", "APIs"]]],
  topics: ["Topics", [["topics", "Topics"]]],
  groups: ["Groups", [["lags", "Lag, as seen on the wire"], ["groups", "Groups"]]],
  clients: ["Clients", [["clients", "Clients"]]],
  nodes: ["Nodes", [["nodes", "Nodes"]]],
  connections: ["Connections", [["connections", "Connections"]]],
  errors: ["Errors", [["errors", "Errors"]]],
};
const KEYS = [
  ["/", "to the filter", () => document.getElementById("filter").select()],
  ["j, ↓", "the next exchange", () => step(1), ["j", "ArrowDown"]],
  ["k, ↑", "the one before", () => step(-1), ["k", "ArrowUp"]],
  ["Enter", "open the exchange", null],
  ["Escape", "close it", () => close(), ["Escape"]],
  ["d", "to the exchange that is open", () => document.getElementById("detail").focus(), ["d"]],
  ["p", "pause, or go on", () => pause(!isPaused), ["p"]],
  ["c", "clear the filter", () => change({ filter: "" }), ["c"]],
  ["1 to 8", "the views", null],
  ["?", "this help", () => help(), ["?"]],
];
const said = { lost: "", behind: "", paused: "" };
const tabs = document.getElementById("tabs");
const sums = document.getElementById("sums");
const dialog = document.getElementById("help");
let known = null;

function say(what, text) {
  said[what] = text;
  const place = document.getElementById("state");
  const told = Object.values(said).filter(Boolean).join(" ");
  if (place.textContent !== told) place.textContent = told;
  place.classList.toggle("lost", Boolean(said.lost || said.behind));
}

function makeTabs() {
  Object.entries(TABS).forEach(([name, [title]], at) => {
    const tab = element("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel" }, title);
    tab.setAttribute("aria-keyshortcuts", String(at + 1));
    tab.addEventListener("click", () => change({ tab: name }));
    tabs.append(tab);
  });
  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const names = Object.keys(TABS);
    change({ tab: names[(names.indexOf(state.tab) + by + names.length) % names.length] });
    document.getElementById(`tab-${state.tab}`).focus();
    event.preventDefault();
  });
}

function showTab() {
  if (!(state.tab in TABS)) state.tab = "exchanges";
  for (const tab of tabs.children) {
    const isOwn = tab.id === `tab-${state.tab}`;
    tab.setAttribute("aria-selected", String(isOwn));
    tab.tabIndex = isOwn ? 0 : -1;
    if (isOwn) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  document.body.dataset.tab = state.tab;
  document.getElementById("panel").setAttribute("aria-labelledby", `tab-${state.tab}`);
  document.getElementById("list").hidden = state.tab !== "exchanges";
  sums.hidden = state.tab === "exchanges";
  showSums();
}

function showSums() {
  if (known === null || state.tab === "exchanges") return;
  const scrolled = [...sums.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const focused = document.activeElement?.dataset?.sorts;
  sums.replaceChildren(...TABS[state.tab][1].map(([name, title]) => tableOf(name, title, known.tables[name], showSums)));
  sums.querySelectorAll(".scroll").forEach((one, at) => (one.scrollLeft = scrolled[at] ?? 0));
  if (focused) sums.querySelector(`[data-sorts="${focused}"]`)?.focus();
}

// Reads the sums again and again, unless the page is paused, or nobody sees it.
async function readSums() {
  if (!isPaused && !document.hidden) {
    try {
      known = await ask("sums", { seconds: state.seconds });
      showSource();
      showCharts(known.steps);
      // what somebody is about to click, or reads by keyboard, stays as it is
      if (!sums.matches(":hover") && !sums.contains(document.activeElement)) showSums();
    } catch {
      // the stream says that the connection is lost
    }
  }
}

function showSource() {
  const place = document.getElementById("source");
  place.textContent = shown(known.source);
  place.title = shown(known.source, 1000);
  const lost = Object.entries(known.missed);
  const frames = lost.reduce((sum, [, number]) => sum + number, 0);
  const parts = [known.state && `${known.state} …`, known.is_live ? "live" : "finished"];
  parts.push(`${plural(known.kept.exchanges, "exchange")} kept (${size(known.kept.bytes)})`);
  if (known.kept.taken > known.kept.exchanges) parts.push(`of ${count(known.kept.taken)}`);
  if (known.behind) parts.push(`${count(Math.round(known.behind))} s behind`);
  if (lost.length) parts.push(`${frames ? plural(frames, "frame") : "something"} missed`);
  const kept = document.getElementById("kept");
  kept.textContent = parts.filter(Boolean).join(" · ");
  kept.title = lost.map(([why, number]) => `${number || "?"} frames: ${shown(why)}`).join("\n");
  say("behind", known.behind ? "Reading is behind: what passes is counted as missed, and not shown, until it has caught up." : "");
}

function close() {
  if (!state.id) return;
  focusCurrent();
  change({ id: "" });
}

async function help() {
  const keys = document.getElementById("keys");
  keys.replaceChildren(...KEYS.map(([key, what]) => pair(element("kbd", {}, key), what)));
  dialog.showModal();
  const { fields } = await ask("filter");
  const list = document.getElementById("fields");
  list.replaceChildren(...Object.entries(fields).map(([name, meaning]) => pair(element("code", {}, name), meaning)));
}

const pair = (term, what) => element("div", {}, element("dt", {}, term), element("dd", {}, what));

function onKey(event) {
  const isTyping = event.target.matches("input, textarea, select") || dialog.open;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = Number(event.key) - 1;
  const names = Object.keys(TABS);
  const found = KEYS.find(([key, , , pressed]) => (pressed ?? [key]).includes(event.key));
  if (at >= 0 && at < names.length) change({ tab: names[at] });
  else if (found?.[2] && !(event.target.closest("#sums, #detail") && event.key.startsWith("Arrow"))) found[2]();
  else return;
  event.preventDefault();
}

onChange((before) => {
  if (before.tab !== state.tab) showTab();
  if (before.filter !== state.filter) {
    showFilter();
    markAll();
    begin();
  }
  if (before.id !== state.id) {
    markCurrent();
    showExchange();
  }
});
makeTabs();
listenToFilter();
listenForValues();
listenToExchanges(say);
document.addEventListener("keydown", onKey);
document.getElementById("pause").addEventListener("click", () => pause(!isPaused));
document.getElementById("help-button").addEventListener("click", help);
document.getElementById("window").addEventListener("change", (event) => {
  change({ seconds: Number(event.target.value) });
  readSums();
});
addEventListener("hashchange", readAddress);
readAddress();
showTab();
showFilter();
showExchange();
if (!state.filter) begin();
readSums();
setInterval(readSums, SUMS_MS);
