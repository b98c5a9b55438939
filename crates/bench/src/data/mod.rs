//! What is written and asked for: keys, values, the order of keys, and which of them are there.

pub(crate) mod keys;
pub(crate) mod permutation;
pub(crate) mod presence;
pub(crate) mod random;
pub(crate) mod values;
pub(crate) mod zipf;
