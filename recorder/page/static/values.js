// A value of a field as a button that puts a condition into the filter, or takes it out.

import { condition, has, toggled } from "./filter_text.js";
import { change, state } from "./state.js";
import { element, shown } from "./text.js";

// `label`: what stands in place of the value. Lists are walked by rows, so their values are not in the order of Tab.
export function valueButton(field, value, { label = shown(String(value)), inList = false } = {}) {
  if (value === null || value === undefined) return element("span", { class: "none" }, "–");
  const button = element(
    "button",
    { type: "button", class: "value", tabIndex: inList ? -1 : 0, title: `${field}: ${shown(String(value), 1000)}` },
    label,
  );
  button.dataset.field = field;
  button.dataset.value = String(value);
  mark(button);
  return button;
}

function mark(button) {
  const { field, value } = button.dataset;
  const isIn = has(state.filter, condition(field, value));
  const isOut = has(state.filter, condition(field, value, true));
  button.setAttribute("aria-pressed", isIn || isOut ? "true" : "false");
  button.classList.toggle("out", isOut);
}

export function markAll() {
  for (const button of document.querySelectorAll("button.value")) mark(button);
}

// One listener for all: there are thousands of values.
export function listenForValues() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.value");
    if (!button) return;
    event.stopPropagation();
    const { field, value } = button.dataset;
    change({ filter: toggled(state.filter, field, value, event.shiftKey) });
  }, true);
}
