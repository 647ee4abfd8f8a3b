// The filter: a field with completion, its error with the place, its conditions as buttons that take them out.

import { Refused, ask } from "./ask.js";
import { conditions, without } from "./filter_text.js";
import { change, state } from "./state.js";
import { element, shown } from "./text.js";

const PAUSE_MS = 150;
// as the server takes words apart
const LAST_WORD = /[^\s()"',=!<>~]*$/;
const box = document.getElementById("filter");
const words = document.getElementById("words");
const error = document.getElementById("filter-error");
const clear = document.getElementById("clear");
const chips = document.getElementById("conditions");
let found = [];
let chosen = -1;
let asked = null;
let timer = 0;

export function listenToFilter() {
  box.addEventListener("input", () => {
    fit();
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE_MS);
  });
  box.addEventListener("keydown", onKey);
  box.addEventListener("blur", () => setTimeout(close, 100));
  clear.addEventListener("click", () => apply(""));
  document.getElementById("filter-form").addEventListener("submit", (event) => event.preventDefault());
}

// Shows the filter that is in force.
export function showFilter() {
  if (box.value !== state.filter) box.value = state.filter;
  clear.hidden = !state.filter;
  const parts = conditions(state.filter);
  chips.hidden = parts.length === 0;
  chips.replaceChildren(
    ...parts.map((part) => {
      const button = element("button", { type: "button", class: "chip", "aria-label": `Take out: ${shown(part)}` });
      button.append(element("span", { class: "cut" }, shown(part)), element("span", { "aria-hidden": "true" }, "×"));
      button.addEventListener("click", () => apply(without(state.filter, part)));
      return button;
    }),
  );
  if (state.filter) check();
  else showError(null);
  fit();
}

function apply(text) {
  close();
  change({ filter: text.trim() });
}

export function showError(told, text = box.value) {
  error.hidden = !told?.error;
  box.setAttribute("aria-invalid", told?.error ? "true" : "false");
  if (!told?.error) return;
  const letters = [...text];
  const at = told.at ?? 0;
  const place = element("code", { class: "place" }, shown(letters.slice(Math.max(at - 40, 0), at).join("")));
  const rest = letters.slice(at);
  const end = rest.findIndex((letter, index) => index > 0 && /\s/.test(letter));
  const wrong = rest.slice(0, end < 0 ? rest.length : end).join("");
  place.append(element("mark", {}, shown(wrong) || "▁"), shown(rest.slice(wrong.length, wrong.length + 40).join("")));
  error.replaceChildren(`${told.error} `, place);
}

// Asks what is wrong with the text, and what may come next at the caret.
async function check() {
  asked?.abort();
  asked = new AbortController();
  const text = box.value;
  const isActive = document.activeElement === box && text !== state.filter;
  const begun = isActive ? text.slice(0, box.selectionEnd) : undefined;
  try {
    const told = await ask("filter", { text, begun }, asked.signal);
    // a last word that is still being typed is no error yet
    const isBegun = isActive && told.at >= [...begun.slice(0, begun.search(LAST_WORD))].length;
    showError(isBegun ? null : told, text);
    if (isActive) open(told.completions ?? [], begun);
  } catch (failure) {
    if (failure instanceof Refused) showError(failure.told, text);
  }
}

function open(texts, begun) {
  const start = begun.search(LAST_WORD);
  found = texts.filter((text) => text !== begun);
  chosen = -1;
  words.replaceChildren(
    ...found.map((text, index) => {
      const word = element("li", { id: `word-${index}`, role: "option", "aria-selected": "false" }, text.slice(start));
      word.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(index);
      });
      return word;
    }),
  );
  words.hidden = !found.length;
  box.setAttribute("aria-expanded", found.length ? "true" : "false");
  box.removeAttribute("aria-activedescendant");
}

function close() {
  open([], "");
}

function choose(step) {
  chosen = (chosen + step + found.length) % found.length;
  [...words.children].forEach((word, index) => word.setAttribute("aria-selected", index === chosen ? "true" : "false"));
  box.setAttribute("aria-activedescendant", `word-${chosen}`);
  words.children[chosen].scrollIntoView({ block: "nearest" });
}

function take(index) {
  const rest = box.value.slice(box.selectionEnd);
  box.value = `${found[index]} ${rest.trimStart()}`;
  box.selectionEnd = found[index].length + 1;
  close();
  check();
}

function onKey(event) {
  const isOpen = !words.hidden;
  if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) choose(event.key === "ArrowDown" ? 1 : -1);
  else if (isOpen && event.key === "Tab" && !event.shiftKey) take(Math.max(chosen, 0));
  else if (isOpen && event.key === "Escape") close();
  else if (isOpen && event.key === "Enter" && chosen >= 0) take(chosen);
  else if (event.key === "Enter") apply(box.value);
  else if (event.key === "Escape") box.blur();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// As many lines as the text has.
function fit() {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, 160)}px`;
}
