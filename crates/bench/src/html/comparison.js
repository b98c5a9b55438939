// Draws a comparison of two sets of results: DATA is what `comparison` of the program makes.
const verdicts = { same: ["same", ""], improved: ["better", "up"], regressed: ["worse", "down"] };
const textOf = {
  "success": percent, "ops/s": short, "p99": latency, "p99.9": latency, "processor": (value) => value > 0 ? `${value.toFixed(2)} µs/op` : "–",
  "memory": mebibytes, "size": mebibytes, "write amp": amplification, "space amp": amplification,
};
const differenceOf = (pair, name) => pair.differences.find((difference) => difference.metric === name);
const worseIn = (pair) => pair.differences.filter((difference) => difference.verdict === "regressed");
const betterIn = (pair) => pair.differences.filter((difference) => difference.verdict === "improved");
const regressions = DATA.pairs.flatMap((pair) => worseIn(pair).map((difference) => [pair, difference]));
const improvements = DATA.pairs.flatMap((pair) => betterIn(pair).map((difference) => [pair, difference]));
const change = (value) => !isNumber(value) ? "–" : Math.abs(value - 1) < 0.0005 ? "0 %" : `${value >= 1 ? "+" : "−"}${Math.abs((value - 1) * 100).toFixed(Math.abs(value - 1) < 0.1 ? 1 : 0)} %`;
const several = new Set(DATA.pairs.map((pair) => pair.engine)).size > 1;
const nameOf = (pair) => several ? `${pair.engine}: ${pair.test}` : pair.test;

const sideText = (metric, side) => side.rounds > 1 ? `${textOf[metric](side.median)} (${textOf[metric](side.min)} to ${textOf[metric](side.max)})` : textOf[metric](side.median);
const factsOfDifference = ({ metric, old, new: now, ratio: value }) =>
  [[DATA.old_name, sideText(metric, old)], [DATA.new_name, sideText(metric, now)], ["change", change(value)], ["rounds", `${old.rounds} and ${now.rounds}`]];

function listCard(id, title, list, word) {
  if (list.length === 0) return null;
  return h("section", { class: "card", id }, h("h2", { class: word }, title),
    h("div", { class: "scroll" }, sortableTable([
      { title: "test", value: ([pair]) => nameOf(pair), left: true },
      { title: "number", value: ([, difference]) => difference.metric, left: true },
      { title: "before", value: ([, difference]) => difference.old.median, cell: (value, [, difference]) => textOf[difference.metric](value) },
      { title: "after", value: ([, difference]) => difference.new.median, cell: (value, [, difference]) => textOf[difference.metric](value) },
      { title: "change", value: ([, difference]) => difference.ratio, cell: (value) => h("span", { class: word === "bad" ? "down" : "up" }, change(value)) },
      { title: "", value: ([pair]) => pair.error, left: true },
    ], list)));
}

// One dot for a test: throughput after, divided by throughput before; the line is what the rounds allow.
function throughputCard() {
  const pairs = DATA.pairs.map((pair) => [pair, differenceOf(pair, "ops/s")]).filter(([, difference]) => difference && difference.ratio > 0);
  if (pairs.length === 0) return null;
  const ends = ({ old, new: now }) => [now.min / old.max, now.max / old.min];
  const all = pairs.flatMap(([, difference]) => [difference.ratio, ...ends(difference)]).filter((value) => value > 0);
  const far = Math.max(1.25, ...all.map((value) => Math.max(value, 1 / value)));
  const scale = { at: (value) => Math.min(1, Math.max(0, 0.5 + Math.log(value) / Math.log(far) / 2)) };
  const left = (value) => `${(scale.at(value) * 100).toFixed(2)}%`;
  const steps = [1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100].filter((step) => step <= far * 1.001);
  const shown = steps.length > 3 ? [steps[Math.floor(steps.length / 2)], steps[steps.length - 1]] : steps.slice(-1);
  const ticks = [...shown.map((step) => 1 / step).reverse(), 1, ...shown].sort((a, b) => a - b);
  const mean = Math.exp(pairs.reduce((total, [, difference]) => total + Math.log(difference.ratio), 0) / pairs.length);
  return h("section", { class: "card" }, h("h2", {}, "Throughput"),
    h("p", { class: "sub" }, `After divided by before; the line is what the spread over rounds allows. Geometric mean: ${ratio(mean)}.`),
    h("div", { class: "chart-row" }, h("div", { class: "name sub" }, "slower to the left"),
      h("div", { class: "axis-line" }, ticks.map((tick) => h("span", { style: { left: left(tick) } }, tick === 1 ? "1×" : change(tick)))), h("div")),
    pairs.map(([pair, difference]) => {
      const [low, high] = ends(difference), [, word] = verdicts[difference.verdict];
      const color = difference.verdict === "regressed" ? "var(--bad)" : difference.verdict === "improved" ? "var(--good)" : "var(--muted)";
      return h("div", { class: "chart-row" }, h("div", { class: "name" }, nameOf(pair)),
        h("div", { class: "dots" }, ticks.map((tick) => h("i", { class: tick === 1 ? "rule one" : "rule", style: { left: left(tick) } })),
          h("i", { class: "span", style: { left: left(low), width: `${(scale.at(high) - scale.at(low)) * 100}%`, background: color } }),
          withHint(h("button", { type: "button", class: "dot", "aria-label": `${nameOf(pair)} ${change(difference.ratio)}`, style: { left: left(difference.ratio), background: color } }),
            () => [nameOf(pair), factsOfDifference(difference)])),
        h("div", { class: `number ${word}` }, change(difference.ratio)));
    }));
}

function allCard() {
  const metrics = DATA.metrics.map((metric) => metric.name).filter((name) => name !== "success" && DATA.pairs.some((pair) => differenceOf(pair, name)));
  const table = sortableTable([
    { title: "test", value: nameOf, left: true },
    { title: "status", value: (pair) => pair.new_status, left: true, cell: (status, pair) => status === "ok" && pair.old_status === "ok" ? "ok"
      : h("span", { class: status === "ok" ? "badge good" : "badge bad" }, `${pair.old_status}, now ${status}`) },
    ...metrics.map((name) => ({
      title: name, value: (pair) => differenceOf(pair, name)?.ratio ?? null,
      cell: (value, pair) => value === null ? "–" : withHint(h("span", { class: verdicts[differenceOf(pair, name).verdict][1], tabindex: 0 }, change(value)),
        () => [`${nameOf(pair)}: ${name}`, factsOfDifference(differenceOf(pair, name))]),
    })),
  ], DATA.pairs, { id: "rows" });
  return h("section", { class: "card" }, h("h2", {}, "All tests"),
    h("p", { class: "sub" }, "The change of each number, medians over rounds. Of all but operations per second, less is better. Coloured is what counts."),
    h("div", { class: "scroll" }, table));
}
const missingCard = (title, list) => list.length > 0 && h("section", { class: "card" }, h("h2", {}, title), h("ul", {}, list.map((label) => h("li", {}, label))));
const versions = (field) => [...new Set(DATA.pairs.map((pair) => pair[field].startsWith(pair.engine) ? pair[field] : `${pair.engine} ${pair[field]}`.trim()))].join(", ");

fillElement(main, {}, [
  h("h1", {}, "Two results compared"),
  h("p", { class: "sub" }, `${DATA.old_name} (${versions("old_version")}) → ${DATA.new_name} (${versions("new_version")})`),
  h("div", { class: "tiles" },
    tile(h("span", { class: regressions.length > 0 ? "bad" : "good", id: "regression-count" }, whole(regressions.length)), regressions.length === 1 ? "number got worse" : "numbers got worse"),
    tile(whole(improvements.length), improvements.length === 1 ? "number got better" : "numbers got better"),
    tile(whole(DATA.pairs.length), DATA.pairs.length === 1 ? "test compared" : "tests compared"),
    DATA.only_old.length > 0 && tile(h("span", { class: "bad", id: "missing-count" }, whole(DATA.only_old.length)), DATA.only_old.length === 1 ? "test is gone" : "tests are gone"),
    tile(`${DATA.threshold_percent} %`, "threshold")),
  h("p", { class: "note" }, "A difference counts when it is beyond the threshold (twice that for processor, memory and write amplification, four times for p99, eight for p99.9) "
    + "and when all rounds after are on one side of all rounds before; with a single round it must be twice as large."),
  DATA.pairs.length === 0 && h("section", { class: "card" }, h("h2", {}, "Nothing to compare"), "The results have no test in common."),
  listCard("regressions", "Worse", regressions, "bad"),
  listCard("improvements", "Better", improvements, "good"),
  throughputCard(),
  DATA.pairs.length > 0 && allCard(),
  missingCard(`Only in ${DATA.old_name}`, DATA.only_old), missingCard(`Only in ${DATA.new_name}`, DATA.only_new),
  h("p", { class: "note" }, `Made by Kingtide ${DATA.version}.`),
]);
document.body.dataset.drawn = "yes";
