// Charts that stretch: lines are SVG without a size of its own, everything with text is placed in percent. So a page
// needs no drawing again when a window or a sheet of paper is narrower.
const SERIES = 8;
const colorOf = (engine) => `var(--s${engine % SERIES})`;
const main = document.querySelector("main");
const latency = (micros) => !isNumber(micros) || micros <= 0 ? "–"
  : micros < 1000 ? `${micros < 10 ? micros.toFixed(2) : micros < 100 ? micros.toFixed(1) : micros.toFixed(0)} µs`
  : micros < 1e6 ? `${(micros / 1000).toFixed(micros < 1e5 ? 1 : 0)} ms` : `${(micros / 1e6).toFixed(2)} s`;
const mebibytes = (value) => value > 0 ? bytes(value * 1048576) : "–";
const seconds = (value) => value > 0 && value < 0.1 ? latency(value * 1e6) : value > 0 ? `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0)} s` : "–";
const ratio = (value) => !isNumber(value) ? "–" : `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;
const amplification = (value) => value > 0 ? value.toFixed(value < 10 ? 2 : 1) : "–";

// A scale of logarithms from the least to the greatest value, both widened to a step of 1, 2 or 5 times a power of ten.
function logScale(low, high, steps = [1, 2, 5]) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of steps) ticks.push(step * 10 ** power);
  const first = ticks.findLast((tick) => tick <= low * 1.0001) ?? ticks[0];
  const last = ticks.find((tick) => tick >= high * 0.9999 && tick > first) ?? ticks[ticks.length - 1];
  const [from, to] = [Math.log(first), Math.log(last)];
  return {
    ticks: ticks.filter((tick) => tick >= first && tick <= last),
    at: (value) => Math.min(1, Math.max(0, (Math.log(Math.max(value, first)) - from) / (to - from))),
  };
}
function linearScale(high) {
  const power = 10 ** Math.floor(Math.log10(high || 1));
  const step = [0.2, 0.5, 1, 2].map((step) => step * power).find((step) => high / step <= 5) || 2 * power;
  const top = Math.max(step, Math.ceil((high || 1) / step - 1e-9) * step);
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step);
  return { ticks, at: (value) => Math.min(1, Math.max(0, value / top)) };
}
// Numbers on an axis need no zeros at their end.
const bare = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
// Some of many ticks, the first and the last among them.
const thin = (ticks, count) => ticks.filter((_, index) => index % Math.ceil((ticks.length - 1) / Math.max(1, count - 1) || 1) === 0);

// Lines over two scales. A line: {engine, name, points: [[x, y], ...], thin}. `bands` are marked spans of x: [from, to, engine].
function linePlot({ title, lines, x, y, xText, yText, low, bands = [], dots = false }) {
  const px = (value) => (x.at(value) * 1000).toFixed(1), py = (value) => (1000 - y.at(value) * 1000).toFixed(1);
  const shape = svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", "aria-hidden": "true" },
    y.ticks.map((tick) => svg("path", { class: "gridline", d: `M0 ${py(tick)}H1000` })),
    bands.map(([from, to, engine]) => svg("rect", { class: "stall", style: { fill: colorOf(engine) }, x: px(from), width: Math.max(2, px(to) - px(from)), y: 0, height: 1000 })),
    lines.map((line) => svg("path", {
      class: line.thin ? "thin" : null, style: { stroke: colorOf(line.engine) },
      d: line.points.map(([a, b], index) => `${index ? "L" : "M"}${px(a)} ${py(b)}`).join(""),
    })));
  const area = h("div", { class: "area" }, shape);
  if (dots) for (const line of lines) for (const [a, b] of line.points)
    area.append(withHint(h("button", {
      type: "button", class: "dot small", "aria-label": `${line.name} ${xText(a)} ${yText(b)}`,
      style: { left: `${x.at(a) * 100}%`, top: `${100 - y.at(b) * 100}%`, background: colorOf(line.engine) },
    }), () => [line.name, [[xText(a), yText(b)]]]));
  else addCursor(area, lines, x, xText, yText);
  const yTicks = thin(y.ticks, low ? 4 : 6), xTicks = thin(x.ticks, 7);
  return h("figure", { class: "plot" }, title && h("figcaption", {}, title),
    h("div", { class: low ? "frame low" : "frame" },
      h("div", { class: "y" }, yTicks.map((tick) => h("span", { style: { bottom: `${y.at(tick) * 100}%` } }, bare(yText(tick))))),
      area,
      h("div", { class: "x" }, xTicks.map((tick) => {
        const at = x.at(tick);
        return h("span", { class: at > 0.97 ? "last" : at < 0.03 ? "first" : null, style: { left: `${at * 100}%` } }, bare(xText(tick)));
      }))));
}
// Under the pointer: the point of each line that is nearest.
function addCursor(area, lines, x, xText, yText) {
  const cursor = h("div", { class: "cursor", hidden: true });
  area.append(cursor);
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect(), at = (event.clientX - box.left) / box.width;
    const near = lines.filter((line) => line.points.length > 0).map((line) =>
      [line, line.points.reduce((best, point) => Math.abs(x.at(point[0]) - at) < Math.abs(x.at(best[0]) - at) ? point : best)]);
    if (near.length === 0) return;
    cursor.hidden = false;
    cursor.style.left = `${at * 100}%`;
    showHint(cursor, xText(near[0][1][0]), near.map(([line, point]) => [line.name, yText(point[1])]));
  });
  area.addEventListener("pointerleave", () => { cursor.hidden = true; hideHint(cursor); });
}

// Bars of every engine for every test and metric. A metric: {title, value(cell), text(value), low(cell), high(cell),
// better: "more" | "less"}. Bars are as long as their share of the greatest value of the same test and metric.
function barMatrix(tests, metrics, cellsOf) {
  const shownTests = tests.filter((test) => metrics.some((metric) => cellsOf(test).some((cell) => metric.value(cell) > 0)));
  if (shownTests.length === 0) return null;
  const used = metrics.filter((metric) => shownTests.some((test) => cellsOf(test).some((cell) => metric.value(cell) > 0)));
  const columns = `minmax(110px, ${used.length > 2 ? 170 : 230}px) ${used.map(() => "minmax(0, 1fr)").join(" ")}`;
  const one = (test, metric) => {
    const cells = cellsOf(test);
    const good = cells.filter((cell) => cell.rounds > 0 && metric.value(cell) > 0);
    const most = Math.max(0, ...good.map((cell) => Math.max(metric.value(cell), metric.high ? metric.high(cell) : 0)));
    const extreme = metric.better === "more" ? Math.max(...good.map(metric.value)) : Math.min(...good.map(metric.value));
    const isBest = (cell) => good.length > 1 && good.filter((other) => metric.value(other) === extreme).length === 1 && metric.value(cell) === extreme;
    return h("div", { class: "mini", "data-title": metric.title }, cells.map((cell) => {
      const value = metric.value(cell), text = metric.text(value);
      const name = DATA.engines[cell.engine].name;
      if (cell.rounds === 0) return [h("div", { class: "track" }), h("span", { class: "number" }, h("span", { class: "badge bad" }, cell.status))];
      const bar = h("div", { class: "track", tabindex: 0, "aria-label": `${name}: ${text}` },
        value > 0 && h("div", { class: "fill", style: { width: `${100 * value / most}%`, background: colorOf(cell.engine) } }),
        metric.low && cell.rounds > 1 && h("div", { class: "whisker", style: {
          left: `${100 * metric.low(cell) / most}%`, width: `${100 * (metric.high(cell) - metric.low(cell)) / most}%` } }));
      withHint(bar, () => [`${name}: ${test.label}`, factsOfCell(cell)]);
      return [bar, h("span", { class: isBest(cell) ? "number best" : "number" }, text)];
    }));
  };
  return h("div", { class: "matrix", style: { "grid-template-columns": columns } },
    h("div", { class: "head" }), used.map((metric) => h("div", { class: "head" }, metric.title)),
    shownTests.map((test) => [h("div", { class: "name" }, test.label), used.map((metric) => one(test, metric))]));
}

function factsOfCell(cell) {
  const facts = [["operations/s", whole(cell.ops)]];
  if (cell.rounds > 1) facts.push([`spread over ${cell.rounds} rounds`, `${percent(cell.spread)} (${short(cell.ops_min)} to ${short(cell.ops_max)})`]);
  facts.push(["latency p50, p99", `${latency(cell.p50)}, ${latency(cell.p99)}`], ["p99.9, max", `${latency(cell.p99_9)}, ${latency(cell.max)}`],
    ["memory", mebibytes(cell.rss)], ["processor", seconds(cell.cpu_user + cell.cpu_sys)], ["written", mebibytes(cell.write_mb)],
    ["size", mebibytes(cell.size)], ["amplification w, r, s", [cell.write_amp, cell.read_amp, cell.space_amp].map(amplification).join(", ")]);
  if (cell.failed > 0) facts.push(["rounds that failed", whole(cell.failed)]);
  return facts;
}
