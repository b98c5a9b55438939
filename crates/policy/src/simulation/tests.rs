//! Weeks of writing in a second, several plans at a time.
//!
//! Goal: nothing is ever lost or revived, the shape stays valid, space and the number of tables stay bounded, and the
//! policy comes to rest. Method: flushes draw keys from a seed; plans start (inputs become busy) and finish in random
//! order; after some steps the newest version of each key is read through the levels, newest first, and compared with an
//! ordered map.

use super::*;
use crate::{merge_all, merge_range, pick_merge};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Writes {
    Uniform,
    Sequential,
    TinySequential,
    Queue,
    Skewed,
    Ranges,
}

struct Life {
    random: Random,
    writes: Writes,
    tree: Tree,
    sequence: u64,
    cursor: u32,
}

impl Life {
    fn new(seed: u64, writes: Writes) -> Self {
        let options = PolicyOptions {
            level_size_ratio: 4,
            l1_file_count_trigger: 3,
            write_buffer_bytes: 30 * ENTRY_BYTES as usize,
            min_levels: 1 + (seed % 4) as usize,
            tombstone_density_trigger: if seed.is_multiple_of(2) { 0.5 } else { 0.0 },
            tombstone_density_entries_min: 8,
            table_bytes_target: 64 * 8 * ENTRY_BYTES,
            dividing_level_offset: (seed % 3) as usize,
        };
        Self {
            random: Random(seed),
            writes,
            tree: Tree::new(options, pick_merge),
            sequence: 0,
            cursor: 0,
        }
    }

    fn draw(&mut self) -> (u32, bool) {
        match self.writes {
            Writes::Uniform => (self.random.below(2000) as u32, self.random.below(4) == 0),
            Writes::Skewed => {
                let bound = 1 + self.random.below(3000);
                (self.random.below(bound) as u32, self.random.below(2) == 0)
            }
            Writes::Sequential | Writes::TinySequential => {
                self.cursor += 1;
                (self.cursor, false)
            }
            Writes::Ranges => {
                self.cursor += 1;
                (
                    (self.cursor % 4) * 1_000_000 + self.cursor,
                    self.random.below(9) == 0,
                )
            }
            Writes::Queue => {
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
        let count = match self.writes {
            Writes::TinySequential => 1,
            _ => 1 + self.random.below(30),
        };
        let entries: Vec<Entry> = (0..count)
            .map(|_| {
                let (key, is_tombstone) = self.draw();
                self.sequence += 1;
                Entry {
                    key,
                    sequence: self.sequence,
                    is_tombstone,
                }
            })
            .collect();
        self.tree.flush(entries);
    }

    fn run(&mut self, flushes: usize) {
        for round in 0..flushes {
            let tree = &mut self.tree;
            // A real engine holds writers back when level 1 grows; so does this one.
            while tree.sample().runs > 12 && (tree.start() || !tree.running.is_empty()) {
                if !tree.running.is_empty() {
                    tree.finish(0);
                }
            }
            self.flush();
            for _ in 0..self.random.below(3) {
                if self.tree.running.len() < 3 {
                    self.tree.start();
                }
            }
            if self.random.below(20) == 0 {
                self.compact_a_range();
            }
            for _ in 0..self.random.below(3) {
                if !self.tree.running.is_empty() {
                    let index = self.random.below(self.tree.running.len() as u64) as usize;
                    self.tree.finish(index);
                }
            }
            if round.is_multiple_of(16) {
                self.tree.check();
            }
        }
        self.tree.rest();
        self.tree.check();
    }

    fn compact_a_range(&mut self) {
        let start = (self.random.below(2000) as u32).to_be_bytes();
        let end = (2000 + self.random.below(2000) as u32).to_be_bytes();
        let (shape, options) = (&self.tree.shape, &self.tree.options);
        let range = (Some(&start[..]), Some(&end[..]));
        if let Some(plan) = merge_range(shape, options, &KeyOrder::BYTEWISE, range) {
            self.tree.begin(plan);
        }
    }
}

fn lives() -> impl Iterator<Item = (u64, Writes)> {
    let all = [
        Writes::Uniform,
        Writes::Sequential,
        Writes::TinySequential,
        Writes::Queue,
        Writes::Skewed,
        Writes::Ranges,
    ];
    (1..=6).flat_map(move |seed| std::iter::repeat(seed).zip(all))
}

#[test]
fn a_long_life_loses_nothing_and_stays_small() {
    for (seed, writes) in lives() {
        println!("seed {seed}, {writes:?}");
        let mut life = Life::new(seed, writes);
        life.run(600);
        let tree = &life.tree;
        let (live, stored) = (tree.live(), tree.entries());
        let tables = tree.contents.len() as u64;
        let levels: Vec<usize> = tree.shape.levels.iter().map(Vec::len).collect();
        println!(
            "  live {live}, stored {stored}, tables {tables}, levels {levels:?}, rewritten {:.1} times",
            tree.bytes_rewritten as f64 / tree.bytes_flushed as f64
        );
        assert!(stored <= 2 * live + 400, "space is not bounded");
        assert!(
            tables <= stored / 4 + 24,
            "the number of tables is not bounded"
        );
        assert!(
            tree.bytes_rewritten <= 20 * tree.bytes_flushed,
            "too much rewriting"
        );
    }
}

#[test]
fn manual_compaction_leaves_only_live_entries() {
    for (seed, writes) in lives() {
        println!("seed {seed}, {writes:?}");
        let mut life = Life::new(seed, writes);
        life.run(60);
        let tree = &mut life.tree;
        let order = &KeyOrder::BYTEWISE;
        if let Some(plan) = merge_all(&tree.shape, &tree.options, order) {
            tree.begin(plan);
            tree.finish(0);
        }
        tree.check();
        assert_eq!(tree.entries(), tree.live());
        let next = pick_merge(&tree.shape, &tree.options, order);
        assert!(next.is_none_or(|plan| plan.moves_only));
    }
}

#[test]
fn ascending_keys_are_never_rewritten() {
    for load in [Load::Sequential, Load::Ranges] {
        let mut options = Life::new(1, Writes::Uniform).tree.options;
        options.table_bytes_target = 100 * ENTRY_BYTES;
        let mut tree = Tree::new(options, pick_merge);
        let mut random = Random(7);
        // The first memtable of several ranges is one table; the engine cuts it by the order of commits.
        for round in 0..8 {
            tree.flush((0..1).map(|_| load.write(&mut random, 1 + round, 0)));
        }
        for round in 1..300 {
            tree.flush((0..160).map(|at| load.write(&mut random, 8 + round * 160 + at, 0)));
            tree.rest();
        }
        tree.check();
        assert_eq!(tree.bytes_rewritten, 0, "{load:?}");
        assert_eq!(tree.shape.level(1).len(), 0, "{load:?}");
    }
}

#[test]
fn the_number_of_levels_follows_the_data_down_again() {
    let mut life = Life::new(3, Writes::Sequential);
    life.tree.options.min_levels = 1;
    life.run(600);
    let deepest = life.tree.shape.deepest();
    assert!(deepest >= 4, "only {deepest} levels");
    let deletes: Vec<Entry> = (1..life.cursor)
        .map(|key| Entry {
            key,
            sequence: 1_000_000,
            is_tombstone: true,
        })
        .collect();
    for part in deletes.chunks(30) {
        life.tree.flush(part.to_vec());
        life.tree.rest();
    }
    let order = &KeyOrder::BYTEWISE;
    if let Some(plan) = merge_all(&life.tree.shape, &life.tree.options, order) {
        life.tree.begin(plan);
        life.tree.finish(0);
    }
    life.tree.rest();
    life.tree.check();
    assert_eq!(life.tree.shape.deepest(), 2);
}
