//! A family that is in the database but cannot be used yet: its comparator is not registered. Its tables stay closed, and
//! its commits from the log are kept aside in a *pending* family, until the comparator is there.

use std::{
    cmp::Ordering,
    sync::{Arc, OnceLock},
};

use kingtide_base::{Comparator, ComparatorRef};
use kingtide_format::TableMeta;

use super::Family;

/// Stands for a comparator that is not registered yet. Nothing is sorted by it before that.
pub(crate) struct DeferredOrder {
    name: String,
    found: OnceLock<ComparatorRef>,
}

impl DeferredOrder {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            found: OnceLock::new(),
        })
    }

    /// The comparator is there. Once set, it stays.
    pub(crate) fn set(&self, comparator: &ComparatorRef) {
        let _ = self.found.set(Arc::clone(comparator));
    }
}

impl Comparator for DeferredOrder {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self.found.get() {
            Some(comparator) => comparator.compare(left, right),
            None => left.cmp(right),
        }
    }
}

/// What a deferred family waits with.
#[derive(Clone)]
pub(crate) struct Deferred {
    /// The order to fill in; `None` when the family has its comparator and only waits for its pending commits.
    pub(crate) order: Option<Arc<DeferredOrder>>,
    /// Its tables, with their levels.
    pub(crate) tables: Vec<(u8, Arc<TableMeta>)>,
    /// Where its commits that are not in these tables are.
    pub(crate) pending: Arc<Family>,
}

/// What the names of pending families begin with; no user's family can have such a name.
const PENDING_PREFIX: &str = "pending/";

/// The name of the pending family of the family `id`.
pub(crate) fn pending_name(id: kingtide_base::FamilyId) -> String {
    format!("{PENDING_PREFIX}{}", id.0)
}

/// True for the name of a pending family.
pub(crate) fn is_pending_name(name: &str) -> bool {
    name.starts_with(PENDING_PREFIX)
}
