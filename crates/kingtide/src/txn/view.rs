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

/// Looks for one live value of `family`, at the snapshot or at the newest state, and hands it to `use_found` where it lies:
/// what holds it, and keeps the file of a separated value, is there until that returns.
///
/// # Errors
/// What the family's checks, reading and `use_found` answer.
pub(crate) fn with_found<R>(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
    use_found: impl FnOnce(Option<Found<'_>>) -> Result<R>,
) -> Result<R> {
    engine.check_family(family)?;
    check_key(key)?;
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
    use_found(find(&current, parts, key, point, &now)?)
}

/// Whether there is a live value.
///
/// # Errors
/// As [`with_found`].
pub(crate) fn contains_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<bool> {
    with_found(engine, family, key, snapshot, |found| Ok(found.is_some()))
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
/// As [`with_found`].
pub(crate) fn get_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Value>> {
    let place = (key, &family.order);
    with_found(engine, family, key, snapshot, |found| {
        loaded(engine, found, place)
    })
}

/// The value that was found, if one was, at `place`: its key, and the order of its family.
///
/// # Errors
/// When reading fails.
pub(crate) fn loaded(
    engine: &Engine,
    found: Option<Found<'_>>,
    place: (&[u8], &KeyOrder),
) -> Result<Option<Value>> {
    let load = |found: Found<'_>| found.into_value(&engine.files, place);
    found.map(load).transpose()
}

/// What `look` makes of the value that was found, if one was, at `place`, as for [`loaded`].
///
/// # Errors
/// When reading fails; `look` was not called then.
pub(crate) fn looked_at<R>(
    engine: &Engine,
    found: Option<Found<'_>>,
    place: (&[u8], &KeyOrder),
    look: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>> {
    let look = |found: Found<'_>| found.look(&engine.files, place, look);
    found.map(look).transpose()
}

/// Puts the value that was found, if one was, at `place`, as for [`loaded`], into the place of what `target` holds; whether there
/// is one.
///
/// # Errors
/// When reading fails; what `target` holds then means nothing.
pub(crate) fn read_into(
    engine: &Engine,
    found: Option<Found<'_>>,
    place: (&[u8], &KeyOrder),
    target: &mut Vec<u8>,
) -> Result<bool> {
    let read = |found: Found<'_>| found.read_into(&engine.files, place, target);
    Ok(found.map(read).transpose()?.is_some())
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
