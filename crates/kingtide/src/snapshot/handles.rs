//! Which snapshots users hold: for the statistics, and to find one by its name. Snapshots of transactions, iterators and
//! single calls are not listed, so reads and commits pay nothing for this.
//!
//! A name belongs to one snapshot at a time, until the last handle to it is dropped. The list does not keep snapshots
//! alive. Its lock is a leaf, and no snapshot is dropped while it is held.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use kingtide_base::SeqNo;
use kingtide_env::sync::Mutex;

use super::SnapshotGuard;
use crate::error::{Error, ErrorKind, Result};

/// The snapshots of one database that users hold.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    entries: BTreeMap<u64, ListEntry>,
    names: BTreeMap<Arc<str>, u64>,
}

#[derive(Debug)]
struct ListEntry {
    name: Option<Arc<str>>,
    sequence: SeqNo,
    taken_at_nanos: u64,
    handle: Weak<ListedSnapshot>,
}

/// One snapshot that users hold; listed while it lives.
#[derive(Debug)]
pub(crate) struct ListedSnapshot {
    list: Arc<SnapshotList>,
    number: u64,
    name: Option<Arc<str>>,
    guard: SnapshotGuard,
}

/// What the list says of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotInfo {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) sequence: SeqNo,
    /// On the monotonic clock.
    pub(crate) taken_at_nanos: u64,
}

impl SnapshotList {
    /// Lists `guard`, under `name` if there is one.
    ///
    /// # Errors
    /// `AlreadyExists` while a snapshot of that name is alive.
    pub(crate) fn add(
        self: &Arc<Self>,
        name: Option<&str>,
        guard: SnapshotGuard,
        taken_at_nanos: u64,
    ) -> Result<Arc<ListedSnapshot>> {
        let mut listed = self.listed.lock();
        let name: Option<Arc<str>> = name.map(Into::into);
        let number = listed.next;
        if let Some(name) = &name {
            let is_alive = |number: &u64| {
                let entry = listed.entries.get(number);
                entry.is_some_and(|entry| entry.handle.strong_count() > 0)
            };
            if listed.names.get(name).is_some_and(is_alive) {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    format!("a snapshot named {name:?} is alive"),
                ));
            }
            listed.names.insert(Arc::clone(name), number);
        }
        listed.next += 1;
        let snapshot = Arc::new(ListedSnapshot {
            list: Arc::clone(self),
            number,
            name: name.clone(),
            guard,
        });
        let entry = ListEntry {
            name,
            sequence: snapshot.guard.sequence(),
            taken_at_nanos,
            handle: Arc::downgrade(&snapshot),
        };
        listed.entries.insert(number, entry);
        Ok(snapshot)
    }

    /// The living snapshot of that name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ListedSnapshot>> {
        let listed = self.listed.lock();
        let number = listed.names.get(name)?;
        listed.entries.get(number)?.handle.upgrade()
    }

    /// All living snapshots, the oldest first.
    pub(crate) fn all(&self) -> Vec<SnapshotInfo> {
        let listed = self.listed.lock();
        let alive = |entry: &&ListEntry| entry.handle.strong_count() > 0;
        let info = |entry: &ListEntry| SnapshotInfo {
            name: entry.name.clone(),
            sequence: entry.sequence,
            taken_at_nanos: entry.taken_at_nanos,
        };
        listed.entries.values().filter(alive).map(info).collect()
    }
}

impl ListedSnapshot {
    /// Its name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What it sees.
    pub(crate) fn guard(&self) -> &SnapshotGuard {
        &self.guard
    }
}

impl Drop for ListedSnapshot {
    fn drop(&mut self) {
        let mut listed = self.list.listed.lock();
        listed.entries.remove(&self.number);
        // Another snapshot may have taken the name since this one had no handle left.
        if let Some(name) = &self.name
            && listed.names.get(name) == Some(&self.number)
        {
            listed.names.remove(name);
        }
    }
}
