//! `MANIFEST-000007` counts, `MANIFEST-000007.new` is one that was never finished. The highest number is the current one.

use kingtide_base::StorageResult;
use kingtide_env::Directory;

use super::append::directory_error;

const PREFIX: &str = "MANIFEST-";
const UNFINISHED: &str = ".new";

/// The name of manifest `number`.
pub(super) fn final_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The name of manifest `number` while it is being written.
pub(super) fn unfinished_name(number: u64) -> String {
    format!("{PREFIX}{number:06}{UNFINISHED}")
}

/// The numbers of the manifests in a directory.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Those with a final name, ascending.
    pub(super) finished: Vec<u64>,
    /// Those that were never finished, ascending.
    pub(super) unfinished: Vec<u64>,
}

impl Numbers {
    /// Lists `directory`. Names that only resemble those of a manifest are not manifests.
    pub(super) fn list(directory: &dyn Directory) -> StorageResult<Self> {
        let mut numbers = Self::default();
        let entries = directory
            .list()
            .map_err(|error| directory_error("list", error))?;
        for entry in entries.iter().filter(|entry| !entry.is_directory) {
            let stem = entry.name.strip_suffix(UNFINISHED).unwrap_or(&entry.name);
            let Some(number) = stem
                .strip_prefix(PREFIX)
                .and_then(|digits| digits.parse().ok())
            else {
                continue;
            };
            if entry.name == final_name(number) {
                numbers.finished.push(number);
            } else if entry.name == unfinished_name(number) {
                numbers.unfinished.push(number);
            }
        }
        numbers.finished.sort_unstable();
        numbers.unfinished.sort_unstable();
        Ok(numbers)
    }

    /// The manifest that counts.
    pub(super) fn current(&self) -> Option<u64> {
        self.finished.last().copied()
    }

    /// The highest number in use; 0 when there is none.
    pub(super) fn highest(&self) -> u64 {
        let last = |numbers: &[u64]| numbers.last().copied().unwrap_or(0);
        last(&self.finished).max(last(&self.unfinished))
    }
}
