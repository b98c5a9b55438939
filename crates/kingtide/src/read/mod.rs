//! Reading: what a get hands out, and the iterators.
//!
//! | module | what it is |
//! |---|---|
//! | [`iter`] | from a merged cursor over versions to an iterator over the live keys of one snapshot |
//! | [`value`] | the bytes of one value, pinned where they lie |

pub(crate) mod iter;
pub(crate) mod value;

pub use iter::{Entries, Iter};
pub use value::Value;
