//! The numbers of a database as types of their own, so that an offset cannot be passed where a sequence number is meant.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The smallest value; no live object carries it unless its documentation says so.
            pub const ZERO: Self = Self(0);
            /// The largest value.
            pub const MAX: Self = Self(<$inner>::MAX);

            /// The number after this one; saturates at the maximum, which no database reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The place of a commit in the commit order of a database. All operations of one transaction share one number.
    /// The first commit is 1; 0 means "before everything".
    SeqNo(u64)
);
number!(
    /// Names a column family for ever: an id is never used again, not even after a drop. 0 is the default family.
    FamilyId(u32)
);
number!(
    /// Names a klog or vlog file of a database for ever. The first is 1.
    FileId(u64)
);
number!(
    /// A position in the write-ahead log: bytes since the log of this database began. Grows for ever, over segments
    /// and over recycling, so no two records of a database ever share a position.
    Lsn(u64)
);
number!(
    /// One *life* of a log segment file. A recycled file begins a new life with a larger number, so the numbers order
    /// the segments, and frames of an earlier life never validate in a later one.
    SegmentId(u64)
);

/// Which database a file belongs to: random, drawn once, and carried on by every copy of the database.
///
/// ```
/// # use kingtide_base::DatabaseId;
/// assert_eq!(DatabaseId(0xab).to_string(), "000000000000000000000000000000ab");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u128);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
