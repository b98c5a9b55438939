//! Merges of tables, and what they and flushes leave out.
//!
//! | module | what it is |
//! |---|---|
//! | [`below`] | whether older versions of a key exist outside of a merge |
//! | [`claim`] | the tables of a planned merge, reserved until it ends |
//! | [`filter`] | which versions nobody can see any more |
//! | [`observe`] | what the policy is told of a family |
//! | [`run`] | one planned merge, from its inputs to the manifest |

pub(crate) mod below;
mod claim;
pub(crate) mod filter;
pub(crate) mod observe;
pub(crate) mod run;
