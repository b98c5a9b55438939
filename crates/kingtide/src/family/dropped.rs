//! Versions that flushes and merges left out, counted by reason.

/// Versions of keys that flushes and merges did not write again, because nobody can see them: how many, and why. In
/// [`FamilyStats::dropped`](crate::FamilyStats::dropped), since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedVersions {
    /// A newer version of the key stands for them.
    pub shadowed: u64,
    /// A range delete hides them. Those that were passed over without being read are not counted.
    pub range_deleted: u64,
    /// They had expired, and hid nothing.
    pub expired: u64,
    /// Tombstones that hid nothing any more.
    pub tombstones: u64,
    /// Single deletes that went together with their put.
    pub single_deletes: u64,
}

impl DroppedVersions {
    /// All reasons together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.shadowed + self.range_deleted + self.expired + self.tombstones + self.single_deletes
    }

    /// Adds other counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.shadowed += other.shadowed;
        self.range_deleted += other.range_deleted;
        self.expired += other.expired;
        self.tombstones += other.tombstones;
        self.single_deletes += other.single_deletes;
    }
}
