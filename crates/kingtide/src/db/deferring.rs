//! Which families must wait when a database is opened, and the pending families that take their commits.

use std::{collections::BTreeMap, sync::Arc};

use kingtide_base::{FamilyId, KeyOrder, SeqNo};
use kingtide_format::TableMeta;

use super::open::order_of;
use crate::{
    error::{ErrorKind, Result},
    family::{Deferred, DeferredOrder, Family, FamilyParts, Opening, SuperVersion, pending_name},
    manifest::ManifestState,
    memtable::Memory,
    options::{FamilyOptions, Options},
    version::Version,
};

/// See the module.
pub(super) struct Deferring {
    /// Pending families that an earlier opening left, by name.
    left: BTreeMap<String, FamilyId>,
    next_id: FamilyId,
    waiting: Vec<Waiting>,
}

/// A family that must wait.
struct Waiting {
    family: Arc<Family>,
    order: Option<Arc<DeferredOrder>>,
    tables: Vec<(u8, Arc<TableMeta>)>,
}

impl Deferring {
    pub(super) fn new(state: &ManifestState) -> Self {
        let names = state
            .families()
            .map(|(id, family)| (family.name.clone(), id));
        Self {
            left: names.collect(),
            next_id: state.next_family_id(),
            waiting: Vec::new(),
        }
    }

    /// The order of the family `id`; and, if it must wait, the order to fill in, unless that is complete and the family
    /// only waits for commits that an earlier opening kept aside.
    ///
    /// # Errors
    /// `ComparatorMissing` when the options do not allow waiting.
    pub(super) fn order_of(
        &self,
        id: FamilyId,
        settings: &FamilyOptions,
        options: &Options,
    ) -> Result<(KeyOrder, Option<Option<Arc<DeferredOrder>>>)> {
        match order_of(settings, &options.comparators) {
            Ok(order) => {
                let has_pending = self.left.contains_key(&pending_name(id));
                Ok((order, has_pending.then_some(None)))
            }
            Err(error)
                if error.kind() == ErrorKind::ComparatorMissing
                    && options.defer_missing_comparators =>
            {
                let order = DeferredOrder::new(&settings.comparator);
                Ok((KeyOrder::new(Arc::clone(&order) as _), Some(Some(order))))
            }
            Err(error) => Err(error),
        }
    }

    /// The family must wait.
    pub(super) fn add(
        &mut self,
        family: &Arc<Family>,
        order: Option<Arc<DeferredOrder>>,
        tables: Vec<(u8, Arc<TableMeta>)>,
    ) {
        self.waiting.push(Waiting {
            family: Arc::clone(family),
            order,
            tables,
        });
    }

    /// Gives every family that must wait its pending family, an old or a new one. `make` answers an empty memtable for
    /// an order and settings, and the name of the opening.
    pub(super) fn finish(
        mut self,
        families: &mut Vec<(Arc<Family>, SeqNo)>,
        make: impl Fn((&KeyOrder, &FamilyOptions)) -> (Arc<Memory>, Opening),
    ) {
        for waiting in std::mem::take(&mut self.waiting) {
            let name = pending_name(waiting.family.id);
            let found = self.left.get(&name).and_then(|id| {
                let mut all = families.iter().map(|(family, _)| family);
                all.find(|family| family.id == *id).cloned()
            });
            let pending = found.unwrap_or_else(|| {
                let id = self.next_id;
                self.next_id = id.next();
                let (order, options) = (KeyOrder::BYTEWISE, FamilyOptions::default());
                let (active, opening) = make((&order, &options));
                let pending = Arc::new(Family::new(FamilyParts {
                    id,
                    name,
                    opening,
                    first: SuperVersion {
                        active,
                        sealed: Vec::new(),
                        version: Arc::new(Version::empty(order.clone())),
                    },
                    order,
                    options,
                }));
                families.push((Arc::clone(&pending), SeqNo::ZERO));
                pending
            });
            waiting.family.defer(Deferred {
                order: waiting.order,
                tables: waiting.tables,
                pending,
            });
        }
    }
}
