//! Iterators. A merged cursor shows every version of every key; the modules here turn it into what a user may see.
//!
//! | module | what it is |
//! |---|---|
//! | [`bounds`] | where an iterator may go, from lower and upper bound and prefix |
//! | [`hiding`] | range deletes: which one lies over a key, and cursors that seek over what they hide |
//! | [`mvcc`] | picks the version of each key that one snapshot sees, in both directions |
//! | [`own_writes`] | the uncommitted operations of a transaction, as one more source of the merge |
//! | [`owned`] | the public iterator: keeps what it reads alive, loads separated values |
//! | [`passing`] | a cursor that passes over some entries of another |

pub(crate) mod bounds;
pub(crate) mod hiding;
pub(crate) mod mvcc;
pub(crate) mod own_writes;
pub(crate) mod owned;
pub(crate) mod passing;

#[cfg(test)]
mod tests;

pub(crate) use bounds::{Bounds, prefix_range};
pub(crate) use hiding::{RangeFinder, Skipping, merged_ranges};
pub(crate) use mvcc::MvccCursor;
pub use owned::{Entries, Iter};
pub(crate) use passing::{Pass, Passing};
