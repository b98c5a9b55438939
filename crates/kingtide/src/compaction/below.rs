//! Whether the tables under a flush or a merge hold a key: what allows a single delete to vanish before the bottom.
//!
//! A pass reads all versions of its keys from its sources down to its target level. Everything older lies in the levels
//! below the target, in the version that the pass was planned on: merges that run meanwhile only move it further down.
//! A lookup asks a table's filter first, so that a key that is nowhere is told without reading a block, as a rule.

use std::sync::Arc;

use kingtide_base::SeqNo;

use crate::{family::Family, files::Files, version::Version};

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
