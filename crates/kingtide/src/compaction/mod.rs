//! Merges of tables, and what they and flushes leave out.
//!
//! | module | what it is |
//! |---|---|
//! | [`age`] | which tombstones are overdue |
//! | [`below`] | whether older versions of a key exist outside of a merge |
//! | [`claim`] | the tables of a planned merge, reserved until it ends |
//! | [`filter`] | which versions nobody can see any more |
//! | [`inputs`] | the tables that a merge reads |
//! | [`observe`] | what the policy is told of a family |
//! | [`run`] | one planned merge, from its inputs to the manifest |
//! | [`split`] | where a merge is cut, so that several threads work on it |
//! | [`tally`] | what became of the versions that went in |

pub(crate) mod age;
pub(crate) mod below;
mod claim;
pub(crate) mod filter;
mod inputs;
pub(crate) mod observe;
pub(crate) mod run;
pub(crate) mod split;
pub(crate) mod tally;
