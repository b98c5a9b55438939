//! Whether the tables under a flush or a merge hold a key: what allows a single delete to vanish before the bottom.
//!
//! A pass reads all versions of its keys from its sources down to its target level. Everything older lies in the levels
//! below the target, in the version that the pass was planned on: merges that run meanwhile only move it further down.
//! A lookup asks a table's filter first, so that a key that is nowhere is told without reading a block, as a rule.

use std::sync::Arc;

use kingtide_base::{Fragment, KeyOrder, SeqNo, is_before_end};

use crate::{family::Family, files::Files, version::Version};

/// Where older versions than those of a pass may lie outside of it, told from the ranges of tables alone. A key in none of
/// them is at the bottom. Merges that run meanwhile only move what is there, within these ranges.
#[derive(Clone, Debug)]
pub(crate) enum Below {
    /// Nothing is known.
    Anywhere,
    /// Within these ranges, ascending and apart; both ends belong to them.
    In(Arc<[(Vec<u8>, Vec<u8>)]>),
}

impl Below {
    /// The tables of `version`, which is [what lies below](Version::below) the target of the pass.
    pub(crate) fn tables(version: &Version, order: &KeyOrder) -> Self {
        let mut tables: Vec<_> = version.tables().map(|(_, table)| table).collect();
        tables.sort_by(|left, right| order.compare(&left.smallest, &right.smallest));
        let mut ranges: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for table in tables {
            match ranges.last_mut() {
                Some((_, end)) if order.compare(&table.smallest, end).is_le() => {
                    if order.compare(&table.largest, end).is_gt() {
                        end.clone_from(&table.largest);
                    }
                }
                _ => ranges.push((table.smallest.clone(), table.largest.clone())),
            }
        }
        Self::In(ranges.into())
    }

    /// True when an older version of `key` may lie there.
    pub(crate) fn holds(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let Self::In(ranges) = self else { return true };
        let next = ranges.partition_point(|(_, end)| order.compare(end, key).is_lt());
        ranges
            .get(next)
            .is_some_and(|(start, _)| order.compare(start, key).is_le())
    }

    /// True when an older version of a key in the range of `fragment` may lie there.
    pub(crate) fn meets(&self, order: &KeyOrder, fragment: &Fragment) -> bool {
        let Self::In(ranges) = self else { return true };
        let next = ranges.partition_point(|(_, end)| order.compare(end, &fragment.start).is_lt());
        ranges
            .get(next)
            .is_some_and(|(start, _)| is_before_end(order, start, &fragment.end))
    }
}

/// Answers for a key whether an older version of it may exist outside of the pass.
pub(crate) type ExistsBelow = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Looks into the tables of `version`: [what lay below](Version::below) the target of the pass when it was planned.
pub(crate) fn exists_below(
    files: &Arc<Files>,
    family: &Arc<Family>,
    version: Arc<Version>,
) -> ExistsBelow {
    let (files, family) = (Arc::clone(files), Arc::clone(family));
    Arc::new(move |key| {
        let hash = family.order.hash(key);
        (1..=version.depth()).any(|level| {
            version.tables_for_key(level, key).any(|meta| {
                let found = files.tables.with(meta, &family.order, |table| {
                    table.get(key, hash, SeqNo::MAX, &files.blocks)
                });
                // What cannot be read may be anything. Whoever reads the key is told of the failure.
                !matches!(found, Ok(None))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use kingtide_base::FileId;
    use kingtide_format::{OldestTombstone, TableMeta};

    use super::*;

    const ORDER: KeyOrder = KeyOrder::BYTEWISE;

    fn table(file: u64, smallest: &str, largest: &str) -> Arc<TableMeta> {
        Arc::new(TableMeta {
            file: FileId(file),
            file_bytes: 100,
            footer_checksum: 0,
            smallest: smallest.into(),
            largest: largest.into(),
            is_largest_excluded: false,
            sequence_min: SeqNo(1),
            sequence_max: SeqNo(file),
            sequence_base: SeqNo::ZERO,
            entries: 10,
            tombstones: 0,
            oldest_tombstone: OldestTombstone::default(),
            range_deletes: 0,
            raw_bytes: 100,
            value_files: Vec::new(),
        })
    }

    fn ranges(version: &Version, level: u8) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match Below::tables(&version.below(level), &ORDER) {
            Below::Anywhere => panic!("the version is known"),
            Below::In(ranges) => ranges
                .iter()
                .map(|(from, to)| (text(from), text(to)))
                .collect(),
        }
    }

    /// Goal: a key is below exactly when a table under the level may hold it. Method: tables that lie apart, overlap, touch
    /// and lie in each other, on two levels.
    #[test]
    fn what_lies_below_is_told_by_the_ranges_of_tables() {
        let tables = [
            (1, table(9, "a", "z")),
            (2, table(1, "c", "f")),
            (2, table(2, "p", "r")),
            (3, table(3, "e", "h")),
            (3, table(4, "h1", "k")),
            (3, table(5, "q", "q5")),
        ];
        let version = Version::from_tables(ORDER, tables).expect("disjoint");
        let of = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(ranges(&version, 0), [of("a", "z")]);
        let below_one = [of("c", "h"), of("h1", "k"), of("p", "r")];
        assert_eq!(ranges(&version, 1), below_one);
        assert_eq!(
            ranges(&version, 2),
            [of("e", "h"), of("h1", "k"), of("q", "q5")]
        );
        assert!(ranges(&version, 3).is_empty());

        let below = Below::tables(&version.below(1), &ORDER);
        let holds = |key: &str| below.holds(&ORDER, key.as_bytes());
        for key in ["c", "d", "h", "h1", "k", "p", "r"] {
            assert!(holds(key), "{key}");
        }
        for key in ["a", "bz", "h0", "k0", "o", "r0", "z"] {
            assert!(!holds(key), "{key}");
        }
        assert!(Below::Anywhere.holds(&ORDER, b"a"));
    }

    /// Goal: a range delete meets what is below when a key that it deletes may lie there.
    #[test]
    fn range_deletes_meet_the_tables_that_they_reach() {
        let tables = [(2, table(1, "c", "f")), (2, table(2, "p", "r"))];
        let version = Version::from_tables(ORDER, tables).expect("disjoint");
        let below = Below::tables(&version.below(1), &ORDER);
        let fragment = |from: &str, to: &str| {
            Fragment::new(from.as_bytes(), to.as_bytes(), &[SeqNo(3)]).expect("one number")
        };
        let meets = |from: &str, to: &str| below.meets(&ORDER, &fragment(from, to));
        for (from, to) in [("a", "d"), ("d", "e"), ("f", "g"), ("a", ""), ("g", "q")] {
            assert!(meets(from, to), "{from} to {to}");
        }
        for (from, to) in [("a", "c"), ("f0", "p"), ("g", "h"), ("r0", "")] {
            assert!(!meets(from, to), "{from} to {to}");
        }
        assert!(Below::Anywhere.meets(&ORDER, &fragment("a", "b")));
    }
}
