//! Families without a database, for tests of what works on one.

use std::sync::Arc;

use kingtide_base::{FamilyId, KeyOrder, built_in_comparator};

use super::{Family, FamilyParts, SuperVersion};
use crate::{memtable::MemtableSource, options::FamilyOptions, version::Version};

/// An empty family with the id `id`, ordered and set as `options` say.
pub(crate) fn family(id: u32, options: FamilyOptions) -> Arc<Family> {
    let order = built_in_comparator(&options.comparator).expect("a built-in order");
    let order = KeyOrder::new(order);
    let active = MemtableSource::unbounded().make(&order, options.write_buffer_bytes, 0, 0);
    Arc::new(Family::new(FamilyParts {
        id: FamilyId(id),
        name: format!("family {id}"),
        opening: crate::family::Opening::default(),
        options,
        first: SuperVersion {
            active,
            sealed: Vec::new(),
            version: Arc::new(Version::empty(order.clone())),
        },
        order,
    }))
}

/// Settings with the key order `comparator` and small memtables.
pub(crate) fn small(comparator: &str) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        comparator: comparator.to_owned(),
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}
