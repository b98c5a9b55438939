//! One entry of a memtable or a table, borrowed, and the cursor through which all of them are walked.

use crate::{Batch, ByteReader, EntryKind, FileId, SeqNo, StorageResult, write_varint};

/// Where a separated value lies in the value log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePointer {
    /// The value file.
    pub file: FileId,
    /// Where its record begins in that file, in bytes.
    pub offset: u64,
    /// The length of its record in the file, header included, in bytes.
    pub record_bytes: u32,
    /// The length of the value as the user wrote it, in bytes.
    pub value_bytes: u32,
}

impl ValuePointer {
    /// Appends the pointer as tables, log and memtables hold it: four varints.
    pub fn encode(&self, target: &mut Vec<u8>) {
        write_varint(target, self.file.0);
        write_varint(target, self.offset);
        write_varint(target, self.record_bytes.into());
        write_varint(target, self.value_bytes.into());
    }

    /// Reads back what [`ValuePointer::encode`] wrote; `None` when `bytes` are not one pointer and nothing else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let pointer = Self {
            file: FileId(reader.varint().ok()?),
            offset: reader.varint().ok()?,
            record_bytes: u32::try_from(reader.varint().ok()?).ok()?,
            value_bytes: u32::try_from(reader.varint().ok()?).ok()?,
        };
        reader.is_empty().then_some(pointer)
    }
}

/// The value of an entry: here, or in the value log. Tombstones have an empty inline value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRef<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// Where the bytes are.
    Separated(ValuePointer),
}

/// One version of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The commit that wrote it.
    pub sequence: SeqNo,
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never. Never negative.
    pub expires_at: i64,
    /// Its value.
    pub value: ValueRef<'a>,
}

/// One version of one key, less its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The commit that wrote it.
    pub sequence: SeqNo,
    /// What it does to the key.
    pub kind: EntryKind,
    /// When it expires, in Unix seconds; 0 means never.
    pub expires_at: i64,
}

/// Walks entries in the order of all tables and memtables: keys ascending by the family's order, and for one key the
/// newest version first (sequence numbers descending; within one commit the later operation first).
///
/// A cursor is born invalid. Accessors may only be called while [`Cursor::is_valid`] is true; calling them otherwise
/// gives unspecified values but never undefined behaviour. After an error the cursor is invalid.
pub trait Cursor: Send {
    /// Goes to the first entry.
    ///
    /// # Errors
    /// When storage fails.
    fn seek_first(&mut self) -> StorageResult<()>;

    /// Goes to the last entry (the oldest version of the largest key).
    ///
    /// # Errors
    /// When storage fails.
    fn seek_last(&mut self) -> StorageResult<()>;

    /// Goes to the first entry whose key is at or after `key` (its newest version).
    ///
    /// # Errors
    /// When storage fails.
    fn seek(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Goes to the last entry whose key is at or before `key` (its oldest version).
    ///
    /// # Errors
    /// When storage fails.
    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Goes to the following entry; invalid after the last. Only while valid.
    ///
    /// # Errors
    /// When storage fails.
    fn next(&mut self) -> StorageResult<()>;

    /// Goes to the preceding entry; invalid before the first. Only while valid.
    ///
    /// # Errors
    /// When storage fails.
    fn prev(&mut self) -> StorageResult<()>;

    /// True while the cursor is on an entry.
    fn is_valid(&self) -> bool;

    /// The entry's key, borrowed until the next move.
    fn key(&self) -> &[u8];

    /// The entry's sequence number.
    fn sequence(&self) -> SeqNo;

    /// The entry's kind.
    fn kind(&self) -> EntryKind;

    /// When the entry expires, in Unix seconds; 0 means never.
    fn expires_at(&self) -> i64;

    /// All of these at once, for whoever needs them all.
    #[inline]
    fn head(&self) -> EntryHead<'_> {
        EntryHead {
            key: self.key(),
            sequence: self.sequence(),
            kind: self.kind(),
            expires_at: self.expires_at(),
        }
    }

    /// The entry's value, borrowed until the next move. May decompress lazily, hence `&mut`.
    ///
    /// # Errors
    /// When storage fails.
    fn value(&mut self) -> StorageResult<ValueRef<'_>>;

    /// The entry's value as the source holds it, if that is packed; [`Cursor::value`] unpacks it.
    fn packed_value(&self) -> Option<&[u8]> {
        None
    }

    /// Lends entries: replaces the content of `batch` by the entry that the cursor is on and those behind it which are at
    /// hand and have keys before `until`, and goes to the last of them. Answers false, and stays where it is, when that
    /// gains nothing: then `batch` means nothing. Only while valid.
    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        let _ = (until, batch);
        false
    }

    /// Adds the values to what was lent last, since when the cursor has not moved.
    ///
    /// # Errors
    /// When storage fails.
    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        let _ = batch;
        Ok(())
    }
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn seek_first(&mut self) -> StorageResult<()> {
        (**self).seek_first()
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        (**self).seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        (**self).seek(key)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        (**self).seek_for_prev(key)
    }

    fn next(&mut self) -> StorageResult<()> {
        (**self).next()
    }

    fn prev(&mut self) -> StorageResult<()> {
        (**self).prev()
    }

    fn is_valid(&self) -> bool {
        (**self).is_valid()
    }

    fn key(&self) -> &[u8] {
        (**self).key()
    }

    fn sequence(&self) -> SeqNo {
        (**self).sequence()
    }

    fn kind(&self) -> EntryKind {
        (**self).kind()
    }

    fn expires_at(&self) -> i64 {
        (**self).expires_at()
    }

    fn head(&self) -> EntryHead<'_> {
        (**self).head()
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        (**self).value()
    }

    fn packed_value(&self) -> Option<&[u8]> {
        (**self).packed_value()
    }

    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        (**self).lend(until, batch)
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        (**self).lend_values(batch)
    }
}
