//! What readers of a family see: the active memtable, the sealed ones, and the tables of a version. Immutable; a reader
//! holds one for as long as it needs a stable view, which keeps memtables and table files alive.

use std::sync::Arc;

use crate::{memtable::Memory, version::Version};

/// See the module.
pub(crate) struct SuperVersion {
    /// Takes the writes.
    pub(crate) active: Arc<Memory>,
    /// Waiting for their flush, newest first.
    pub(crate) sealed: Vec<Arc<Memory>>,
    /// The tables.
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// All memtables, newest first.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &Arc<Memory>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// True when no key has a version here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.version.is_empty() && self.memories().all(|memory| memory.table.is_empty())
    }

    /// With the active memtable sealed and `active` in its place.
    pub(crate) fn sealed_with(&self, active: Arc<Memory>) -> Self {
        let mut sealed = Vec::with_capacity(self.sealed.len() + 1);
        sealed.push(Arc::clone(&self.active));
        sealed.extend(self.sealed.iter().cloned());
        Self {
            active,
            sealed,
            version: Arc::clone(&self.version),
        }
    }

    /// With `active` in the place of an active memtable that holds nothing.
    pub(crate) fn with_active(&self, active: Arc<Memory>) -> Self {
        Self {
            active,
            sealed: self.sealed.clone(),
            version: Arc::clone(&self.version),
        }
    }

    /// With other tables, and without the sealed memtable `flushed`.
    pub(crate) fn with_version(
        &self,
        version: Arc<Version>,
        flushed: Option<&Arc<Memory>>,
    ) -> Self {
        let keeps = |memory: &&Arc<Memory>| !flushed.is_some_and(|gone| Arc::ptr_eq(gone, memory));
        Self {
            active: Arc::clone(&self.active),
            sealed: self.sealed.iter().filter(keeps).cloned().collect(),
            version,
        }
    }
}
