/* Tables of cells: a click on a heading sorts, words filter, and a button downloads them as CSV. */
(function () {
  "use strict";
  const FEW = 6; // rows that need neither a filter nor a download

  const value = function (row, column) {
    const text = row.cells[column].textContent;
    const plain = Number(text.replace(/[,%]/g, ""));
    return text !== "" && !Number.isNaN(plain) ? plain : text;
  };

  const compare = function (a, b) {
    if (typeof a === typeof b) { return a < b ? -1 : Number(a > b); }
    return typeof a === "number" ? -1 : 1; // numbers come before words
  };

  const sort = function (table, column) {
    const heads = [...table.tHead.rows[0].cells];
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach(function (head) { head.removeAttribute("aria-sort"); });
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort(function (a, b) {
      const order = compare(value(a, column), value(b, column));
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  };

  const csv = function (table) {
    const quoted = function (cell) { return '"' + cell.textContent.replace(/"/g, '""') + '"'; };
    const line = function (row) { return [...row.cells].map(quoted).join(","); };
    return [...table.rows].map(line).join("\n") + "\n";
  };

  const tools = function (table) {
    const box = document.createElement("div");
    box.className = "table-tools";
    const words = document.createElement("input");
    words.type = "search";
    words.placeholder = "filter " + table.tBodies[0].rows.length + " rows";
    words.setAttribute("aria-label", "filter the rows of this table");
    words.addEventListener("input", function () {
      const wanted = words.value.toLowerCase().split(/\s+/);
      [...table.tBodies[0].rows].forEach(function (row) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every(function (word) { return text.includes(word); });
      });
    });
    const link = document.createElement("a");
    link.textContent = "CSV";
    link.href = "#";
    link.download = "table.csv";
    link.addEventListener("click", function () {
      link.href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv(table));
    });
    box.append(words, link);
    table.parentElement.before(box);
  };

  document.querySelectorAll("table.data").forEach(function (table) {
    [...table.tHead.rows[0].cells].forEach(function (head, column) {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      button.addEventListener("click", function () { sort(table, column); });
      head.append(button);
    });
    if (table.tBodies[0].rows.length > FEW) { tools(table); }
  });
})();
