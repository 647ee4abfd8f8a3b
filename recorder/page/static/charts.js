// Charts of the last minutes, drawn as SVG: exchanges and errors, bytes, latency.

import { count, duration, element, size } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, TOP, BOTTOM] = [300, 84, 6, 14];
const rate = (number) => (number < 10 ? String(Math.round(number * 10) / 10) : count(number));
const CHARTS = [
  { title: "Exchanges a second", series: [["exchanges", "exchanges"], ["errors", "with errors"]], format: rate },
  { title: "Bytes a second", series: [["received", "from brokers"], ["sent", "from clients"]], format: size },
  { title: "Latency", series: [["p99_ms", "99 %"], ["p50_ms", "median"]], format: duration },
];
const place = document.getElementById("charts");

export function showCharts(steps) {
  const known = place.children.length === CHARTS.length;
  if (!known) place.replaceChildren(...CHARTS.map(() => element("figure")));
  CHARTS.forEach((chart, at) => draw(place.children[at], chart, steps));
}

function draw(figure, { title, series, format }, steps) {
  // the last step is not over
  const whole = steps.slice(0, -1);
  const values = series.map(([name]) => whole.map((step) => step[name]));
  const most = Math.max(...values.flat().filter((value) => value !== null), 0);
  const newest = values.map((each) => each.findLast((value) => value !== null) ?? null);
  const told = series.map(([, label], at) => `${label} ${newest[at] === null ? "–" : format(newest[at])}`);
  const legend = element("figcaption", {}, element("strong", {}, title));
  told.forEach((text, at) => legend.append(element("span", { class: `key series-${at}` }, text)));
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `${title}: ${told.join(", ")}; at most ${format(most)}`);
  svg.append(shape("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
  values.forEach((each, at) => svg.append(line(each, most, at)));
  const labels = element("div", { class: "labels", "aria-hidden": "true" });
  labels.append(element("span", { class: "most" }, most ? format(most) : ""), ...times(whole));
  figure.replaceChildren(legend, element("div", { class: "plot" }, svg, labels));
}

function times(steps) {
  const time = (at) => new Date(at).toISOString().slice(11, 19);
  if (!steps.length) return [];
  return [
    element("span", { class: "from" }, time(steps[0].at_ms)),
    element("span", { class: "to" }, time(steps.at(-1).at_ms)),
  ];
}

// A line through the values; where there is none, it is interrupted.
function line(values, most, at) {
  const x = (index) => ((index + 0.5) * WIDTH) / values.length;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (most ? value / most : 0));
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const isBegin = index === 0 || values[index - 1] === null;
    path += `${isBegin ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    if (isBegin) path += "h0.5";
  });
  return shape("path", { class: `line series-${at}`, d: path, "vector-effect": "non-scaling-stroke" });
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
