//! Why bytes are not what they claim to be. The reader of the file adds its name and the offset.

use std::fmt;

/// Which rule some bytes break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFault {
    /// What was being read, and which check failed.
    pub what: &'static str,
    /// The checksum or value that the bytes promise; 0 when the rule has none.
    pub expected: u64,
    /// The checksum or value that was found; 0 when the rule has none.
    pub found: u64,
}

impl BlockFault {
    /// A broken rule that compares no two numbers.
    #[must_use]
    pub const fn malformed(what: &'static str) -> Self {
        Self {
            what,
            expected: 0,
            found: 0,
        }
    }

    /// Two numbers that should be equal.
    #[must_use]
    pub const fn mismatch(what: &'static str, expected: u64, found: u64) -> Self {
        Self {
            what,
            expected,
            found,
        }
    }
}

impl fmt::Display for BlockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (expected {:#018x}, found {:#018x})",
            self.what, self.expected, self.found
        )
    }
}

impl std::error::Error for BlockFault {}
