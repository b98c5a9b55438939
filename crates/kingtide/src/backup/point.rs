//! The moment that a copy shows.
//!
//! Under the commit lock no commit is half applied, so the views taken there hold the commits up to its last number and
//! no other: memtables may get newer entries later, which the reader leaves out, and lose none, because their runs are
//! merged with all versions; tables never change. The manifest lock,
//! taken first, keeps families from coming and going and makes the manifest's state fit the views' tables.

use std::sync::Arc;

use kingtide_base::{Lsn, SegmentId, SeqNo};

use crate::{
    engine::Engine,
    family::{Family, SuperVersion},
    manifest::ManifestState,
    memtable::Memory,
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
    /// The memtables, newest first; let go once they are written.
    pub(super) memories: Vec<Arc<Memory>>,
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
    drop(manifest);
    let start = state.log_start();
    let families = families.into_iter().zip(views);
    Point {
        sequence: sequence.max(start.sequence),
        log_segment: segment.max(start.segment).next(),
        log_position: position.max(start.position).max(state.log_durable()),
        families: families.map(|(family, view)| pin(family, &view)).collect(),
        state,
    }
}

fn pin(family: Arc<Family>, view: &SuperVersion) -> Pinned {
    Pinned {
        family,
        version: Arc::clone(&view.version),
        memories: view.memories().cloned().collect(),
    }
}
