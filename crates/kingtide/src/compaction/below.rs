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
    /// The tables under `level` of `version`; all tables for 0.
    pub(crate) fn levels(version: &Version, level: u8, order: &KeyOrder) -> Self {
        let below = version.tables().filter(|(of, _)| *of > level);
        let mut tables: Vec<_> = below.map(|(_, table)| table).collect();
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

/// The levels under `level` of `version`, which is the one that the pass was planned on; all levels for 0.
pub(crate) fn exists_below(
    files: &Arc<Files>,
    family: &Arc<Family>,
    version: Arc<Version>,
    level: u8,
) -> ExistsBelow {
    let (files, family) = (Arc::clone(files), Arc::clone(family));
    Arc::new(move |key| {
        let hash = family.order.hash(key);
        (level.saturating_add(1)..=version.depth()).any(|level| {
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
