// Text and elements. All text of the traffic is foreign: it goes through `shown`, and only ever becomes a text node.

const LONGEST = 160;
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu;
const NBSP = "\u00a0";

// Foreign text with escapes for what would not be seen or would reorder the line, cut to a length.
export function shown(text, longest = LONGEST) {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replace(UNSEEN, (letter) => {
    const code = letter.codePointAt(0);
    return { 10: "\\n", 13: "\\r", 9: "\\t" }[code] ?? `\\u{${code.toString(16)}}`;
  });
}

// An element with properties and children; a child that is a string becomes text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && !key.startsWith("aria")) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const count = (number) => Math.round(number).toLocaleString("en").replaceAll(",", NBSP);

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1000) return `${Math.round(bytes)}${NBSP}B`;
  const exponent = Math.min(Math.floor(Math.log10(bytes) / 3), 4);
  const scaled = bytes / 1000 ** exponent;
  return `${scaled < 100 ? scaled.toPrecision(3) : Math.round(scaled)}${NBSP}${["B", "kB", "MB", "GB", "TB"][exponent]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 1000) return `${(ms / 1000).toPrecision(3)}${NBSP}s`;
  return ms >= 1 ? `${ms.toPrecision(3)}${NBSP}ms` : `${Math.round(ms * 1000)}${NBSP}µs`;
}

export const clock = (at) => at.slice(11, 23);
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
