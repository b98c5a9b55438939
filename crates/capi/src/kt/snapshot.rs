//! Snapshots to begin transactions at.

use std::{ffi::c_int, sync::Arc};

use kingtide::Snapshot;

use crate::{
    border::{Failure, Outcome, answer, answer_with, code},
    objects::{Database, DatabaseHandle, SNAPSHOTS, SnapshotHandle, handle_place, no_handle},
    pointer::{Out, Text},
};

/// A snapshot of a database.
#[derive(Debug)]
pub(crate) struct NamedSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) database: Arc<Database>,
}

/// Makes a snapshot known to C.
fn adopt(database: Arc<Database>, snapshot: Snapshot) -> Outcome<SnapshotHandle> {
    let object = NamedSnapshot { snapshot, database };
    let handle = SNAPSHOTS.insert(Arc::new(object)).ok_or_else(no_handle)?;
    Ok(SnapshotHandle::from_number(handle))
}

/// The longest name of a snapshot, in bytes.
const NAME_BYTES_MAX: usize = 127;

/// Takes a snapshot of what is committed now.
#[unsafe(no_mangle)]
pub extern "C" fn kt_snapshot_create(
    db: DatabaseHandle,
    name: Text,
    snapshot: Out<SnapshotHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(snapshot, SnapshotHandle::NULL, "snapshot")?;
        let database = db.get()?;
        let taken = if name.is_null() {
            database.db.snapshot()?
        } else {
            let name = name.name(NAME_BYTES_MAX, "name")?;
            database.db.named_snapshot(name)?
        };
        place.set(adopt(database, taken)?);
        Ok(())
    })
}

/// Another handle to a named snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn kt_snapshot_find(
    db: DatabaseHandle,
    name: Text,
    snapshot: Out<SnapshotHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(snapshot, SnapshotHandle::NULL, "snapshot")?;
        let database = db.get()?;
        let name = name.name(NAME_BYTES_MAX, "name")?;
        let found = database.db.find_snapshot(name)?;
        let found = found.ok_or_else(|| {
            Failure::new(
                code::NOT_FOUND,
                format!("name: no snapshot {name:?} is alive"),
            )
        })?;
        place.set(adopt(database, found)?);
        Ok(())
    })
}

/// The newest commit that a snapshot sees; 0 when the handle is wrong.
#[unsafe(no_mangle)]
pub extern "C" fn kt_snapshot_sequence(snapshot: SnapshotHandle) -> u64 {
    answer_with(|| Ok(snapshot.get()?.snapshot.sequence().0), |_| 0)
}

/// Ends a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn kt_snapshot_free(snapshot: SnapshotHandle) {
    let _ = answer(|| {
        if snapshot.number() == 0 {
            return Ok(());
        }
        let removed = SNAPSHOTS.remove(snapshot.number());
        removed
            .map(drop)
            .map_err(|refused| Failure::handle("snapshot", refused))
    });
}
