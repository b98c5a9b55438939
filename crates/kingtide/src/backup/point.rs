//! The moment that a copy shows.
//!
//! Under the commit lock no commit is half applied, so the views taken there hold the commits up to its last number and
//! no other: memtables may get newer entries later, which the reader leaves out, and lose none, because their runs are
//! merged with all versions; tables never change. The manifest lock,
//! taken first, keeps families from coming and going and makes the manifest's state fit the views' tables.

use std::sync::Arc;

use kingtide_base::{Lsn, SegmentId, SeqNo};
use kingtide_format::TableMeta;

use crate::{
    engine::Engine,
    family::{Family, SuperVersion},
    manifest::ManifestState,
    memtable::Memory,
    spill::Spilled,
    version::Version,
};

/// See the module.
pub(super) struct Point {
    /// The last commit in it.
    pub(super) sequence: SeqNo,
    /// A life of the log that the source has not had: nothing of the source's log counts in the copy.
    pub(super) log_segment: SegmentId,
    /// Where the log ended, or was to begin.
    pub(super) log_position: Lsn,
    /// What the manifest said.
    pub(super) state: ManifestState,
    /// What the families held.
    pub(super) families: Vec<Pinned>,
}

/// One family at the moment.
pub(super) struct Pinned {
    pub(super) family: Arc<Family>,
    /// The tables, which stay on disk as long as this is held.
    pub(super) version: Arc<Version>,
    /// The tables of a deferred family, which have no version.
    pub(super) deferred: Vec<(u8, Arc<TableMeta>)>,
    /// The memtables, newest first; let go once they are written.
    pub(super) memories: Vec<Arc<Memory>>,
    /// What entries of these point to; kept on disk as long as this is held.
    pub(super) spilled: Vec<Arc<Spilled>>,
}

/// Takes the moment. Commits wait for as long as it takes to copy one pointer a family.
pub(super) fn take(engine: &Engine) -> Point {
    let manifest = engine.manifest.lock();
    let families = engine.families.all();
    let state = manifest.state().clone();
    let mut views: Vec<Arc<SuperVersion>> = Vec::with_capacity(families.len());
    let (sequence, segment, position) = {
        let order = engine.pipeline.order.lock();
        views.extend(families.iter().map(|family| family.load_full()));
        let tail = &order.log.tail;
        (order.last_sequence(), tail.segment(), tail.position())
    };
    let mut pinned = Vec::with_capacity(families.len());
    for (family, view) in families.into_iter().zip(views) {
        let deferred = pin_deferred(&family, &mut pinned);
        pinned.push(Pinned {
            deferred,
            ..pin(family, &view)
        });
    }
    drop(manifest);
    let start = state.log_start();
    Point {
        sequence: sequence.max(start.sequence),
        log_segment: segment.max(start.segment).next(),
        log_position: position.max(start.position).max(state.log_durable()),
        families: pinned,
        state,
    }
}

/// A deferred family's tables, and the pending family with its commits.
fn pin_deferred(family: &Family, pinned: &mut Vec<Pinned>) -> Vec<(u8, Arc<TableMeta>)> {
    let Some(deferred) = family.deferred() else {
        return Vec::new();
    };
    let view = deferred.pending.load_full();
    pinned.push(pin(deferred.pending, &view));
    deferred.tables
}

fn pin(family: Arc<Family>, view: &SuperVersion) -> Pinned {
    Pinned {
        deferred: Vec::new(),
        family,
        version: Arc::clone(&view.version),
        memories: view.memories().cloned().collect(),
        spilled: Vec::new(),
    }
}
