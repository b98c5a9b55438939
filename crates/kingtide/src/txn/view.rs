//! Reads at a view: a snapshot, or the newest committed state.

use std::sync::Arc;

use kingtide_base::KeyOrder;

use crate::{
    engine::Engine,
    error::Result,
    family::Family,
    options::IterOptions,
    read::{
        Iter, Value,
        get::{Found, ReadPoint, find},
        iter::{Bounds, own_writes::OwnWrites},
        open_iter::{IterParts, open_iter},
    },
    snapshot::SnapshotGuard,
};

use super::writes::check_key;

/// What a read found of a key, and what it takes to get at the value.
pub(crate) struct Answer<'a> {
    pub(super) engine: &'a Engine,
    pub(super) key: &'a [u8],
    pub(super) order: &'a KeyOrder,
    pub(super) found: Option<Found<'a>>,
}

impl Answer<'_> {
    /// Whether there is a live value.
    pub(super) fn is_there(&self) -> bool {
        self.found.is_some()
    }

    /// The value.
    ///
    /// # Errors
    /// When reading fails.
    pub(super) fn load(self) -> Result<Option<Value>> {
        let place = (self.key, self.order);
        let load = |found: Found<'_>| found.into_value(&self.engine.files, place);
        self.found.map(load).transpose()
    }

    /// What `look` makes of the value, where it lies.
    ///
    /// # Errors
    /// When reading fails; `look` was not called then.
    pub(super) fn look<R>(self, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let place = (self.key, self.order);
        let look = |found: Found<'_>| found.look(&self.engine.files, place, look);
        self.found.map(look).transpose()
    }

    /// Puts the value, if there is one, into the place of what `target` holds; whether there is one.
    ///
    /// # Errors
    /// When reading fails; what `target` holds then means nothing.
    pub(crate) fn read_into(self, target: &mut Vec<u8>) -> Result<bool> {
        let place = (self.key, self.order);
        let read = |found: Found<'_>| found.read_into(&self.engine.files, place, target);
        Ok(self.found.map(read).transpose()?.is_some())
    }
}

/// Looks for the live value of `key` in `family`, at the snapshot or at the newest state, and hands it to `use_answer` where it
/// lies: what holds it, and keeps the file of a separated value, is there until that returns.
///
/// # Errors
/// What the family's checks, reading and `use_answer` answer.
pub(crate) fn with_answer<R>(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
    use_answer: impl FnOnce(Answer<'_>) -> Result<R>,
) -> Result<R> {
    engine.check_family(family)?;
    check_key(key)?;
    engine.pipeline.note_read(family);
    let parts = (&**family, &*engine.files);
    let now = || engine.now();
    // Without a hash index the runs are searched, and background merges of runs keep only what is registered.
    let registered = (snapshot.is_none() && !family.order.has_hash()).then(|| acquire(engine));
    let snapshot = snapshot.or(registered.as_ref());
    // Tables and memtables first, then the number: what they hold contains every version that the number sees.
    let current = family.load();
    let point = ReadPoint {
        sequence: snapshot.map_or_else(|| engine.visible(), SnapshotGuard::sequence),
        clock: snapshot.map(SnapshotGuard::clock),
    };
    use_answer(Answer {
        engine,
        key,
        order: &family.order,
        found: find(&current, parts, key, point, &now)?,
    })
}

/// Whether there is a live value.
///
/// # Errors
/// As [`with_answer`].
pub(crate) fn contains_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<bool> {
    with_answer(
        engine,
        family,
        key,
        snapshot,
        |answer| Ok(answer.is_there()),
    )
}

/// Registers a snapshot of what is visible now.
pub(crate) fn acquire(engine: &Engine) -> SnapshotGuard {
    engine
        .snapshots
        .acquire(|| engine.visible(), || engine.now())
}

/// The live value, loaded.
///
/// # Errors
/// As [`with_answer`].
pub(crate) fn get_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Value>> {
    with_answer(engine, family, key, snapshot, |answer| answer.load())
}

/// An iterator over `family` at `snapshot`, over `own_writes`.
///
/// # Errors
/// What the family's checks, impossible bounds and opening tables answer.
pub(crate) fn iter_at(
    engine: &Engine,
    family: &Arc<Family>,
    options: &IterOptions,
    snapshot: &SnapshotGuard,
    own_writes: Option<OwnWrites>,
) -> Result<Iter> {
    engine.check_family(family)?;
    let parts = IterParts {
        current: family.load_full(),
        files: &engine.files,
        order: &family.order,
        options,
        own_writes,
    };
    let point = ReadPoint {
        sequence: snapshot.sequence(),
        clock: Some(snapshot.clock()),
    };
    open_iter(parts, point)
}

/// The keys that an iterator of `options` may visit.
///
/// # Errors
/// `InvalidArgument` for impossible bounds.
pub(super) fn iter_bounds(family: &Family, options: &IterOptions) -> Result<Bounds> {
    Bounds::new(options, &family.order)
}
