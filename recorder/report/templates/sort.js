"use strict";
// Tables sort by a click on a column's title: numbers by their raw value, amounts from
// the largest one on; unknown ones stand last.
for (const table of document.querySelectorAll("table.sorts")) {
  const rows = table.tBodies[0];
  const titles = [...table.tHead.rows[0].cells];
  const letters = new Intl.Collator(undefined, { numeric: true });
  const raw = (row, at) => Number(row.cells[at].dataset.raw);
  const text = (row, at) => row.cells[at].textContent;
  const unknown = (row, at) => row.cells[at].classList.contains("unknown");
  const sort = (at) => {
    const title = titles[at];
    const before = title.getAttribute("aria-sort");
    const down = before ? before === "ascending" : title.classList.contains("number");
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compare = (one, other) =>
      raw(one, at) - raw(other, at) || letters.compare(text(one, at), text(other, at));
    const sorted = [...rows.rows].sort(
      (one, other) => unknown(one, at) - unknown(other, at) || (down ? -1 : 1) * compare(one, other) || 0
    );
    rows.append(...sorted);
  };
  titles.forEach((title, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...title.childNodes);
    button.addEventListener("click", () => sort(at));
    title.append(button);
  });
}
