"use strict";
(() => {
  const table = document.getElementById("translations");
  const body = table.tBodies[0];
  const search = document.getElementById("search");
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const none = document.getElementById("none");
  // Found whatever the case and the accents.
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const rows = Array.from(body.rows, (row) => ({
    row,
    text: fold(Array.from(row.querySelectorAll("bdi"), (word) => word.textContent).join("\n")),
  }));

  function update() {
    const wanted = fold(search.value.trim());
    let count = 0;
    for (const { row, text } of rows) {
      const fits = text.includes(wanted) && (!filter.value || row.classList.contains(filter.value));
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
    none.hidden = count > 0;
  }

  const compareText = new Intl.Collator().compare;
  function sortBy(header, column) {
    const falls = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const isNumber = header.classList.contains("n");
    const cell = ({ row }) => row.cells[column].textContent;
    const compare = (a, b) => {
      // What is empty comes last, in either direction.
      if (!cell(a) || !cell(b)) return !cell(a) - !cell(b);
      const order = isNumber ? cell(a) - cell(b) : compareText(cell(a), cell(b));
      return falls ? -order : order;
    };
    rows.sort(compare);
    body.append(...rows.map(({ row }) => row));
  }

  Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    button.addEventListener("click", () => sortBy(header, column));
    header.replaceChildren(button);
  });
  table.tHead.rows[0].cells[0].setAttribute("aria-sort", "ascending");
  const controls = document.getElementById("controls");
  controls.hidden = false;
  controls.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", update);
  filter.addEventListener("change", update);
  update();
})();
