// Draws the report of one set of results: DATA is what `report_data` of the program makes of rows.
const { engines, tests, cells } = DATA;
const cellAt = new Map(cells.map((cell) => [`${cell.test}/${cell.engine}`, cell]));
const testIndex = new Map(tests.map((test, index) => [test, index]));
const cellsOf = (test) => engines.map((_, engine) => cellAt.get(`${testIndex.get(test)}/${engine}`)).filter(Boolean);
const isGood = (cell) => cell && cell.rounds > 0 && cell.ops > 0;
const engineLegend = (only) => legend(engines.map((engine, index) => [colorOf(index), engine.name]).filter((_, index) => !only || only.has(index)));
const card = (title, note, ...content) => h("section", { class: "card" }, h("h2", {}, title), note && h("p", { class: "sub" }, note), content);
const nameOf = (cell) => engines[cell.engine].name;

// --- Compared with a baseline ---
// What is shown as 1.00 is neither faster nor slower.
const sideOf = (value) => ratio(value) === ratio(1) ? "" : value > 1 ? "good" : "bad";
function speedUp(baseline) {
  const pairs = tests.map((test) => {
    const base = cellAt.get(`${testIndex.get(test)}/${baseline}`);
    const others = cellsOf(test).filter((cell) => cell.engine !== baseline);
    return { test, base, others, ratios: isGood(base) ? others.filter(isGood).map((cell) => [cell, cell.ops / base.ops]) : [] };
  }).filter((pair) => pair.others.length > 0);
  const all = pairs.flatMap((pair) => pair.ratios);
  const subject = engines.findIndex((_, index) => index !== baseline);
  const low = Math.min(0.5, ...all.map(([, value]) => value)), high = Math.max(2, ...all.map(([, value]) => value));
  const scale = logScale(low, high, high / low > 300 ? [1] : [1, 2, 5]);
  const left = (value) => `${(scale.at(value) * 100).toFixed(2)}%`;
  const summary = engines.map((engine, index) => {
    const own = all.filter(([cell]) => cell.engine === index).map(([, value]) => value);
    if (own.length === 0) return null;
    const mean = Math.exp(sumOf(own.map(Math.log)) / own.length);
    return [tile(ratio(mean), `${engine.name}: geometric mean of ${whole(own.length)} tests`),
      tile(`${whole(own.filter((value) => sideOf(value) === "good").length)} of ${whole(own.length)}`, `tests in which ${engine.name} is faster`)];
  });
  const row = ({ test, base, ratios }) => {
    const line = h("div", { class: "dots" }, scale.ticks.map((tick) => h("i", { class: tick === 1 ? "rule one" : "rule", style: { left: left(tick) } })));
    for (const [cell, value] of ratios) {
      const ends = [cell.ops_min / base.ops_max, cell.ops_max / base.ops_min];
      if (cell.rounds > 1 && base.rounds > 1) line.append(h("i", { class: "span", style: {
        left: left(ends[0]), width: `${((scale.at(ends[1]) - scale.at(ends[0])) * 100).toFixed(2)}%`, background: colorOf(cell.engine) } }));
      line.append(withHint(h("button", { type: "button", class: "dot", "aria-label": `${nameOf(cell)} ${ratio(value)}`,
        style: { left: left(value), background: colorOf(cell.engine) } }),
      () => [`${nameOf(cell)}: ${ratio(value)} of ${engines[baseline].name}`, [["test", test.label], ...factsOfCell(cell)]]));
    }
    const main = ratios.find(([cell]) => cell.engine === subject);
    const failed = cellsOf(test).filter((cell) => !isGood(cell));
    return h("div", { class: "chart-row" }, h("div", { class: "name" }, test.label), line,
      h("div", { class: `number ${main ? sideOf(main[1]) : ""}` },
        main ? ratio(main[1]) : failed.length > 0 ? h("span", { class: "badge bad" }, failed[0].status) : "–"));
  };
  const ticks = thin(scale.ticks, 8);
  return h("div", {}, h("div", { class: "tiles" }, summary), engineLegend(new Set([...all.map(([cell]) => cell.engine)])),
    h("div", { class: "chart-row" }, h("div", { class: "name sub" }, "slower to the left, faster to the right"),
      h("div", { class: "axis-line" }, (ticks.includes(1) ? ticks : scale.ticks.filter((tick) => ticks.includes(tick) || tick === 1))
        .map((tick) => h("span", { style: { left: left(tick) } }, `${tick}×`))),
      h("div", { class: "number sub" }, engines[subject]?.name)),
    pairs.map(row));
}
const sumOf = (numbers) => numbers.reduce((total, number) => total + number, 0);

function speedUpCard() {
  if (engines.length < 2) return null;
  const preferred = engines.findIndex((engine) => !engine.name.startsWith("kingtide"));
  const first = preferred < 0 ? 0 : preferred;
  const place = h("div", {}, speedUp(first));
  const choice = h("select", { id: "baseline", onchange: (event) => place.replaceChildren(speedUp(Number(event.target.value))) },
    engines.map((engine, index) => h("option", { value: index, selected: index === first }, engine.name)));
  return h("section", { class: "card", id: "speed-up" }, h("h2", {}, "How much faster"),
    h("p", { class: "sub" }, "Operations per second divided by those of the baseline, test by test; lines show the spread over rounds."),
    h("div", { class: "controls" }, h("label", {}, "Baseline", choice)), place);
}

// --- Scaling: tests that differ in one number only ---
function scalingGroups(dimension) {
  const groups = new Map();
  for (const test of tests) {
    const rest = { ...test, label: "", operations: 0, [dimension]: 0 };
    // Another batch often comes with another number of keys; another test name always.
    const key = JSON.stringify(rest);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(test);
  }
  return [...groups.values()].filter((group) => new Set(group.map((test) => test[dimension])).size > 1);
}
function scalingPlot(group, dimension, what) {
  const sorted = [...group].sort((a, b) => a[dimension] - b[dimension]);
  const lines = engines.map((engine, index) => {
    // The last test of a size counts when there are several.
    const points = new Map(sorted.map((test) => [test[dimension], cellAt.get(`${testIndex.get(test)}/${index}`)]).filter(([, cell]) => isGood(cell)));
    return { engine: index, name: engine.name, points: [...points].map(([size, cell]) => [size, cell.ops]) };
  }).filter((line) => line.points.length > 0);
  if (lines.length === 0) return null;
  const sizes = [...new Set(sorted.map((test) => test[dimension]))];

  const x = { ticks: sizes, at: (value) => (Math.log(value) - Math.log(sizes[0])) / (Math.log(sizes[sizes.length - 1]) - Math.log(sizes[0])) };
  const y = linearScale(Math.max(...lines.flatMap((line) => line.points.map((point) => point[1]))));
  const first = sorted[0];
  const title = [first.workload || first.operation.toLowerCase(), first.pattern, dimension !== "value_size" && first.value_size > 0 && `${first.value_size} B`,
    dimension !== "threads" && first.threads > 1 && `${first.threads} threads`, first.sync === "full" && "synced"].filter(Boolean).join(", ");
  return linePlot({ title, lines, x, y, xText: (value) => `${whole(value)} ${what(value)}`.trim(), yText: (value) => `${short(value)}/s`, dots: true });
}
function scalingCard(title, dimension, note) {
  const plots = scalingGroups(dimension).map((group) => scalingPlot(group, dimension, () => "")).filter(Boolean);
  return plots.length > 0 && card(title, note, engineLegend(), h("div", { class: "grid" }, plots));
}

// --- Latency ---
const PERCENTILES = [["p50", "p50"], ["p95", "p95"], ["p99", "p99"], ["p99_9", "p99.9"], ["max", "max"]];
function latencyCard() {
  const good = cells.filter((cell) => isGood(cell) && cell.p50 > 0);
  if (good.length === 0) return null;
  const values = good.flatMap((cell) => PERCENTILES.map(([field]) => cell[field]).filter((value) => value > 0));
  const scale = logScale(Math.min(...values), Math.max(...values), [1]);
  const left = (value) => `${(scale.at(value) * 100).toFixed(2)}%`;
  const line = (test, cell) => {
    const points = PERCENTILES.map(([field, name]) => [name, cell[field]]).filter(([, value]) => value > 0);
    const [first, last] = [points[0][1], points[points.length - 1][1]];
    return h("div", { class: "dots" }, scale.ticks.map((tick) => h("i", { class: "rule", style: { left: left(tick) } })),
      h("i", { class: "span", style: { left: left(first), width: `${(scale.at(last) - scale.at(first)) * 100}%`, background: colorOf(cell.engine) } }),
      points.map(([name, value], index) => withHint(h("button", { type: "button", class: index === 0 ? "dot" : "dot small",
        "aria-label": `${nameOf(cell)} ${name} ${latency(value)}`, style: { left: left(value), background: colorOf(cell.engine) } }),
      () => [`${nameOf(cell)}: ${test.label}`, points.map(([name, value]) => [name, latency(value)])])));
  };
  return card("Latency", "Of one call (a batch is one call), on a scale of tens. From the large dot to the right: p50, p95, p99, p99.9 and the slowest. The number is p99.",
    engineLegend(),
    h("div", { class: "chart-row inline" }, h("div", { class: "name" }), h("div", { class: scale.ticks.length > 5 ? "axis-line many" : "axis-line" },
      thin(scale.ticks, 7).map((tick) => h("span", { style: { left: left(tick) } }, bare(latency(tick))))), h("div", { class: "number sub" }, "p99")),
    tests.map((test) => cellsOf(test).filter((cell) => isGood(cell) && cell.p50 > 0).map((cell, index) =>
      h("div", { class: "chart-row inline" }, h("div", { class: "name" }, index === 0 ? test.label : ""), line(test, cell),
        h("div", { class: "number", style: { color: colorOf(cell.engine) } }, latency(cell.p99))))));
}

// --- Time lines ---
const ratesOf = (timeline) => timeline.map((point, index) => point[1] / Math.max(1e-9, point[0] - (index > 0 ? timeline[index - 1][0] : 0)));
function timelineCard() {
  const withLines = tests.filter((test) => cellsOf(test).some((cell) => cell.timeline.length > 1));
  if (withLines.length === 0) return null;
  const draw = (test) => {
    const series = cellsOf(test).filter((cell) => cell.timeline.length > 1).map((cell) => ({ cell, rates: ratesOf(cell.timeline), stalls: cell.stalls }));
    const end = Math.max(...series.map(({ cell }) => cell.timeline[cell.timeline.length - 1][0]));
    const x = linearScale(end);
    const time = { ticks: x.ticks.filter((tick) => tick <= end * 1.0001), at: (value) => Math.min(1, value / end) };
    const lines = (of) => series.map(({ cell, rates }) => ({ engine: cell.engine, name: nameOf(cell), thin: true,
      points: cell.timeline.map((point, index) => [point[0], of(point, rates[index])]).filter((point) => point[1] !== null) }));
    const rate = lines((_, value) => value);
    const slow = lines((point) => point[4] > 0 ? point[4] : point[5] > 0 ? point[5] : null).filter((line) => line.points.length > 0);
    const slowest = slow.flatMap((line) => line.points.map((point) => point[1]));
    const clock = (value) => `${Number(value.toFixed(2)).toLocaleString("en-US")} s`;
    return h("div", {}, h("h3", {}, test.label),
      linePlot({ title: "operations per second", lines: rate, x: time, y: linearScale(Math.max(...rate.flatMap((line) => line.points.map((point) => point[1])))),
        xText: clock, yText: short, bands: series.flatMap(({ cell, stalls }) => stalls.map(([from, to]) => [from, to, cell.engine])) }),
      slowest.length > 0 && linePlot({ title: "p99.9 latency of a call", lines: slow, x: time, y: logScale(Math.min(...slowest), Math.max(...slowest), [1]),
        xText: clock, yText: latency, low: true }),
      series.map(({ cell, stalls }) => {
        const longest = Math.max(0, ...stalls.map(([from, to]) => to - from));
        return h("p", { class: "note" }, swatch(colorOf(cell.engine)), ` ${nameOf(cell)}: ${stalls.length === 0 ? "no stall"
          : `${whole(stalls.length)} ${stalls.length === 1 ? "stall" : "stalls"}, the longest ${longest.toFixed(1)} s,`} in ${clock(cell.timeline_seconds)}; slowest call ${latency(cell.timeline_max)}; `
          + `p99.9 is ${cell.p50 > 0 ? bare((cell.p99_9 / cell.p50).toFixed(1)) : "–"} times the median.`);
      }));
  };
  return h("section", { class: "card", id: "timelines" }, h("h2", {}, "Over time"),
    h("p", { class: "sub" }, "Shaded in the colour of the engine: stalls, in which fewer than a tenth of its usual number of operations ended."),
    engineLegend(), h("div", { class: "grid" }, withLines.map(draw)));
}

// --- Targets ---
const TARGET_TEXT = { throughput: (value) => `${short(value)}/s`, p99: latency, tail: ratio, memory: mebibytes, size: mebibytes, "settled-size": mebibytes,
  "write-amplification": amplification, "space-amplification": amplification };
// Small quotients keep digits, so that they can be told apart.
const quotient = (value) => value < 0.1 ? `${Number(value.toPrecision(2))}×` : ratio(value);
const JUDGED = { reached: "good", median: "warn", better: "warn", missed: "bad", unmeasured: "bad" };
function targetsCard() {
  const lines = DATA.targets || [];
  if (lines.length === 0) return null;
  const text = (value, line) => value > 0 ? TARGET_TEXT[line.number](value) : "–";
  const middle = (numbers) => { const sorted = [...numbers].sort((a, b) => a - b); return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null; };
  const judged = lines.filter((line) => line.target !== null);
  const reached = judged.filter((line) => line.judgement === "reached").length;
  const hasPeers = lines.some((line) => line.peer);
  const columns = [
    { title: "row", value: (line) => line.row, left: true, cell: (row) => h("div", { class: "wrap" }, row) },
    judged.length > 0 && { title: "reached?", value: (line) => line.verdict, left: true,
      cell: (verdict, line) => verdict && h("span", { class: `badge ${JUDGED[line.judgement]}` }, verdict.toLowerCase()) },
    hasPeers && { title: "ratio, each round", value: (line) => middle(line.ratios), cell: (_, line) => line.ratios.map(quotient).join("  ") || "–", descending: true },
    judged.length > 0 && { title: "target", value: (line) => line.target, cell: (target, line) => target === null ? "" : `${line.at_least ? "≥" : "≤"} ${quotient(target)}` },
    { title: "number", value: (line) => line.metric, left: true },
    { title: lines[0].engine, value: (line) => line.value, cell: text, descending: true },
    hasPeers && { title: "peer", value: (line) => line.peer, left: true },
    hasPeers && { title: "its number", value: (line) => line.peer_value, cell: text, descending: true },
  ].filter(Boolean);
  return h("section", { class: "card", id: "targets" }, h("h2", {}, judged.length > 0 ? "Targets" : "Compared"),
    h("p", { class: "sub" }, judged.length > 0
      ? `${whole(reached)} of ${whole(judged.length)} reached: in every round, the number divided by the peer's in the same round.`
      : "Medians, and the number divided by the peer's in the same round."),
    h("div", { class: "scroll" }, sortableTable(columns, lines)));
}

// --- All rows ---
function rowsCard() {
  const number = (title, field, cell, descending) => ({ title, value: (row) => row[field] > 0 ? row[field] : null, cell: (value) => cell(value), descending });
  const table = sortableTable([
    { title: "test", value: (row) => tests[row.test].label, left: true },
    { title: "engine", value: nameOf, cell: (name, row) => [swatch(colorOf(row.engine)), " ", name], left: true },
    { title: "status", value: (row) => row.status, left: true, cell: (status, row) =>
      row.failed > 0 ? h("span", { class: row.rounds > 0 ? "badge warn" : "badge bad" }, row.rounds > 0 ? `${row.failed} of ${row.failed + row.rounds} failed` : status) : status },
    number("ops/s", "ops", whole, true),
    { title: "spread", value: (row) => row.rounds > 1 ? row.spread : null, cell: (value) => value === null ? "–" : percent(value) },
    number("mean", "avg", latency), number("stddev", "stddev", latency), number("cv", "cv", percent), number("min", "min", latency), number("p50", "p50", latency), number("p95", "p95", latency), number("p99", "p99", latency),
    number("p99.9", "p99_9", latency), number("max", "max", latency),
    number("wall", "wall", seconds), number("settle", "settle", seconds), number("user cpu", "cpu_user", seconds), number("system cpu", "cpu_sys", seconds),
    number("memory", "rss", mebibytes), number("read", "read_mb", mebibytes), number("written", "write_mb", mebibytes),
    number("size", "size", mebibytes), number("settled", "size_settled", mebibytes),
    number("write amp", "write_amp", amplification), number("read amp", "read_amp", amplification), number("space amp", "space_amp", amplification),
    number("rounds", "rounds", whole),
  ], cells, { id: "rows" });
  const text = h("input", { type: "search", placeholder: "words of test or engine", "aria-label": "Filter", oninput: filter });
  const engine = h("select", { "aria-label": "Engine", onchange: filter }, h("option", { value: "" }, "all engines"),
    engines.map((item, index) => h("option", { value: index }, item.name)));
  const count = h("span", { class: "note" });
  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const some = cells.filter((cell) => (engine.value === "" || Number(engine.value) === cell.engine)
      && words.every((word) => `${tests[cell.test].label} ${nameOf(cell)} ${cell.status}`.toLowerCase().includes(word)));
    count.textContent = some.length === cells.length ? "" : `${whole(some.length)} of ${whole(cells.length)}`;
    table.showRows(some);
  }
  return h("section", { class: "card" }, h("h2", {}, "All rows"), h("p", { class: "sub" }, "Medians over rounds. Select a heading to sort by it."),
    h("div", { class: "controls" }, text, engine, count), h("div", { class: "scroll" }, table));
}

// What went wrong, each once, with the rounds in which it did.
function distinctErrors(cell) {
  const found = new Map();
  for (const { status, error, round } of cell.errors) {
    const key = JSON.stringify([status, error]);
    if (!found.has(key)) found.set(key, { status, error, rounds: [] });
    found.get(key).rounds.push(round);
  }
  return [...found.values()];
}
function failuresCard() {
  const bad = cells.filter((cell) => cell.failed > 0 || cell.wrong > 0 || cell.not_found > 0);
  return bad.length > 0 && h("section", { class: "card", id: "failures" }, h("h2", { class: "bad" }, "Not all went well"),
    h("p", { class: "sub" }, "What failed or was cut short takes no part in comparisons."),
    h("ul", {}, bad.map((cell) => h("li", {}, h("b", {}, nameOf(cell)), `, ${tests[cell.test].label}: `,
      cell.wrong > 0 && `${whole(cell.wrong)} wrong answers; `, cell.not_found > 0 && `${whole(cell.not_found)} keys not found; `,
      distinctErrors(cell).map(({ status, error, rounds }) => [h("span", { class: "badge bad" }, status),
        ` round ${rounds.join(", ")}${error ? `: ${error}` : ""} `])))));
}

function machineLine(machine) {
  if (!machine) return null;
  const busy = machine.load_at_start > machine.cores / 2 || machine.steal_percent > 2;
  return [h("p", { class: "sub" }, [machine.cpu_model, machine.cores > 0 && `${machine.cores} processors`, machine.memory_bytes > 0 && bytes(machine.memory_bytes),
    machine.kernel, machine.file_system].filter(Boolean).join(", ")),
  busy && h("p", {}, h("span", { class: "badge warn" }, "busy"), ` The machine had other work: load ${machine.load_at_start.toFixed(1)} at the start, `
    + `${machine.steal_percent.toFixed(1)} % of the time taken by the hypervisor. Compare with care.`)];
}

const throughput = { title: "operations per second", better: "more", value: (cell) => cell.ops, text: (value) => short(value), low: (cell) => cell.ops_min, high: (cell) => cell.ops_max };
const less = (title, value, text) => ({ title, better: "less", value, text });
const matrixCard = (title, note, metrics) => {
  const matrix = barMatrix(tests, metrics, cellsOf);
  return matrix && card(title, note, engineLegend(), matrix);
};
fillElement(main, {}, [
  h("h1", {}, "Benchmark report"),
  h("p", { class: "sub" }, [engines.map((engine) => engine.version && engine.version !== engine.name ? `${engine.name} (${engine.version})` : engine.name).join(" · "),
    DATA.started_at && `, measured from ${DATA.started_at}`]),
  DATA.remark && h("p", { id: "remark" }, h("span", { class: "badge warn" }, "unfinished"), ` ${DATA.remark}`),
  machineLine(DATA.machine),
  tests.length === 0 && card("Nothing was measured", "The results hold no rows."),
  failuresCard(),
  targetsCard(),
  speedUpCard(),
  matrixCard("Throughput", "The longest bar of a test is its fastest engine; the thin line is the spread over rounds.", [throughput]),
  scalingCard("Batch sizes", "batch", "Operations per second by operations of a batch."),
  scalingCard("Threads", "threads", "Operations per second by threads that call the engine."),
  scalingCard("Value sizes", "value_size", "Operations per second by bytes of a value."),
  latencyCard(),
  timelineCard(),
  matrixCard("Amplification", "Bytes of pages that became dirty per byte written by the user (a page that is written again before the system "
    + "sends it to the device counts once), fetched from the device per byte read, and occupied per live byte. Shorter is better.", [
    less("writing", (cell) => cell.write_amp, amplification), less("reading", (cell) => cell.read_amp, amplification), less("space", (cell) => cell.space_amp, amplification)]),
  matrixCard("Size", "On the device, after closing and once background work had ended. Shorter is better.", [
    less("closed", (cell) => cell.size, mebibytes), less("settled", (cell) => cell.size_settled, mebibytes)]),
  matrixCard("Memory, processor, device", "Highest resident memory; processor time in the program and the kernel; bytes read, and of pages that became dirty. Shorter is better.", [
    less("memory", (cell) => cell.rss, mebibytes), less("processor", (cell) => cell.cpu_user + cell.cpu_sys, seconds),
    less("written", (cell) => cell.write_mb, mebibytes), less("read", (cell) => cell.read_mb, mebibytes)]),
  tests.length > 0 && rowsCard(),
  h("p", { class: "note" }, `Made by Kingtide ${DATA.version}.`),
]);
document.body.dataset.drawn = "yes";
