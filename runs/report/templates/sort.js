// Headings of tables marked data-sortable become buttons that sort by their column. Without script the order stays.
"use strict";
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return { text, number };
};
const compare = (a, b) =>
  Number.isNaN(a.number) || Number.isNaN(b.number)
    ? Number.isNaN(a.number) - Number.isNaN(b.number) || a.text.localeCompare(b.text)
    : a.number - b.number || a.text.localeCompare(b.text);
for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row, heading.cellIndex), row]);
      rows.sort(([a], [b]) => (falling ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  }
}
