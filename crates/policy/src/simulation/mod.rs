//! A tree of entries in memory that lives by the plans of a policy: for tests, and for measuring what a policy costs.
//!
//! Tables are sorted vectors of (key, sequence number, tombstone), 100 bytes an entry. Flushes are cut and placed as the
//! engine does it, plans start and end when the caller says so, several at a time; what is asked of every plan is checked
//! when it starts, and [`Tree::check`] reads every key. There are no snapshots: each merge keeps the newest version of a
//! key, and a tombstone only where something below can hold its key.
//!
//! A violation is a panic that names the plan: this is code to test with.

mod chart;
mod leveled;
mod load;

pub use chart::svg;
pub use leveled::pick_merge_leveled;
pub use load::{Load, Random};

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use kingtide_base::{FileId, KeyOrder, SeqNo};

use crate::{
    MergePlan, PolicyOptions, TableShape, TreeShape, last_level, overlap::components, place,
    shape::Span,
};

/// Bytes of every entry.
pub const ENTRY_BYTES: u64 = 100;
/// Cuts leave tables of at least this share of the target size.
const CUT_SHARE: u64 = 128;

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: u32,
    /// Larger ones are newer.
    pub sequence: u64,
    /// True for a deletion.
    pub is_tombstone: bool,
}

/// Chooses a merge, as [`pick_merge`](crate::pick_merge) does.
pub type Pick = fn(&TreeShape, &PolicyOptions, &KeyOrder) -> Option<MergePlan>;

/// What a tree costs at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Flushes so far.
    pub flushes: u64,
    /// Bytes written to tables for each byte flushed, the flush itself counted.
    pub write_amplification: f64,
    /// Bytes in tables for each byte of the newest versions.
    pub space_amplification: f64,
    /// Sorted runs that a point read may have to look into.
    pub runs: usize,
    /// Tables.
    pub tables: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Tree {
    /// The settings it lives by.
    pub options: PolicyOptions,
    /// Its tables.
    pub shape: TreeShape,
    /// The newest version of every key ever written.
    pub model: BTreeMap<u32, Entry>,
    /// The plans that have been started and not finished.
    pub running: Vec<MergePlan>,
    /// Bytes that flushes wrote.
    pub bytes_flushed: u64,
    /// Bytes that merges wrote.
    pub bytes_rewritten: u64,
    /// Flushes.
    pub flushes: u64,
    /// The most bytes of tables there were, inputs and outputs of a merge counted together.
    pub bytes_most: u64,
    pick: Pick,
    contents: BTreeMap<FileId, Vec<Entry>>,
    files: u64,
}

fn key_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(u32::MAX, u32::from_be_bytes)
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new(options: PolicyOptions, pick: Pick) -> Self {
        Self {
            options,
            shape: TreeShape {
                levels: vec![Vec::new()],
                reserved: Vec::new(),
                is_unread: false,
            },
            model: BTreeMap::new(),
            running: Vec::new(),
            bytes_flushed: 0,
            bytes_rewritten: 0,
            flushes: 0,
            bytes_most: 0,
            pick,
            contents: BTreeMap::new(),
            files: 0,
        }
    }

    /// Entries in tables.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.contents
            .values()
            .map(|entries| entries.len() as u64)
            .sum()
    }

    /// Keys that are there.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.model
            .values()
            .filter(|entry| !entry.is_tombstone)
            .count() as u64
    }

    /// The numbers of this moment.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let parts = components(self.shape.level(1), &KeyOrder::BYTEWISE);
        let runs = parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let deeper = self.shape.levels[1..]
            .iter()
            .filter(|level| !level.is_empty());
        Sample {
            flushes: self.flushes,
            write_amplification: 1.0
                + self.bytes_rewritten as f64 / self.bytes_flushed.max(1) as f64,
            space_amplification: self.entries() as f64 / self.live().max(1) as f64,
            runs: runs + deeper.count(),
            tables: self.contents.len(),
        }
    }

    fn add(&mut self, entries: &[Entry], level: impl FnOnce(&Self, Span<'_>) -> usize) {
        self.files += 1;
        let keys = (entries[0].key, entries[entries.len() - 1].key);
        let shape = TableShape {
            file: FileId(self.files),
            bytes: entries.len() as u64 * ENTRY_BYTES,
            entries: entries.len() as u64,
            tombstones: entries.iter().filter(|entry| entry.is_tombstone).count() as u64,
            smallest: keys.0.to_be_bytes().to_vec(),
            largest: keys.1.to_be_bytes().to_vec(),
            sequence_min: SeqNo(
                entries
                    .iter()
                    .map(|entry| entry.sequence)
                    .min()
                    .unwrap_or(0),
            ),
            sequence_max: SeqNo(
                entries
                    .iter()
                    .map(|entry| entry.sequence)
                    .max()
                    .unwrap_or(0),
            ),
            busy: false,
            is_overdue: false,
        };
        let level = level(self, Span::of(&shape));
        self.contents.insert(shape.file, entries.to_vec());
        self.put(level, shape);
    }

    fn put(&mut self, level: usize, table: TableShape) {
        while self.shape.levels.len() < level {
            self.shape.levels.push(Vec::new());
        }
        let tables = &mut self.shape.levels[level - 1];
        let at = match level {
            1 => tables.len(),
            _ => tables.partition_point(|other| other.smallest < table.smallest),
        };
        tables.insert(at, table);
    }

    /// Turns `entries`, newer than all before, into tables.
    pub fn flush(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let mut memtable: BTreeMap<u32, Entry> = BTreeMap::new();
        for entry in entries {
            memtable.insert(entry.key, entry);
            self.model.insert(entry.key, entry);
        }
        let entries: Vec<Entry> = memtable.into_values().collect();
        self.flushes += 1;
        self.bytes_flushed += entries.len() as u64 * ENTRY_BYTES;
        for piece in self.cut_at_tables(&entries) {
            self.add(piece, |tree, span| {
                let last = last_level(tree.shape.deepest(), tree.options.min_levels);
                let in_use = tree
                    .options
                    .levels_in_use(last, tree.shape.level_bytes(last));
                place(1, in_use, |level| {
                    tree.shape.is_free(level, span, &KeyOrder::BYTEWISE)
                })
            });
        }
        self.note_size(0);
    }

    fn note_size(&mut self, more: u64) {
        self.bytes_most = self.bytes_most.max(self.entries() * ENTRY_BYTES + more);
    }

    /// `entries` in pieces, cut where they pass over a whole table.
    fn cut_at_tables<'e>(&self, entries: &'e [Entry]) -> Vec<&'e [Entry]> {
        let mut tables: Vec<(u32, u32)> = self
            .shape
            .levels
            .iter()
            .flatten()
            .map(|table| (key_of(&table.smallest), key_of(&table.largest)))
            .collect();
        tables.sort_unstable();
        let least = (self.options.table_bytes_target / CUT_SHARE / ENTRY_BYTES) as usize;
        let mut pieces = Vec::new();
        let (mut start, mut next) = (0, 0);
        for (at, pair) in (1..).zip(entries.windows(2)) {
            let mut passed = false;
            while let Some((smallest, largest)) =
                tables.get(next).filter(|table| table.0 < pair[1].key)
            {
                passed |= *smallest > pair[0].key && *largest < pair[1].key;
                next += 1;
            }
            if passed && at - start >= least {
                pieces.push(&entries[start..at]);
                start = at;
            }
        }
        if start < entries.len() {
            pieces.push(&entries[start..]);
        }
        pieces
    }

    /// Starts the plan that the policy wants; false when it wants none.
    pub fn start(&mut self) -> bool {
        let plan = (self.pick)(&self.shape, &self.options, &KeyOrder::BYTEWISE);
        plan.is_some_and(|plan| {
            self.begin(plan);
            true
        })
    }

    /// Starts `plan`.
    ///
    /// # Panics
    /// When the plan breaks what is asked of plans.
    pub fn begin(&mut self, plan: MergePlan) {
        self.check_plan(&plan);
        for input in &plan.inputs {
            let level = &mut self.shape.levels[input.level - 1];
            for table in level.iter_mut().filter(|table| table.file == input.file) {
                assert!(!table.busy, "a busy table was planned: {plan:?}");
                table.busy = true;
            }
        }
        self.shape.reserved.push(plan.reservation.clone());
        self.running.push(plan);
    }

    fn inputs<'s>(&'s self, plan: &'s MergePlan) -> impl Iterator<Item = (usize, &'s TableShape)> {
        plan.inputs.iter().flat_map(|input| {
            let found = self.shape.level(input.level).iter();
            let mut found = found.filter(|table| table.file == input.file);
            found.next().map(|table| (input.level, table))
        })
    }

    fn check_plan(&self, plan: &MergePlan) {
        let order = &KeyOrder::BYTEWISE;
        let inputs: Vec<(usize, &TableShape)> = self.inputs(plan).collect();
        assert_eq!(
            inputs.len(),
            plan.inputs.len(),
            "plans name tables: {plan:?}"
        );
        let is_input =
            |table: &TableShape| plan.inputs.iter().any(|input| input.file == table.file);
        let overlap =
            |left: &TableShape, right: &TableShape| Span::of(left).overlaps(Span::of(right), order);
        for (position, older) in self.shape.level(1).iter().enumerate() {
            let mut newer = self.shape.level(1)[position..].iter();
            let is_hit = newer.any(|table| is_input(table) && overlap(table, older));
            assert!(
                !is_hit || is_input(older),
                "an older table stays above: {plan:?}"
            );
        }
        let files: BTreeSet<FileId> = plan.inputs.iter().map(|input| input.file).collect();
        for (level, input) in &inputs {
            // For moves one level up: what they would come to lie beside.
            let (from, to) = (level + 1, plan.target_level);
            for below in from.min(to).max(2)..=to {
                let mut others = self.shape.overlapping(below, Span::of(input), order);
                let left_out = others.any(|table| !files.contains(&table.file));
                assert!(!left_out, "level {below} is left out: {plan:?}");
            }
        }
        let mut others = self.shape.reserved.iter();
        assert!(
            others.all(|other| !other.meets(&plan.reservation, order)),
            "taken: {plan:?}"
        );
    }

    /// Ends the running plan at `index`.
    pub fn finish(&mut self, index: usize) {
        let plan = self.running.swap_remove(index);
        self.shape
            .reserved
            .retain(|other| *other != plan.reservation);
        let mut merged: Vec<Entry> = Vec::new();
        let mut moved = Vec::new();
        let mut bytes_read = 0;
        for input in &plan.inputs {
            let tables = &mut self.shape.levels[input.level - 1];
            let at = tables.iter().position(|table| table.file == input.file);
            let Some(mut table) = at.map(|at| tables.remove(at)) else {
                continue;
            };
            if plan.moves_only {
                table.busy = false;
                moved.push(table);
                continue;
            }
            bytes_read += table.bytes;
            merged.extend(self.contents.remove(&input.file).unwrap_or_default());
        }
        for table in moved {
            self.put(plan.target_level, table);
        }
        // The newest of each key; the sources are sorted, which this sort is quick with.
        merged.sort_by_key(|entry| (entry.key, Reverse(entry.sequence)));
        merged.dedup_by_key(|entry| entry.key);
        merged.retain(|entry| !entry.is_tombstone || self.is_below(plan.target_level, entry.key));
        let entries = merged;
        self.bytes_rewritten += entries.len() as u64 * ENTRY_BYTES;
        let per_table = plan.output_table_bytes.div_ceil(ENTRY_BYTES).max(1) as usize;
        let mut cuts = plan.cuts.iter().map(|cut| key_of(cut)).peekable();
        let mut rest = &entries[..];
        while let Some(first) = rest.first() {
            while cuts.next_if(|cut| *cut <= first.key).is_some() {}
            let cut = cuts.peek().map_or(rest.len(), |cut| {
                rest.partition_point(|entry| entry.key < *cut)
            });
            let (table, later) = rest.split_at(cut.min(per_table));
            self.add(table, |_, _| plan.target_level);
            rest = later;
        }
        self.note_size(bytes_read);
    }

    /// True when a table below `level` may hold `key`.
    fn is_below(&self, level: usize, key: u32) -> bool {
        let key = key.to_be_bytes();
        let deeper = self.shape.levels.iter().skip(level).flatten();
        deeper
            .into_iter()
            .any(|table| table.smallest[..] <= key[..] && key[..] <= table.largest[..])
    }

    fn read(&self, key: u32) -> Option<Entry> {
        let bytes = key.to_be_bytes();
        let find = |table: &TableShape| {
            let entries = &self.contents[&table.file];
            let at = entries.binary_search_by_key(&key, |entry| entry.key);
            at.ok().map(|at| entries[at])
        };
        let level_one = self.shape.level(1).iter().rev();
        level_one
            .chain(self.shape.levels[1..].iter().flatten())
            .filter(|table| table.smallest[..] <= bytes[..] && bytes[..] <= table.largest[..])
            .find_map(find)
    }

    /// Checks that levels are disjoint and that every key reads as its newest version.
    ///
    /// # Panics
    /// When they are not, or it does not.
    pub fn check(&self) {
        for (level, tables) in (2..).zip(&self.shape.levels[1..]) {
            for pair in tables.windows(2) {
                assert!(
                    pair[0].largest < pair[1].smallest,
                    "level {level} is not disjoint"
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

    /// Runs plans until the policy wants none.
    ///
    /// # Panics
    /// When it never does.
    pub fn rest(&mut self) {
        let mut steps = 0;
        while self.start() || !self.running.is_empty() {
            if !self.running.is_empty() {
                self.finish(0);
            }
            steps += 1;
            assert!(steps < 10_000, "the policy does not come to rest");
        }
    }
}

#[cfg(test)]
mod tests;
