//! Reads at a view: a snapshot, or the newest committed state.

use std::sync::Arc;

use kingtide_base::KeyOrder;

use crate::{
    engine::Engine,
    error::Result,
    family::{Family, Loaded, SuperVersion},
    files::Files,
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

/// Where a live value is, and what keeps it there.
pub(crate) struct Located {
    found: Found,
    /// Of a separated value: whoever holds what named its file keeps the file.
    _current: Option<Arc<SuperVersion>>,
}

impl Located {
    fn new(found: Found, current: Loaded) -> Self {
        let is_separated = matches!(found, Found::Separated(_));
        Self {
            found,
            _current: is_separated.then(|| Loaded::into_inner(current)),
        }
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &Found {
        &self.found
    }

    /// As [`Found::into_value`].
    ///
    /// # Errors
    /// When reading fails.
    pub(crate) fn into_value(self, files: &Files, key: &[u8], order: &KeyOrder) -> Result<Value> {
        self.found.into_value(files, key, order)
    }
}

/// One live value for `get`, `multi_get` and `contains`: at the snapshot, or at the newest state.
///
/// # Errors
/// What the family's checks and reading answer.
pub(crate) fn find_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Located>> {
    engine.check_family(family)?;
    check_key(key)?;
    let parts = (&**family, &*engine.files);
    let now = || engine.now();
    if let Some(snapshot) = snapshot {
        let point = ReadPoint {
            sequence: snapshot.sequence(),
            clock: Some(snapshot.clock()),
        };
        let current = family.load();
        let found = find(&current, parts, key, point, &now)?;
        return Ok(found.map(|found| Located::new(found, current)));
    }
    if !family.order.has_hash() {
        // Without a hash index the runs are searched, and background merges of runs keep only what is registered.
        let snapshot = acquire(engine);
        return find_at(engine, family, key, Some(&snapshot));
    }
    // Tables and memtables first, then the number: what they hold contains every version that the number sees.
    let current = family.load();
    let point = ReadPoint {
        sequence: engine.visible(),
        clock: None,
    };
    let found = find(&current, parts, key, point, &now)?;
    Ok(found.map(|found| Located::new(found, current)))
}

/// Registers a snapshot of what is visible now.
pub(crate) fn acquire(engine: &Engine) -> SnapshotGuard {
    engine
        .snapshots
        .acquire(|| engine.visible(), || engine.now())
}

/// As [`find_at`], with the value loaded.
///
/// # Errors
/// As [`find_at`].
pub(crate) fn get_at(
    engine: &Engine,
    family: &Arc<Family>,
    key: &[u8],
    snapshot: Option<&SnapshotGuard>,
) -> Result<Option<Value>> {
    match find_at(engine, family, key, snapshot)? {
        Some(found) => found
            .into_value(&engine.files, key, &family.order)
            .map(Some),
        None => Ok(None),
    }
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
