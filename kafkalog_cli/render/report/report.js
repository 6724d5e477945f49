"use strict";
(() => {
  const root = document.documentElement;

  // Theme: as the system, then the other ones by hand.
  const themes = { "": "as the system", light: "light", dark: "dark" };
  const toggle = document.getElementById("theme");
  const show = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    toggle.textContent = "Theme: " + themes[theme];
  };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const order = Object.keys(themes);
    show(order[(order.indexOf(root.dataset.theme || "") + 1) % order.length]);
  });

  // Tables: a click on a title sorts, a second one turns the order round.
  const value = (row, column) => {
    const cell = row.cells[column];
    const order = cell.dataset.order;
    return order === undefined ? cell.textContent : Number(order);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const sort = (table, column) => {
    const title = table.tHead.rows[0].cells[column];
    const up = title.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    title.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    rows.sort((a, b) => (up ? compare(a[0], b[0]) : compare(b[0], a[0])));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
  };
  const find = (table) => {
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Find a partition";
    input.setAttribute("aria-label", "Find a partition in this table");
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
    table.parentNode.before(input);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((title, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = title.textContent;
      button.addEventListener("click", () => sort(table, column));
      title.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length > 12) find(table);
  }

  // What a link leads to is unfolded.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
