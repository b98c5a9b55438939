//! The pages of memtables that a commit is about to fill, brought in while nobody waits for it: the first touch of a page
//! takes longer than the copy into it, and the copy is done under the commit lock.

use super::WriteSet;

/// Commits that take fewer bytes in a memtable meet a new page rarely.
const COMMIT_BYTES_MIN: usize = 4 << 10;
/// For so many others like it, that commit at the same time, a commit brings in pages too.
const OTHERS: usize = 7;
/// But not for more bytes than these.
const OTHERS_BYTES_MAX: usize = 1 << 20;

impl WriteSet {
    /// Brings in what the operations will fill in the active memtables. They may fill others, if those are exchanged meanwhile.
    pub(in crate::write) fn populate_ahead(&self) {
        for section in self.sections() {
            let bytes = section.arena_bytes;
            if bytes >= COMMIT_BYTES_MIN {
                let others = OTHERS.saturating_mul(bytes).min(OTHERS_BYTES_MAX);
                let active = &section.family.load().active;
                active.table.populate_ahead(bytes + others);
            }
        }
    }
}
