//! An annotated picture of a value file, for golden files and for people.

/// Placeholder.
pub fn dump_vlog() {}
