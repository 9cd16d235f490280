"use strict";
(() => {
  const table = document.getElementById("translations");
  const body = table.tBodies[0];
  const search = document.getElementById("search");
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const none = document.getElementById("none");
  const found = document.getElementById("found");
  // All words of both sides, and numbers of their best words on the other side.
  const all = {{ searched | tojson }};
  // Found whatever the case and the accents.
  const known = new Map();
  const fold = (text) => {
    if (!known.has(text)) known.set(text, text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase());
    return known.get(text);
  };
  const rows = Array.from(body.rows, (row) => ({
    row,
    words: Array.from(row.querySelectorAll("bdi"), (word) => word.textContent),
  }));
  // 0 for the word itself, 1 but for case and accents, 2 at its beginning, 3 within, 4 for none.
  function rankOf(word, wanted) {
    const [text, part] = [fold(word), fold(wanted)];
    if (text === part) return Number(word.normalize() !== wanted.normalize());
    return text.startsWith(part) ? 2 : text.includes(part) ? 3 : 4;
  }

  function lineOf({ word, side, numbers }) {
    const line = document.createElement("li");
    const names = [word, ...[numbers].flat().map((number) => all.words[1 - side][number])];
    const parts = names.flatMap((name, k) => {
      const bdi = document.createElement("bdi");
      bdi.textContent = name;
      return k ? [k > 1 ? ", " : side ? " ← " : " → ", bdi] : [bdi];
    });
    line.replaceChildren(...parts);
    return line;
  }

  function searchAll(wanted) {
    const lines = all.words.flatMap((words, side) => words
      .map((word, k) => ({ rank: rankOf(word, wanted), word, side, numbers: all.best[side][k] }))
      .filter(({ rank }) => rank < 4));
    lines.sort((one, other) => one.rank - other.rank);
    found.replaceChildren(...lines.slice(0, 100).map(lineOf));
    found.hidden = !lines.length;
  }

  function update() {
    const wanted = search.value.trim();
    let count = 0;
    for (const item of rows) {
      item.rank = wanted ? Math.min(...item.words.map((word) => rankOf(word, wanted))) : 0;
      const fits = item.rank < 4 && (!filter.value || item.row.classList.contains(filter.value));
      item.row.hidden = !fits;
      count += fits;
    }
    body.append(...[...rows].sort((a, b) => a.rank - b.rank).map(({ row }) => row));
    found.hidden = true;
    if (wanted) searchAll(wanted);
    shown.textContent = `${count} of ${rows.length} shown`;
    none.hidden = count > 0 || !found.hidden;
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
    update();
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
