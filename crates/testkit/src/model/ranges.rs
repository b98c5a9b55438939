//! Range deletes in the model: a version for every key that is there, and the ranges themselves, which count as written
//! as a whole.

use std::ops::Bound;

use kingtide_base::KeyOrder;

use super::{FamilyNumber, Model, ModelFamily, Version, Write};
use crate::order::OrderedKey;

/// A range that a commit deleted.
#[derive(Clone, Debug)]
pub(super) struct DeletedRange {
    pub(super) commit: u64,
    start: OrderedKey,
    end: OrderedKey,
}

impl Write {
    /// True when the write concerns `key`, in a family of `order`.
    #[must_use]
    pub fn concerns(&self, order: &KeyOrder, key: &[u8]) -> bool {
        match &self.end {
            None => order.compare(&self.key, key).is_eq(),
            Some(end) => order.compare(&self.key, key).is_le() && order.compare(key, end).is_lt(),
        }
    }
}

impl ModelFamily {
    /// Deletes the keys from `start` to `end`; those that were there.
    pub(super) fn delete_range(
        &mut self,
        commit: u64,
        start: &[u8],
        end: &[u8],
    ) -> Vec<OrderedKey> {
        let start = OrderedKey::new(&self.order, start);
        let end = OrderedKey::new(&self.order, end);
        let range = (Bound::Included(&start), Bound::Excluded(&end));
        let mut touched = Vec::new();
        for (key, versions) in self.keys.range_mut(range) {
            if versions.last().is_some_and(|last| last.commit == commit) {
                versions.pop();
            }
            versions.push(Version {
                commit,
                value: None,
                expires_at: 0,
            });
            touched.push(key.clone());
        }
        self.deleted.push(DeletedRange { commit, start, end });
        touched
    }

    /// The newest commit that deleted a range with `key` in it; 0 when none did.
    pub(super) fn range_deleted_at(&self, key: &OrderedKey) -> u64 {
        let over = self
            .deleted
            .iter()
            .filter(|range| range.start <= *key && *key < range.end);
        over.map(|range| range.commit).max().unwrap_or(0)
    }

    /// The newest commit that wrote or deleted anything from `start` to `end`; 0 when none did.
    fn range_written_at(&self, start: &OrderedKey, end: &OrderedKey) -> u64 {
        let versions = self
            .keys
            .range((Bound::Included(start), Bound::Excluded(end)))
            .filter_map(|(_, versions)| versions.last())
            .map(|version| version.commit);
        let ranges = self
            .deleted
            .iter()
            .filter(|range| range.start < *end && *start < range.end)
            .map(|range| range.commit);
        versions.chain(ranges).max().unwrap_or(0)
    }
}

impl Model {
    /// The newest commit that wrote what `write` writes; 0 when none did.
    #[must_use]
    pub fn concerned_at(&self, write: &Write) -> u64 {
        let Some(end) = &write.end else {
            return self.written_at(write.family, &write.key);
        };
        self.families.get(&write.family).map_or(0, |model| {
            let start = OrderedKey::new(&model.order, &write.key);
            model.range_written_at(&start, &OrderedKey::new(&model.order, end))
        })
    }

    /// The newest commit that wrote or deleted anything from `lower` on and before `upper`, to the ends of `family` where
    /// these are missing; 0 when none did.
    #[must_use]
    pub fn changed_at(
        &self,
        family: FamilyNumber,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> u64 {
        let Some(model) = self.families.get(&family) else {
            return 0;
        };
        let ordered = |key: &[u8]| OrderedKey::new(&model.order, key);
        let (lower, upper) = (lower.map(ordered), upper.map(ordered));
        let from = lower.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let to = upper.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = model.keys.range((from, to));
        let versions = keys.filter_map(|(_, versions)| versions.last());
        let is_over = |range: &&DeletedRange| {
            upper.as_ref().is_none_or(|upper| range.start < *upper)
                && lower.as_ref().is_none_or(|lower| *lower < range.end)
        };
        let ranges = model.deleted.iter().filter(is_over);
        let written = versions.map(|version| version.commit);
        written
            .chain(ranges.map(|range| range.commit))
            .max()
            .unwrap_or(0)
    }

    /// The newest commit that deleted a range of `family`; 0 when none did.
    pub(super) fn last_range_of(&self, family: FamilyNumber) -> u64 {
        self.families.get(&family).map_or(0, |model| {
            let commits = model.deleted.iter().map(|range| range.commit);
            commits.max().unwrap_or(0)
        })
    }
}
