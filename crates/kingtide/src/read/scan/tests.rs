use super::*;
use crate::{
    family::testing::{family, small},
    options::IterOptions,
};

/// Positions 0 to 40: keys that may exist are the even ones, gaps the odd ones.
const POSITIONS: u8 = 41;

/// An iterator over a set of positions, and what it has read, position by position.
struct Oracle {
    present: Vec<u8>,
    /// Half-open.
    bounds: (u8, u8),
    shown: Option<u8>,
    read: [bool; POSITIONS as usize],
}

impl Oracle {
    fn mark(&mut self, from: u8, to: u8) {
        let (from, to) = (from.max(self.bounds.0), to.min(self.bounds.1 - 1));
        for position in from..=to {
            self.read[usize::from(position)] = true;
        }
    }

    fn at_or_after(&self, from: u8) -> Option<u8> {
        let (lower, upper) = self.bounds;
        let visible = |key: &&u8| (from.max(lower)..upper).contains(*key);
        self.present.iter().find(visible).copied()
    }

    fn at_or_before(&self, from: u8) -> Option<u8> {
        let (lower, upper) = self.bounds;
        let visible = |key: &&u8| (lower..upper).contains(*key) && **key <= from;
        self.present.iter().rev().find(visible).copied()
    }

    fn go_up(&mut self, from: u8) {
        self.shown = self.at_or_after(from);
        self.mark(from, self.shown.unwrap_or(POSITIONS - 1));
    }

    fn go_down(&mut self, from: u8) {
        self.shown = self.at_or_before(from);
        self.mark(self.shown.unwrap_or(0), from);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u8) -> u8 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) % u64::from(bound)) as u8
    }
}

/// Goal: the ranges of an iterator hold exactly the positions that its moves told of. Method: random sets, bounds and
/// moves, against an oracle that marks positions one by one.
#[test]
fn ranges_hold_exactly_what_moves_told() {
    let family = family(1, small("memcmp"));
    for seed in 0..2000 {
        let mut random = Random(seed);
        let lower = random.below(POSITIONS);
        let has_bounds = random.below(2) == 0;
        let bounds = if has_bounds {
            (lower, lower + 1 + random.below(POSITIONS - lower))
        } else {
            (0, POSITIONS)
        };
        let mut oracle = Oracle {
            present: (0..POSITIONS)
                .step_by(2)
                .filter(|_| random.below(3) == 0)
                .collect(),
            bounds,
            shown: None,
            read: [false; POSITIONS as usize],
        };
        let options = IterOptions {
            lower: has_bounds.then(|| vec![bounds.0]),
            upper: has_bounds.then(|| vec![bounds.1]),
            prefix: None,
        };
        let bounds = Bounds::new(&options, &family.order).expect("no prefix");
        let mut reads = ReadSet::default();
        reads.set_limit(1 << 20, 0);
        let scan = reads.open_scan(&family, bounds).expect("small");
        for _ in 0..1 + random.below(12) {
            let target = random.below(POSITIONS);
            let key = [target];
            let shown = oracle.shown;
            let how = match (random.below(8), shown) {
                (0, _) => {
                    oracle.go_up(0);
                    Move::First
                }
                (1, _) => {
                    oracle.go_down(POSITIONS - 1);
                    Move::Last
                }
                (2, None) | (3, _) => {
                    oracle.go_up(target);
                    Move::Seek(&key)
                }
                (_, None) | (4, _) => {
                    oracle.go_down(target);
                    Move::SeekForPrev(&key)
                }
                (2 | 5, Some(shown)) => {
                    oracle.go_up(shown + 1);
                    Move::Next
                }
                (_, Some(0)) => {
                    oracle.shown = None;
                    Move::Prev
                }
                (_, Some(shown)) => {
                    oracle.go_down(shown - 1);
                    Move::Prev
                }
            };
            let shown = oracle.shown.map(|key| [key]);
            let shown = shown.as_ref().map(<[u8; 1]>::as_slice);
            reads.note_move(scan, how, shown).expect("small");
        }
        if random.below(2) == 0 {
            reads.close_scan(scan);
        }
        reads.finish();
        let holds = |position: u8| {
            let ranges = reads.families().flat_map(|reads| reads.merged_ranges());
            ranges
                .into_iter()
                .any(|range| range.contains(&[position], &family.order))
        };
        for position in 0..POSITIONS {
            assert_eq!(
                holds(position),
                oracle.read[usize::from(position)],
                "seed {seed}, position {position}"
            );
        }
    }
}

/// Goal: a step costs no room, a range that was left does, and what is counted is given back with the set.
#[test]
fn ranges_count_against_the_limit() {
    let family = family(1, small("memcmp"));
    let mut reads = ReadSet::default();
    reads.set_limit(2000, 0);
    let bounds = || Bounds::new(&IterOptions::default(), &family.order).expect("no prefix");
    let scan = reads.open_scan(&family, bounds()).expect("fits");
    reads
        .note_move(scan, Move::Seek(b"a"), Some(b"a"))
        .expect("fits");
    for step in 0..1000_u32 {
        let key = step.to_be_bytes();
        reads
            .note_move(scan, Move::Next, Some(&key))
            .expect("a step takes the place of the one before");
    }
    let refused = (0..1000_u32).find(|jump| {
        let key = jump.to_be_bytes();
        reads
            .note_move(scan, Move::Seek(&key), Some(&key))
            .is_err_and(|error| error.kind() == crate::ErrorKind::MemoryLimit)
    });
    assert!(refused.is_some());
    reads.clear();
    assert_eq!(reads.bytes(), 0);
    reads.open_scan(&family, bounds()).expect("fits again");
}
