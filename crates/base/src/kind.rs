//! What an entry of the log, of a memtable or of a table does to its key.

/// The kind of an entry. The numbers are durable: they appear in log records and in table blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// Sets the key to a value.
    Put = 1,
    /// Hides every older version of the key.
    Delete = 2,
    /// Like `Delete`, with the hint that the key was put once since it last did not exist: a merge that finds nothing
    /// older of the key may let the pair vanish.
    SingleDelete = 3,
    /// Reserved: hides every key in a range.
    RangeDelete = 4,
    /// Reserved: an operand that a merge operator folds into the older value.
    Merge = 5,
    /// Sets the key to a value that stands in a value file of its own already: in the log and in memtables, the value of
    /// the entry is a pointer to it. Tables hold the same entry as a `Put` whose value is separated.
    PutSpilled = 6,
    /// Sets the key to a value that is packed: in the log and in memtables, the value of the entry is compressed. Tables hold
    /// the same entry as a `Put`.
    PutPacked = 7,
}

impl EntryKind {
    /// The kind that `byte` stands for, or `None` for a number that this version does not know.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::SingleDelete),
            4 => Some(Self::RangeDelete),
            5 => Some(Self::Merge),
            6 => Some(Self::PutSpilled),
            7 => Some(Self::PutPacked),
            _ => None,
        }
    }

    /// True for the kinds that hide older versions of one key.
    #[must_use]
    pub const fn is_tombstone(self) -> bool {
        matches!(self, Self::Delete | Self::SingleDelete)
    }
}
