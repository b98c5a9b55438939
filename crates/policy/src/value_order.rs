//! Which values to put in the order of their keys.
//!
//! Whoever writes a value file appends in key order, but each flush writes files of its own: after many flushes of keys in
//! no order, neighbours lie in as many files, and a range reads a little of each. A pass that empties several files at a
//! time leaves one sorted sequence in their place, as a merge of tables does. To write few bytes for that, files are taken
//! as size-tiered merges take sorted runs: many at a time, and none that is longer than all others together (Luo and
//! Carey, "LSM-based Storage Techniques: A Survey", VLDB Journal 2020; for value logs Li et al., "Differentiated Key-Value
//! Storage Management for Balanced I/O Performance", USENIX ATC 2021). So a value is copied a number of times that grows as the
//! logarithm of how many there are.

use std::collections::BTreeSet;

use kingtide_base::FileId;

use crate::values::ValueFileShape;

/// Neighbouring keys have their values in order while these lie in fewer files.
pub const SCATTERED_FILES_MIN: usize = 8;

/// The files, of those over which the values of neighbouring keys are scattered, whose values are to be copied in key order:
/// the shortest ones, as many as there are without one that is longer than the others together, and without more than
/// `copied_bytes_max` to copy. None when they would be fewer than [`SCATTERED_FILES_MIN`].
///
/// ```
/// use kingtide_base::FileId;
/// use kingtide_policy::{ValueFileShape, pick_value_order};
///
/// let file = |id| ValueFileShape { file: FileId(id), bytes: 1 << 20, listed_bytes: 1 << 20 };
/// let files: Vec<_> = (0..20).map(file).collect();
/// assert_eq!(pick_value_order(&files, 1 << 30).len(), 20);
/// assert_eq!(pick_value_order(&files, 10 << 20).len(), 10);
/// assert!(pick_value_order(&files[..7], 1 << 30).is_empty());
/// ```
#[must_use]
pub fn pick_value_order(files: &[ValueFileShape], copied_bytes_max: u64) -> BTreeSet<FileId> {
    let mut files: Vec<(u64, FileId)> = files
        .iter()
        .map(|shape| (shape.listed_bytes.min(shape.bytes), shape.file))
        .collect();
    files.sort_unstable();
    let (mut sum, mut count) = (0_u64, 0);
    for (index, (bytes, _)) in files.iter().enumerate() {
        let is_worth = *bytes <= sum;
        sum = sum.saturating_add(*bytes);
        if sum > copied_bytes_max {
            break;
        }
        if is_worth && index + 1 >= SCATTERED_FILES_MIN {
            count = index + 1;
        }
    }
    files[..count].iter().map(|(_, file)| *file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(bytes: &[u64], copied_bytes_max: u64) -> Vec<u64> {
        let shape = |(id, bytes): (usize, &u64)| ValueFileShape {
            file: FileId(id as u64),
            bytes: bytes * 2,
            listed_bytes: *bytes,
        };
        let shapes: Vec<_> = bytes.iter().enumerate().map(shape).collect();
        let chosen = pick_value_order(&shapes, copied_bytes_max);
        chosen.into_iter().map(|file| file.0).collect()
    }

    #[test]
    fn long_files_wait_for_their_like() {
        assert!(pick(&[], 100).is_empty());
        // Seven short ones are too few, and the long one is longer than they are together.
        assert!(pick(&[1, 1, 1, 100, 1, 1, 1, 1], 1000).is_empty());
        assert_eq!(
            pick(&[100, 1, 1, 1, 1, 1, 1, 1, 1], 1000),
            (1..9).collect::<Vec<_>>()
        );
        // Two long ones may go together with the short ones.
        assert_eq!(pick(&[100, 100, 1, 1, 1, 1, 1, 1, 1], 1000).len(), 9);
        // But not if that is too much at a time.
        assert!(pick(&[100, 100, 1, 1, 1, 1, 1, 1, 1], 150).is_empty());
    }

    /// Goal: no value is copied often. Method: files of one size come one by one, and what is chosen becomes one file.
    #[test]
    fn copies_grow_as_a_logarithm() {
        let mut bytes = Vec::new();
        let mut copied = 0;
        for _ in 0..4096 {
            bytes.push(1);
            let chosen = pick(&bytes, u64::MAX);
            let merged: u64 = chosen.iter().map(|index| bytes[*index as usize]).sum();
            copied += merged;
            for index in chosen.iter().rev() {
                bytes.remove(*index as usize);
            }
            bytes.extend((merged > 0).then_some(merged));
            assert!(bytes.len() < 24, "{bytes:?}");
        }
        assert!(copied < 4096 * 6, "{copied}");
    }
}
