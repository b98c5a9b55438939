//! Reading: what a get hands out, and the iterators.
//!
//! | module | what it is |
//! |---|---|
//! | [`get`] | point reads: memtables, then tables |
//! | [`iter`] | from a merged cursor over versions to an iterator over the live keys of one snapshot |
//! | [`newer`] | what tables hold that is newer than a number |
//! | [`open_iter`] | from memtables and tables to an iterator |
//! | [`read_set`] | what a transaction read, for the check at its commit |
//! | [`scan`] | what an iterator read, as a range that grows |
//! | [`tracker`] | what a transaction shares with its iterators, so that their reads are remembered |
//! | [`value`] | the bytes of one value, pinned where they lie |

pub(crate) mod get;
pub(crate) mod iter;
pub(crate) mod newer;
pub(crate) mod open_iter;
pub(crate) mod read_set;
pub(crate) mod scan;
pub(crate) mod tracker;
pub(crate) mod value;

pub use iter::{Entries, Iter};
pub use value::Value;
