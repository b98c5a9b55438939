//! What became of the versions that went into a pass: so many were written, so many dropped, each for a reason. The
//! numbers must add up; [`Books`] says whether they do, before anything is installed.

use kingtide_format::TableMeta;

use crate::{
    error::{Error, ErrorKind, Result},
    family::DroppedVersions,
};

/// Why a version was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// A newer version of its key is seen by everyone who would see it.
    Shadowed,
    /// A range delete hides it from everyone.
    RangeDeleted,
    /// An expired put with nothing below to hide.
    Expired,
    /// A tombstone with nothing below to hide.
    Tombstone,
    /// A single delete whose key has no older version.
    SingleDelete,
}

impl Dropped {
    /// Counts one version that was left out for this reason.
    #[inline]
    pub(crate) fn note(self, tally: &mut DroppedVersions) {
        let count = match self {
            Self::Shadowed => &mut tally.shadowed,
            Self::RangeDeleted => &mut tally.range_deleted,
            Self::Expired => &mut tally.expired,
            Self::Tombstone => &mut tally.tombstones,
            Self::SingleDelete => &mut tally.single_deletes,
        };
        *count += 1;
    }
}

/// What a pass should read, as far as that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// So many versions.
    Exactly(u64),
    /// At most so many: the rest lies under range deletes, or is not seen for another reason that the source knows.
    AtMost(u64),
}

/// The account of a pass, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Versions read.
    pub(crate) read: u64,
    /// Versions written, as they were or as tombstones.
    pub(crate) written: u64,
    /// Versions left out.
    pub(crate) dropped: DroppedVersions,
}

impl Books {
    /// Adds the account of another part.
    pub(crate) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.written += other.written;
        self.dropped.add(&other.dropped);
    }

    /// Checks that what was read was written or dropped for a reason, that the tables hold what was written, and that
    /// what was there was read.
    ///
    /// # Errors
    /// `ReopenRequired` when the numbers do not add up. Nothing may be installed then.
    pub(crate) fn check(&self, expected: Expected, tables: &[TableMeta]) -> Result<()> {
        let in_tables: u64 = tables.iter().map(|table| table.entries).sum();
        let is_all_read = match expected {
            Expected::Exactly(count) => self.read == count,
            Expected::AtMost(count) => self.read <= count,
        };
        let adds_up = self.read == self.written + self.dropped.total();
        if is_all_read && adds_up && in_tables == self.written {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ReopenRequired,
            format!(
                "a pass over tables does not add up, so nothing of it is installed: {expected:?} versions expected, {} \
                 read, {} written, {} in the new tables, dropped {:?}",
                self.read, self.written, in_tables, self.dropped
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_add_up_are_refused() {
        let mut dropped = DroppedVersions::default();
        Dropped::Shadowed.note(&mut dropped);
        Dropped::Tombstone.note(&mut dropped);
        let books = Books {
            read: 2,
            written: 0,
            dropped,
        };
        assert!(books.check(Expected::Exactly(2), &[]).is_ok());
        assert!(books.check(Expected::AtMost(3), &[]).is_ok());
        assert!(
            books.check(Expected::Exactly(3), &[]).is_err(),
            "one was not read"
        );
        assert!(
            books.check(Expected::AtMost(1), &[]).is_err(),
            "one came from nowhere"
        );
        let lost = Books { read: 3, ..books };
        assert!(
            lost.check(Expected::Exactly(3), &[]).is_err(),
            "one vanished"
        );
        let missing = Books {
            read: 3,
            written: 1,
            ..books
        };
        assert!(
            missing.check(Expected::Exactly(3), &[]).is_err(),
            "no table holds it"
        );
    }
}
