// Draws one database: DATA is what `page_data` of the program makes of a layout.
const main = document.querySelector("main");
const sum = (list, of) => list.reduce((total, item) => total + of(item), 0);

// Shares of tombstones, in steps; the first is none at all.
const STEPS = [[0, "none"], [0.1, "under 10 %"], [0.25, "under 25 %"], [0.5, "under 50 %"], [Infinity, "50 % or more"]];
const density = (table) => table.entries > 0 ? table.tombstones / table.entries : 0;
const stepOf = (share) => share === 0 ? 0 : STEPS.findIndex(([limit]) => share < limit);

function factsOf(family, table) {
  const end = table.largest_excluded ? " (not included)" : "";
  const facts = [
    ["level", table.level], ["size", bytes(table.bytes)], ["entries", whole(table.entries)],
    ["tombstones", `${whole(table.tombstones)} (${percent(density(table))})`],
    ["first key", family.keys[table.smallest]], ["last key", family.keys[table.largest] + end],
    ["commits", `${whole(table.sequence_min)} to ${whole(table.sequence_max)}`],
    ["keys and values", bytes(table.raw_bytes)],
  ];
  if (table.tombstones_since !== null) {
    const moment = new Date(table.tombstones_since * 1000);
    facts.push(["oldest tombstone", isNaN(moment) ? whole(table.tombstones_since) : `${moment.toISOString().slice(0, 16).replace("T", " ")} UTC`]);
  }
  if (table.range_deletes > 0) facts.push(["range deletes", whole(table.range_deletes)]);
  if (table.value_files.length > 0) {
    facts.push(["in value files", bytes(table.value_bytes)]);
    const names = table.value_files.map((file) => file.replace("vlog/", ""));
    facts.push(["value files", names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", ")]);
  }
  return facts;
}

// The last place that belongs to a table.
const lastOf = (table) => table.largest_excluded ? Math.max(table.smallest, table.largest - 1) : table.largest;

// Tables that share keys get lanes of their own; the newest stays on top.
function lanesOf(tables) {
  const lanes = [];
  for (const table of tables) {
    const free = lanes.find((lane) => lane.every((other) => lastOf(other) < table.smallest || lastOf(table) < other.smallest));
    if (free) free.push(table); else lanes.push([table]);
  }
  return lanes;
}

function levelRow(family, level) {
  const places = family.keys.length;
  const share = (count) => `${(100 * count / places).toFixed(3)}%`;
  const tables = family.tables.filter((table) => table.level === level);
  const bar = (table) => withHint(h("button", {
    type: "button", class: table.range_deletes > 0 ? "bar ranges" : "bar",
    "aria-label": `${table.file}, level ${level}, ${bytes(table.bytes)}`,
    style: { left: share(table.smallest), width: share(lastOf(table) - table.smallest + 1), "background-color": `var(--t${stepOf(density(table))})`, color: `var(--c${stepOf(density(table))})` },
  }, (lastOf(table) - table.smallest + 1) / places > 0.12 ? bytes(table.bytes) : ""), () => [table.file, factsOf(family, table)]);
  return [
    h("div", { class: "level-name" }, `Level ${level}`,
      h("small", {}, tables.length === 0 ? "empty" : `${whole(tables.length)} ${tables.length === 1 ? "table" : "tables"}, ${bytes(sum(tables, (table) => table.bytes))}`)),
    h("div", { class: "lanes", "data-level": level }, tables.length === 0 ? h("div", { class: "lane" })
      : lanesOf(tables).map((lane) => h("div", { class: "lane" }, lane.map(bar)))),
  ];
}

function familyCard(family) {
  const tables = family.tables;
  const deepest = Math.max(1, ...tables.map((table) => table.level));
  const order = family.order_known ? family.comparator
    : `${family.comparator}, which is not known here: keys are shown in the order of their bytes`;
  const entries = sum(tables, (table) => table.entries), tombstones = sum(tables, (table) => table.tombstones);
  const axis = family.keys.length > 0 && h("div", { class: "axis mono" },
    [0, 0.5, 1].map((at) => family.keys[Math.round(at * (family.keys.length - 1))])
      .filter((key, index, all) => all.indexOf(key) === index).map((key) => h("span", { title: key }, key)));
  return h("section", { class: "card family" },
    h("h2", {}, family.name),
    h("p", { class: "sub" }, `${whole(tables.length)} tables, ${bytes(sum(tables, (table) => table.bytes))}, `
      + `${whole(entries)} entries, ${percent(entries > 0 ? tombstones / entries : 0)} of them tombstones; order: ${order}`),
    tables.length === 0 ? h("p", { class: "note" }, "No tables yet: whatever it holds is in the log.")
      : h("div", { class: "levels" }, Array.from({ length: deepest }, (_, index) => levelRow(family, index + 1)), axis),
    tables.length > 0 && h("details", {}, h("summary", {}, "All tables"), h("div", { class: "scroll" }, sortableTable([
      { title: "file", value: (table) => table.file, left: true },
      { title: "level", value: (table) => table.level },
      { title: "size", value: (table) => table.bytes, cell: bytes, descending: true },
      { title: "entries", value: (table) => table.entries, cell: whole, descending: true },
      { title: "tombstones", value: density, cell: percent, descending: true },
      { title: "in value files", value: (table) => table.value_bytes, cell: bytes, descending: true },
      { title: "newest commit", value: (table) => table.sequence_max, cell: whole, descending: true },
      { title: "first key", value: (table) => table.smallest, cell: (rank) => h("span", { class: "mono" }, family.keys[rank]), left: true },
      { title: "last key", value: (table) => table.largest, cell: (rank) => h("span", { class: "mono" }, family.keys[rank]), left: true },
    ], tables))));
}

function valueFilesCard(files) {
  const largest = Math.max(...files.map((file) => file.bytes));
  const live = (file) => Math.min(1, file.live_bytes / Math.max(1, file.bytes));
  const sorted = [...files].sort((a, b) => live(a) - live(b));
  const row = (file) => withHint(h("div", { class: "value-file", tabindex: 0 },
    h("span", { class: "mono" }, file.file),
    h("div", { class: "track" }, h("div", { class: "whole", style: { width: `${100 * file.bytes / largest}%` } },
      h("div", { class: "fill", style: { width: `${100 * live(file)}%` } }))),
    h("span", { class: "num" }, `${percent(live(file))} of ${bytes(file.bytes)}`)),
  () => [file.file, [["size", bytes(file.bytes)], ["live", `${bytes(file.live_bytes)} (${percent(live(file))})`],
    ["records", whole(file.records)], ["live records", whole(file.live_records)], ["tables that point to it", whole(file.tables)]]]);
  const SHOWN = 40;
  return h("section", { class: "card" }, h("h2", {}, "Value files"),
    h("p", { class: "sub" }, "How much of each is still pointed to, the emptiest first. Bars are as long as the files."),
    legend([["var(--live)", "live"], ["var(--dead)", "dead"]]),
    sorted.slice(0, SHOWN).map(row),
    sorted.length > SHOWN && h("details", {}, h("summary", {}, `${whole(sorted.length - SHOWN)} more`), sorted.slice(SHOWN).map(row)));
}

const SEGMENT_COLORS = { live: "var(--live)", retired: "var(--dead)", blank: "transparent" };
function segmentsCard(segments) {
  return h("section", { class: "card" }, h("h2", {}, "Log"),
    h("p", { class: "sub" }, "Live files hold records that the next open may need; the others wait for their next use."),
    h("div", { class: "segments" }, segments.map((segment) => withHint(
      h("button", { type: "button", class: "segment" }, swatch(SEGMENT_COLORS[segment.state]), h("span", { class: "mono" }, segment.file.replace("wal/", "")),
        h("span", { class: "sub" }, segment.state)),
      () => [segment.file, [["size", bytes(segment.bytes)], ["state", segment.state],
        ...(segment.state === "live" ? [["use", whole(segment.life)], ["begins at", bytes(segment.position)]] : [])]]))));
}

const tables = DATA.families.flatMap((family) => family.tables.map((table) => [table.file, table]));
const distinct = [...new Map(tables).values()];
const entries = sum(distinct, (table) => table.entries), tombstones = sum(distinct, (table) => table.tombstones);
const valueBytes = sum(DATA.value_files, (file) => file.bytes);
fillElement(main, {}, [
  h("h1", {}, "The files of a database"),
  h("p", { class: "sub mono" }, DATA.directory),
  h("div", { class: "tiles" },
    tile(whole(DATA.families.length), DATA.families.length === 1 ? "family" : "families"),
    tile(whole(distinct.length), "tables"), tile(bytes(sum(distinct, (table) => table.bytes)), "in tables"),
    tile(whole(entries), "entries"), tile(percent(entries > 0 ? tombstones / entries : 0), "tombstones"),
    valueBytes > 0 && tile(bytes(valueBytes), "in value files"),
    valueBytes > 0 && tile(percent(Math.min(1, sum(DATA.value_files, (file) => file.live_bytes) / valueBytes)), "of them live"),
    tile(bytes(sum(DATA.segments, (segment) => segment.bytes)), "log, secured")),
  tables.length > 0 && h("p", { class: "note" }, "Each bar is a table. It stands where its keys are among the first and last keys of all "
    + "tables of the family; its colour is its share of tombstones, and stripes mean range deletes. Point, tap or tab to a bar for more."),
  tables.length > 0 && legend(STEPS.map(([, label], index) => [`var(--t${index})`, label])),
  ...DATA.families.map(familyCard),
  ...(DATA.value_files.length > 0 ? [valueFilesCard(DATA.value_files)] : []),
  ...(DATA.segments.length > 0 ? [segmentsCard(DATA.segments)] : []),
  h("p", { class: "note" }, `As the manifest said when this page was made, by Kingtide ${DATA.version}. What is only in memory or in the log is not shown.`),
]);
document.body.dataset.drawn = "yes";
