//! Where the bytes of a table lie among the keys: what merges are cut by.

use crate::table::Table;

impl Table {
    /// Cuts the table at borders of blocks into pieces of at least `bytes` bytes (the last may be smaller): for each the
    /// key at which it begins and its bytes. The first begins at the smallest key, the others at a key that is after all
    /// keys of the pieces before, or equal to the last of them. Reads nothing.
    #[must_use]
    pub fn samples(&self, bytes: u64) -> Vec<(Vec<u8>, u64)> {
        let mut samples = Vec::new();
        let mut key = self.meta.smallest.clone();
        let mut start = 0;
        for index in 0..self.fences.blocks() {
            let end = self.fences.extent(index).end;
            if end - start >= bytes.max(1) || index + 1 == self.fences.blocks() {
                let mut next = Vec::new();
                self.fences.copy_separator(index, &mut next);
                samples.push((std::mem::replace(&mut key, next), end - start));
                start = end;
            }
        }
        samples
    }
}
