//! Merges of tables, and what they and flushes leave out.
//!
//! | module | what it is |
//! |---|---|
//! | [`below`] | whether older versions of a key exist outside of a merge |
//! | [`filter`] | which versions nobody can see any more |
//! | [`run`] | one planned merge, from its inputs to the manifest |

pub(crate) mod below;
pub(crate) mod filter;
pub(crate) mod run;
