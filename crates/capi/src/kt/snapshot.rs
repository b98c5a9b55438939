//! Snapshots to begin transactions at.

use std::{ffi::c_int, sync::Arc};

use kingtide::Snapshot;

use crate::{
    border::{Failure, answer, answer_with},
    objects::{Database, DatabaseHandle, SNAPSHOTS, SnapshotHandle, handle_place, no_handle},
    pointer::Out,
};

/// A snapshot of a database.
#[derive(Debug)]
pub(crate) struct NamedSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) database: Arc<Database>,
}

/// Takes a snapshot of what is committed now.
#[unsafe(no_mangle)]
pub extern "C" fn kt_snapshot_create(db: DatabaseHandle, snapshot: Out<SnapshotHandle>) -> c_int {
    answer(|| {
        let place = handle_place(snapshot, SnapshotHandle::NULL, "snapshot")?;
        let database = db.get()?;
        let taken = database.db.snapshot()?;
        let object = NamedSnapshot {
            snapshot: taken,
            database,
        };
        let handle = SNAPSHOTS.insert(Arc::new(object)).ok_or_else(no_handle)?;
        place.set(SnapshotHandle::from_number(handle));
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
