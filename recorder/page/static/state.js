// What is looked at. It is in the address behind the #, so that a link leads to the same view and exchange.

const listeners = [];
export const state = { tab: "exchanges", filter: "", id: "", seconds: 300 };

export const onChange = (listener) => listeners.push(listener);

// Changes the view. An exchange is a step in the browser's history, all else is not.
export function change(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  const address = `#${new URLSearchParams(told())}`;
  if (address !== location.hash) history[state.id !== before.id ? "pushState" : "replaceState"](null, "", address);
  for (const listener of listeners) listener(before);
}

// The parts of the state that are not as in the beginning.
function told() {
  return Object.entries({ tab: state.tab === "exchanges" ? "" : state.tab, filter: state.filter, id: state.id }).filter(
    ([, value]) => value,
  );
}

// The address of an exchange, with nothing but it.
export const linkTo = (id) => `#${new URLSearchParams({ id })}`;

export function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const before = { ...state };
  Object.assign(state, { tab: parts.get("tab") ?? "exchanges", filter: parts.get("filter") ?? "", id: parts.get("id") ?? "" });
  // a token has done its work, and must not stay in the history
  if (parts.has("token")) history.replaceState(null, "", `#${new URLSearchParams(told())}`);
  for (const listener of listeners) listener(before);
}
