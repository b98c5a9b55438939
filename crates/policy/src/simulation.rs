//! Weeks of writing in a second: a tree of real entries lives by the policy's plans, several at a time.
//!
//! Goal: nothing is ever lost or revived, the shape stays valid, space and the number of tables stay bounded, and the
//! policy comes to rest. Method: tables are sorted vectors of (key, sequence, tombstone); flushes draw keys from a
//! seed; plans start (inputs become busy) and finish in random order; after each step the newest version of each key
//! is read through the levels, newest first, and compared with an ordered map.

use std::{collections::BTreeMap, iter};

use kingtide_base::{FileId, KeyOrder};

use crate::{MergePlan, PolicyOptions, TableShape, TreeShape, merge_all, pick_merge};

const ENTRY_BYTES: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    key: u32,
    sequence: u64,
    is_tombstone: bool,
}

struct Random(u64);

impl Random {
    /// splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Uniform,
    Sequential,
    TinySequential,
    Queue,
    Skewed,
}

struct Simulation {
    random: Random,
    load: Load,
    options: PolicyOptions,
    shape: TreeShape,
    contents: BTreeMap<FileId, Vec<Entry>>,
    running: Vec<MergePlan>,
    model: BTreeMap<u32, Entry>,
    sequence: u64,
    file: u64,
    cursor: u32,
    bytes_flushed: u64,
    bytes_rewritten: u64,
}

impl Simulation {
    fn new(seed: u64, load: Load) -> Self {
        Self {
            random: Random(seed),
            load,
            options: PolicyOptions {
                level_size_ratio: 4,
                l1_file_count_trigger: 3,
                write_buffer_bytes: 30 * ENTRY_BYTES as usize,
                min_levels: 1 + (seed % 4) as usize,
                tombstone_density_trigger: if seed.is_multiple_of(2) { 0.5 } else { 0.0 },
                tombstone_density_entries_min: 8,
                table_bytes_target: 30 * ENTRY_BYTES,
            },
            shape: TreeShape {
                levels: vec![Vec::new()],
            },
            contents: BTreeMap::new(),
            running: Vec::new(),
            model: BTreeMap::new(),
            sequence: 0,
            file: 0,
            cursor: 0,
            bytes_flushed: 0,
            bytes_rewritten: 0,
        }
    }

    fn add_table(&mut self, level: usize, entries: Vec<Entry>) {
        self.file += 1;
        let shape = TableShape {
            file: FileId(self.file),
            bytes: entries.len() as u64 * ENTRY_BYTES,
            entries: entries.len() as u64,
            tombstones: entries.iter().filter(|entry| entry.is_tombstone).count() as u64,
            smallest: entries[0].key.to_be_bytes().to_vec(),
            largest: entries[entries.len() - 1].key.to_be_bytes().to_vec(),
            busy: false,
        };
        self.contents.insert(shape.file, entries);
        self.place(level, shape);
    }

    fn place(&mut self, level: usize, table: TableShape) {
        while self.shape.levels.len() < level {
            self.shape.levels.push(Vec::new());
        }
        let tables = &mut self.shape.levels[level - 1];
        let at = if level == 1 {
            tables.len()
        } else {
            tables.partition_point(|other| other.smallest < table.smallest)
        };
        tables.insert(at, table);
    }

    fn draw(&mut self) -> (u32, bool) {
        match self.load {
            Load::Uniform => (self.random.below(2000) as u32, self.random.below(4) == 0),
            Load::Skewed => {
                let bound = 1 + self.random.below(3000);
                (self.random.below(bound) as u32, self.random.below(2) == 0)
            }
            Load::Sequential | Load::TinySequential => {
                self.cursor += 1;
                (self.cursor, false)
            }
            Load::Queue => {
                self.cursor += 1;
                if self.cursor.is_multiple_of(2) {
                    (self.cursor / 2, true)
                } else {
                    (100 + self.cursor / 2, false)
                }
            }
        }
    }

    fn flush(&mut self) {
        let count = match self.load {
            Load::TinySequential => 1,
            _ => 1 + self.random.below(30),
        };
        let mut memtable = BTreeMap::new();
        for _ in 0..count {
            let (key, is_tombstone) = self.draw();
            self.sequence += 1;
            let entry = Entry {
                key,
                sequence: self.sequence,
                is_tombstone,
            };
            memtable.insert(key, entry);
            self.model.insert(key, entry);
        }
        let entries: Vec<Entry> = memtable.into_values().collect();
        self.bytes_flushed += entries.len() as u64 * ENTRY_BYTES;
        self.add_table(1, entries);
    }

    /// Starts the plan that the policy wants, if any.
    fn start(&mut self) -> bool {
        let Some(plan) = pick_merge(&self.shape, &self.options, &KeyOrder::BYTEWISE) else {
            return false;
        };
        self.begin(plan);
        true
    }

    fn begin(&mut self, plan: MergePlan) {
        self.check_closed(&plan);
        for input in &plan.inputs {
            let table = self.shape.levels[input.level - 1]
                .iter_mut()
                .find(|table| table.file == input.file)
                .expect("plans name tables that exist");
            assert!(!table.busy, "a busy table was planned: {plan:?}");
            table.busy = true;
        }
        self.running.push(plan);
    }

    fn check_closed(&self, plan: &MergePlan) {
        let is_input =
            |table: &TableShape| plan.inputs.iter().any(|input| input.file == table.file);
        let inputs = || {
            self.shape
                .levels
                .iter()
                .flatten()
                .filter(|table| is_input(table))
        };
        let overlaps = |left: &TableShape, right: &TableShape| {
            left.smallest <= right.largest && right.smallest <= left.largest
        };
        let source = plan.inputs[0].level;
        for (position, older) in self.shape.level(1).iter().enumerate() {
            let newer_input = self.shape.level(1)[position..]
                .iter()
                .any(|table| is_input(table) && overlaps(table, older));
            assert!(
                !newer_input || is_input(older),
                "an older level 1 table is left above: {plan:?}"
            );
        }
        for level in (source + 1).max(2)..=plan.target_level {
            for table in self.shape.level(level) {
                let is_hit = inputs().any(|input| overlaps(input, table));
                assert!(
                    !is_hit || is_input(table),
                    "level {level} is left out: {plan:?}"
                );
            }
        }
        assert!(
            plan.inputs
                .iter()
                .all(|input| input.level <= plan.target_level)
        );
    }

    fn finish(&mut self, index: usize) {
        let plan = self.running.swap_remove(index);
        let mut merged: BTreeMap<u32, Entry> = BTreeMap::new();
        let mut moved = Vec::new();
        for input in &plan.inputs {
            let tables = &mut self.shape.levels[input.level - 1];
            let at = tables
                .iter()
                .position(|table| table.file == input.file)
                .expect("inputs stay");
            let mut table = tables.remove(at);
            if plan.moves_only {
                table.busy = false;
                moved.push(table);
                continue;
            }
            self.bytes_rewritten += table.bytes;
            for entry in self
                .contents
                .remove(&input.file)
                .expect("each table has content")
            {
                let newest = merged.entry(entry.key).or_insert(entry);
                if newest.sequence < entry.sequence {
                    *newest = entry;
                }
            }
        }
        for table in moved {
            self.place(plan.target_level, table);
        }
        let entries: Vec<Entry> = merged
            .into_values()
            .filter(|entry| !(plan.is_bottom && entry.is_tombstone))
            .collect();
        let per_table = plan.output_table_bytes.div_ceil(ENTRY_BYTES) as usize;
        for chunk in entries.chunks(per_table.max(1)) {
            self.add_table(plan.target_level, chunk.to_vec());
        }
    }

    fn read(&self, key: u32) -> Option<Entry> {
        let bytes = key.to_be_bytes();
        let find = |table: &TableShape| {
            let entries = &self.contents[&table.file];
            entries
                .binary_search_by_key(&key, |entry| entry.key)
                .ok()
                .map(|at| entries[at])
        };
        let level_one = self.shape.level(1).iter().rev();
        level_one
            .chain(self.shape.levels[1..].iter().flatten())
            .filter(|table| table.smallest[..] <= bytes[..] && bytes[..] <= table.largest[..])
            .find_map(find)
    }

    fn check(&self) {
        for (index, level) in self.shape.levels.iter().enumerate().skip(1) {
            for pair in level.windows(2) {
                assert!(
                    pair[0].largest < pair[1].smallest,
                    "level {} is not disjoint",
                    index + 1
                );
            }
        }
        for (key, newest) in &self.model {
            match self.read(*key) {
                Some(found) => assert_eq!(found, *newest, "key {key}"),
                None => assert!(newest.is_tombstone, "key {key} is lost"),
            }
        }
    }

    fn rest(&mut self) {
        let mut steps = 0;
        while self.start() || !self.running.is_empty() {
            if !self.running.is_empty() {
                self.finish(0);
            }
            steps += 1;
            assert!(steps < 10_000, "the policy does not come to rest");
        }
    }

    fn run(&mut self, flushes: usize) {
        for round in 0..flushes {
            // A real engine holds writers back when level 1 grows; so does this one.
            while self.shape.level(1).len() > 12 && (self.start() || !self.running.is_empty()) {
                if !self.running.is_empty() {
                    self.finish(0);
                }
            }
            self.flush();
            for _ in 0..self.random.below(3) {
                if self.running.len() < 3 {
                    self.start();
                }
            }
            for _ in 0..self.random.below(3) {
                if !self.running.is_empty() {
                    let index = self.random.below(self.running.len() as u64) as usize;
                    self.finish(index);
                }
            }
            if round.is_multiple_of(16) {
                self.check();
            }
        }
        self.rest();
        self.check();
    }
}

fn loads() -> impl Iterator<Item = (u64, Load)> {
    let all = [
        Load::Uniform,
        Load::Sequential,
        Load::TinySequential,
        Load::Queue,
        Load::Skewed,
    ];
    (1..=4).flat_map(move |seed| iter::zip(iter::repeat(seed), all))
}

#[test]
fn a_long_life_loses_nothing_and_stays_small() {
    for (seed, load) in loads() {
        println!("seed {seed}, load {load:?}");
        let mut simulation = Simulation::new(seed, load);
        simulation.run(600);
        let live = simulation
            .model
            .values()
            .filter(|entry| !entry.is_tombstone)
            .count() as u64;
        let stored: u64 = simulation
            .contents
            .values()
            .map(|entries| entries.len() as u64)
            .sum();
        let tables = simulation.contents.len() as u64;
        println!(
            "  live {live}, stored {stored}, tables {tables}, levels {:?}, rewritten {:.1} times",
            simulation
                .shape
                .levels
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>(),
            simulation.bytes_rewritten as f64 / simulation.bytes_flushed as f64
        );
        assert!(stored <= 2 * live + 400, "space is not bounded");
        assert!(
            tables <= stored / 10 + 24,
            "the number of tables is not bounded"
        );
        assert!(
            simulation.bytes_rewritten <= 20 * simulation.bytes_flushed,
            "too much rewriting"
        );
    }
}

#[test]
fn manual_compaction_leaves_only_live_entries() {
    for (seed, load) in loads() {
        println!("seed {seed}, load {load:?}");
        let mut simulation = Simulation::new(seed, load);
        simulation.run(60);
        let plan = merge_all(&simulation.shape, &simulation.options, &KeyOrder::BYTEWISE);
        if let Some(plan) = plan {
            simulation.begin(plan);
            simulation.finish(0);
        }
        simulation.check();
        let live = simulation
            .model
            .values()
            .filter(|entry| !entry.is_tombstone)
            .count();
        let stored: usize = simulation.contents.values().map(Vec::len).sum();
        assert_eq!(stored, live);
        assert!(
            pick_merge(&simulation.shape, &simulation.options, &KeyOrder::BYTEWISE)
                .is_none_or(|plan| plan.moves_only)
        );
    }
}
