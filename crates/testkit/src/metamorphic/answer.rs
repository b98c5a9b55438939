//! What an operation answers, without anything that settings may change: no sequence numbers, sizes or times.

use kingtide::ErrorKind;

use crate::dump::Dump;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The answer of one operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was done, and there is nothing to tell.
    Done,
    /// It was refused, and nothing was changed.
    Refused(ErrorKind),
    /// Values, in the order of the keys that were asked for.
    Values(Vec<Option<Vec<u8>>>),
    /// Whether something is there.
    Found(bool),
    /// Entries, in the order in which they were visited.
    Entries(Vec<Entry>),
    /// Where an iterator stood after each move.
    Positions(Vec<Option<Entry>>),
    /// Names of prepared transactions and how many operations are in each.
    Prepared(Vec<(Vec<u8>, usize)>),
    /// All families with their entries.
    All(Dump),
}

/// The bytes under which a key is compared: orders that ignore case keep one of several spellings, and do not say which.
#[must_use]
pub fn spelling(comparator: &str, key: &[u8]) -> Vec<u8> {
    if comparator == "case_insensitive" {
        key.to_ascii_lowercase()
    } else {
        key.to_vec()
    }
}
