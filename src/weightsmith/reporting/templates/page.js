"use strict";
// The page is readable without this script. With it tables can be sorted, one option of a choice is shown at a time,
// figures show the values under the pointer, and the colours can be switched.

const root = document.documentElement;
const say = (text) => { const status = document.getElementById("status"); if (status) status.textContent = text; };
const made = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};

// Tables: each head is a button; a third press restores the original order.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const order = [...body.rows];
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  heads.forEach((head, column) => {
    const numeric = head.classList.contains("number");
    const button = made("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const next = was === "ascending" ? "descending" : was === "descending" ? null : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      say(next === null ? "in the original order" : `sorted by ${button.textContent}, ${next}`);
      if (next === null) { body.append(...order); return; }
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      body.append(...[...order].sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        if (x === "" || y === "") return (x === "") - (y === "");  // missing values come last in both orders
        return sign * (numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true }));
      }));
    });
  });
}

// The element that the address names. A lone % that is not part of a percent code stands for itself.
const addressed = () => {
  const name = location.hash.slice(1);
  let decoded = name;
  try { decoded = decodeURIComponent(name); } catch (error) { if (!(error instanceof URIError)) throw error; }
  return document.getElementById(decoded);
};

// Choices: a list selects the option shown; an address that names an option, or an element in it, shows it.
for (const section of document.querySelectorAll("[data-choose]")) {
  const parts = [...section.querySelectorAll(":scope > details")];
  if (parts.length === 0) continue;
  const select = made("select");
  select.setAttribute("aria-labelledby", section.dataset.choose);
  for (const part of parts) {
    const option = made("option", part.querySelector("summary").textContent.trim());
    option.value = part.id;
    option.dir = "auto";
    select.append(option);
    part.classList.add("chosen");
  }
  const show = (id) => {
    for (const part of parts) { part.hidden = part.id !== id; part.open = part.id === id; }
    select.value = id;
  };
  const follow = () => {
    const target = addressed();
    const part = target && parts.find((one) => one.contains(target));
    if (part) { show(part.id); (part === target ? section : target).scrollIntoView(); }
  };
  select.addEventListener("change", () => show(select.value));
  window.addEventListener("hashchange", follow);
  section.querySelector(":scope > .choose").append(select);
  show(section.dataset.first);
  follow();
}

// Colours: those of the system until the button is pressed.
const theme = document.getElementById("theme");
if (theme) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { theme.textContent = dark() ? "Light colours" : "Dark colours"; };
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  system.addEventListener("change", name);
  theme.hidden = false;
  name();
}

// Contents: folded if there is no room at the side; the section being read is marked.
const contents = document.querySelector("nav > details");
if (contents) {
  const wide = matchMedia("(min-width: 64rem)");
  const fold = () => { contents.open = wide.matches; };
  wide.addEventListener("change", fold);
  fold();
  contents.addEventListener("click", (event) => { if (event.target.closest("a") && !wide.matches) contents.open = false; });
  const lists = [...contents.querySelectorAll("ol ol")];
  const many = contents.querySelectorAll("ol ol a").length > 30;
  const links = new Map([...contents.querySelectorAll(":scope > ol > li > a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const current = [...links.keys()].find((id) => seen.has(id));
    if (!current) return;
    for (const [id, link] of links) {
      if (id === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
    // With many entries only the section being read shows its parts, so that the list fits on the screen.
    for (const list of lists) list.hidden = many && wide.matches && list.previousElementSibling !== links.get(current);
  }, { rootMargin: "-15% 0px -60% 0px" });
  for (const id of links.keys()) { const section = document.getElementById(id); if (section) watch.observe(section); }
}

// In print everything is unfolded, except options that are not selected.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open]):not(.chosen)")];
  for (const part of folded) part.open = true;
});
window.addEventListener("afterprint", () => { for (const part of folded) part.open = false; });

// Figures: the point under the pointer or the finger, or the next one by arrow keys. reporting/hover.py documents
// data-points; a point is identified by the indices of its panel and series and its index in the series.
const REACH = 24;  // pixels
const tip = made("div", undefined, "tip");
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");  // with keys, #status announces its text
document.body.append(tip);
let hide = () => {};
let still = 0;  // time until which scrolling does not hide a point selected by keys
window.addEventListener("scroll", () => { if (performance.now() > still) hide(); }, { passive: true });

const number = (value) => {
  if (typeof value !== "number") return String(value);
  const whole = Number.isInteger(value) && Math.abs(value) < 1e15;
  const small = value !== 0 && Math.abs(value) < 1e-4;
  const text = whole ? value.toLocaleString("en-GB") : small ? value.toExponential() : String(value);
  return text.replaceAll("-", "\u2212");
};
const told = ([name, unit], value) => {
  if (value === null || value === "") return [];
  const gap = unit && unit !== "°" ? "\u00a0" : "";
  return [{ name: typeof value === "string" && name.length > 24 ? "" : name, value: number(value) + gap + unit }];
};
const clamped = (value, low, high) => Math.max(low, Math.min(value, high));

const placeOf = (series, index) => {
  if (!series.grid) return [series.x[index], series.y[index]];
  const [left, top, across, along] = series.grid;
  return [left + across * (index % series.a.length), top + along * Math.floor(index / series.a.length)];
};
const wordsOf = (panel, series, index) => {
  const columns = series.a.length;
  const [a, b] = series.grid ? [index % columns, Math.floor(index / columns)] : [index, index];
  const both = [told(panel.x, series.a[a]), told(panel.y, series.b[b])];
  if (series.by === "y") both.reverse();  // the name of a bar before its length
  const third = series.c ? told(series.z, series.c[index]) : [];
  return { name: series.t?.[index] || series.name || "", lines: [...both.flat(), ...third] };
};
const distanceTo = (series, index, pointer) => {
  const [x, y] = [Math.abs(series.x[index] - pointer.x), Math.abs(series.y[index] - pointer.y)];
  return series.by === "x" ? x + y / 1000 : series.by === "y" ? y + x / 1000 : Math.hypot(x, y);
};
const cellUnder = ({ grid, a, b, c }, pointer) => {
  const column = Math.round((pointer.x - grid[0]) / grid[2]);
  const row = Math.round((pointer.y - grid[1]) / grid[3]);
  const index = row * a.length + column;
  return column >= 0 && column < a.length && row >= 0 && row < b.length && c[index] !== null ? index : null;
};

const nearest = (panels, pointer, reach) => {
  let best = null;
  let least = reach;
  panels.forEach((panel, p) => {
    const [left, top, right, bottom] = panel.box;
    if (pointer.x < left - 6 || pointer.x > right + 6 || pointer.y < top - 6 || pointer.y > bottom + 6) return;
    panel.series.forEach((series, s) => {
      if (series.grid) {
        const index = cellUnder(series, pointer);
        if (index !== null && least === reach) best = [p, s, index];  // points lie on top of images
        return;
      }
      for (const index of series.order) {
        const distance = distanceTo(series, index, pointer);
        if (distance < least) { least = distance; best = [p, s, index]; }
      }
    });
  });
  return best;
};

// Left and right go along a series, up and down to another one; in an image all four go from cell to cell.
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
const stepped = (panels, at, key) => {
  const every = panels.flatMap((panel, p) => panel.series.map((series, s) => [p, s, series.order[0]]));
  if (!at) return every[0];
  const [p, s, index] = at;
  const series = panels[p].series[s];
  const last = series.order.length - 1;
  const along = series.order.indexOf(index);
  const places = { ArrowRight: along + 1, ArrowLeft: along - 1, Home: 0, End: last };
  if (key in places) return [p, s, series.order[clamped(places[key], 0, last)]];
  const sign = key === "ArrowDown" || key === "PageDown" ? 1 : -1;
  if (series.grid && key.startsWith("Arrow")) {
    let next = index + sign * series.a.length;
    while (series.c[next] === null) next += sign * series.a.length;
    return series.c[next] === undefined ? at : [p, s, next];
  }
  const now = every.findIndex((one) => one[0] === p && one[1] === s);
  const other = every[(now + sign + every.length) % every.length];
  const target = panels[other[0]].series[other[1]];
  const away = (one) => Math.abs(placeOf(target, one)[0] - placeOf(series, index)[0]);
  return [other[0], other[1], target.order.reduce((a, b) => (away(b) < away(a) ? b : a))];
};

const ordered = (series) => {
  if (series.grid) return series.c.flatMap((value, index) => (value === null ? [] : [index]));
  const first = series.by === "y" ? series.y : series.x;
  return first.map((_, index) => index).sort((a, b) => first[a] - first[b] || a - b);
};

for (const drawing of document.querySelectorAll("[data-points]")) {
  const svg = drawing.querySelector("svg");
  const mark = document.createElementNS(svg.namespaceURI, "circle");
  mark.setAttribute("class", "mark");
  mark.setAttribute("r", "4");
  let panels = null;
  let at = null;
  const load = () => {
    panels ??= JSON.parse(drawing.dataset.points).panels.map((panel) => (
      { ...panel, series: panel.series.map((series) => ({ ...series, order: ordered(series) })) }
    ));
    return panels;
  };
  const show = (found, spoken) => {
    at = found;
    const panel = panels[found[0]];
    const series = panel.series[found[1]];
    const [x, y] = placeOf(series, found[2]);
    const { name, lines } = wordsOf(panel, series, found[2]);
    hide();
    mark.setAttribute("cx", x);
    mark.setAttribute("cy", y);
    svg.append(mark);
    hide = () => { tip.hidden = true; mark.remove(); };
    if (spoken) {
      still = performance.now() + 300;
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
      say([name, ...lines.map((line) => `${line.name} ${line.value}`.trim())].filter(Boolean).join(", "));
    }
    tip.replaceChildren(...(name ? [made("bdi", name, "name")] : []), ...lines.map((line) => {
      const row = made("div", line.name && line.name + " ");
      row.append(made("bdi", line.value));
      return row;
    }));
    tip.hidden = false;
    const where = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const { width, height } = tip.getBoundingClientRect();
    const above = where.y - height - 12;
    tip.style.left = `${clamped(where.x - width / 2, 4, root.clientWidth - width - 4)}px`;
    tip.style.top = `${above > 4 ? above : where.y + 14}px`;
  };
  const point = (event) => {
    const pointer = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const found = nearest(load(), pointer, REACH * svg.viewBox.baseVal.width / svg.clientWidth);
    if (found) show(found, false); else hide();
  };
  drawing.setAttribute("role", "application");
  drawing.setAttribute("aria-roledescription", "figure with points; arrow keys move between them");
  drawing.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event); });
  drawing.addEventListener("pointerdown", point);
  drawing.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  drawing.addEventListener("blur", () => hide());
  drawing.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hide(); at = null; }
    if (!KEYS.includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(stepped(load(), at, event.key), true);
  });
}
