"use strict";
// What every page uses: elements without markup from data, numbers as text, hints, sortable tables.
// Text from data becomes text nodes only: nothing that a key or a name holds is ever read as markup.

window.addEventListener("error", (event) => {
  document.body.dataset.failed = "yes";
  const failure = document.getElementById("failure");
  if (failure) failure.textContent = "This page could not be drawn in full: " + event.message;
});

const DATA = JSON.parse(document.getElementById("data").textContent);

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}
const h = (tag, attributes, ...children) => fillElement(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const isNumber = (value) => typeof value === "number" && isFinite(value);
function bytes(value) {
  if (!isNumber(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return (unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}
const whole = (value) => isNumber(value) ? Math.round(value).toLocaleString("en-US") : "–";
function short(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return (value / 1e9).toFixed(size >= 1e10 ? 1 : 2) + " G";
  if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 1 : 2) + " M";
  if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + " k";
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}
const percent = (share) => isNumber(share) ? (share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0) + " %" : "–";

const swatch = (color) => h("i", { class: "swatch", style: { background: color } });
const tile = (value, label) => h("div", { class: "tile" }, h("div", { class: "value" }, value), h("div", { class: "label" }, label));
const legend = (entries) => h("div", { class: "legend" }, entries.map(([color, label]) => h("span", {}, swatch(color), label)));

// The hint: one box for all, shown by pointer, keyboard and tap.
const hint = h("div", { id: "tip", role: "status", hidden: true });
document.body.append(hint);
let hintOwner = null;
function showHint(owner, title, facts) {
  hint.replaceChildren(h("b", {}, title), h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  hint.hidden = false;
  hintOwner = owner;
  const box = owner.getBoundingClientRect(), size = hint.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - size.width / 2), innerWidth - size.width - 8);
  const above = box.top - size.height - 8;
  hint.style.left = Math.max(8, left) + scrollX + "px";
  hint.style.top = (above > 4 ? above : box.bottom + 8) + scrollY + "px";
}
function hideHint(owner) { if (!owner || owner === hintOwner) { hint.hidden = true; hintOwner = null; } }
// `make` answers [title, [[name, value], ...]] and is called only when the hint is shown.
function withHint(element, make) {
  const show = () => showHint(element, ...make());
  element.addEventListener("pointerenter", show);
  element.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hideHint(element); });
  element.addEventListener("focus", show);
  element.addEventListener("blur", () => hideHint(element));
  element.addEventListener("click", (event) => { event.stopPropagation(); show(); });
  return element;
}
document.addEventListener("click", () => hideHint());
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideHint(); });

// A table whose columns sort. A column: {title, value(row), cell(value, row), left, descending}.
function sortableTable(columns, rows, attributes) {
  let sorted = -1, up = true, shown = rows;
  const body = h("tbody");
  const fillBody = () => body.replaceChildren(...shown.map((row) => h("tr", {}, columns.map((column) => {
    const value = column.value(row);
    return h("td", { class: column.left ? "left" : null }, column.cell ? column.cell(value, row) : value ?? "–");
  }))));
  const heads = columns.map((column, index) => h("th", { scope: "col", class: column.left ? "left" : null },
    h("button", { type: "button", onclick: () => sort(index) }, column.title)));
  function order() {
    if (sorted < 0) return;
    const { value } = columns[sorted];
    const isAbsent = (item) => item === null || item === undefined || Number.isNaN(item);
    shown = [...shown].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (isAbsent(x) || isAbsent(y)) return isAbsent(x) - isAbsent(y);
      const compared = isNumber(x) && isNumber(y) ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
      return up ? compared : -compared;
    });
  }
  function sort(index) {
    up = sorted === index ? !up : !columns[index].descending;
    sorted = index;
    heads.forEach((head, at) => at === index ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
    order();
    fillBody();
  }
  fillBody();
  const table = h("table", attributes, h("thead", {}, h("tr", {}, heads)), body);
  table.showRows = (some) => { shown = some; order(); fillBody(); };
  return table;
}
