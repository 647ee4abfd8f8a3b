// A filter's text, taken apart at its outermost `and`, so that single conditions can be put in and taken out.
// What a filter means, only the server knows.

const WORD = /^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$/;
const KEYWORDS = new Set(["and", "or", "not", "in"]);
const CONTROL = /[\p{Cc}\p{Cs}]/gu;

// The condition that a field has a value (or has not). Letters that a line of text can't hold become a pattern's `?`.
export function condition(field, value, isExcluded = false) {
  const text = String(value);
  if (text.match(CONTROL)) {
    const pattern = text.replace(/[*?[\]]/g, (letter) => `[${letter}]`).replace(/^!/, "?").replace(CONTROL, "?");
    return `${field} ${isExcluded ? "!~" : "~"} ${quoted(pattern)}`;
  }
  const isWord = WORD.test(text) && !KEYWORDS.has(text.toLowerCase());
  return `${field} ${isExcluded ? "!=" : "=="} ${isWord ? text : quoted(text)}`;
}

const quoted = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;

// The tokens of a text: words, strings, brackets.
const tokens = (text) => [...text.matchAll(/"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[()]|[^\s()"']+/gs)];

// The conditions that all must hold; the whole text is one if there is an `or` outside of brackets.
export function conditions(text) {
  const parts = [];
  let depth = 0;
  let begin = 0;
  for (const token of tokens(text)) {
    if (token[0] === "(") depth += 1;
    else if (token[0] === ")") depth -= 1;
    else if (depth === 0 && token[0] === "or") return text.trim() ? [text.trim()] : [];
    else if (depth === 0 && token[0] === "and") {
      parts.push(text.slice(begin, token.index).trim());
      begin = token.index + 3;
    }
  }
  parts.push(text.slice(begin).trim());
  return parts.filter(Boolean);
}

export const has = (text, wanted) => conditions(text).includes(wanted);

export const without = (text, unwanted) => conditions(text).filter((one) => one !== unwanted).join(" and ");

// The text with one more condition. An `or` outside of brackets gets brackets.
export function withCondition(text, wanted) {
  const parts = conditions(text);
  const isOr = parts.length === 1 && tokens(text).some((token) => token[0] === "or");
  return [...(isOr ? [`(${parts[0]})`] : parts), wanted].join(" and ");
}

// Puts a condition in, or takes it out if it is there. What contradicts it goes.
export function toggled(text, field, value, isExcluded) {
  const wanted = condition(field, value, isExcluded);
  if (has(text, wanted)) return without(text, wanted);
  return withCondition(without(text, condition(field, value, !isExcluded)), wanted);
}
