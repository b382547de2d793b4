"use strict";
// Without this script everything on the page can be read; with it tables sort, and one spectrum is shown at a time.

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const order = [...body.rows];
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  heads.forEach((head, column) => {
    const numeric = head.classList.contains("number");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const next = was === "ascending" ? "descending" : was === "descending" ? null : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (next === null) { body.append(...order); return; }
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      body.append(...[...order].sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        if (x === "" || y === "") return (x === "") - (y === "");  // what has no value comes last, either way
        return sign * (numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true }));
      }));
    });
  });
}

for (const section of document.querySelectorAll("[data-choose]")) {
  const parts = [...section.querySelectorAll(":scope > details")];
  if (parts.length === 0) continue;
  const label = document.createElement("label");
  const select = document.createElement("select");
  const box = document.createElement("div");
  box.className = "choose";
  label.textContent = section.dataset.choose;
  label.htmlFor = select.id = section.id + "-choice";
  for (const part of parts) {
    const option = document.createElement("option");
    option.value = part.id;
    option.textContent = part.querySelector("summary").textContent.trim();
    select.append(option);
    part.classList.add("chosen");
  }
  const show = (id) => {
    for (const part of parts) { part.hidden = part.id !== id; part.open = part.id === id; }
    select.value = id;
  };
  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (parts.some((part) => part.id === id)) { show(id); section.scrollIntoView(); }
  };
  select.addEventListener("change", () => show(select.value));
  window.addEventListener("hashchange", follow);
  box.append(label, select);
  section.prepend(box);
  show(section.dataset.first);
  follow();
}
