//! Merges of tables, and what they and flushes leave out.
//!
//! | module | what it is |
//! |---|---|
//! | [`filter`] | which versions nobody can see any more |

pub(crate) mod filter;
