//! The iterator that users hold: owned, without a lifetime, loading separated values when they are asked for.

use std::{any::Any, fmt, io, iter::FusedIterator};

use kingtide_base::{Cursor, StorageError, StorageResult, ValuePointer, ValueRef};

use super::MvccCursor;
use crate::{
    Error, Result,
    read::{scan::Move, tracker::Tracker},
};

/// The merged cursor under an iterator.
pub(crate) type MergedSource = Box<dyn Cursor>;

/// The most memory that is kept from one separated value to the next, in bytes.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Reads values that lie in the value log, for one iterator.
pub(crate) trait ValueSource: Send + Sync {
    /// Replaces the content of `value` by the value of `key` that `pointer` names.
    ///
    /// # Errors
    /// When storage fails, or what is there is not the value of `key`; what `value` holds then means nothing.
    fn read(
        &mut self,
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()>;
}

/// Visits the keys of one family in order, as one snapshot sees them.
///
/// Not positioned at birth: seek first. Every move answers whether the iterator is positioned afterwards. Keys and
/// values are lent until the next move. While it lives, the iterator keeps in memory and on disk what its snapshot sees.
///
/// When storage fails, the iterator loses its position, and every move returns the error again until a seek succeeds.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, IterOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let family = db.open_family("days", FamilyOptions::default())?;
/// for day in ["friday", "monday", "sunday"] {
///     db.put(&family, day.as_bytes(), b"open")?;
/// }
/// let mut iter = db.iter(&family, IterOptions::default())?;
/// assert!(iter.seek_for_prev(b"n")?); // the last key at or before "n"
/// assert_eq!(iter.key(), b"monday");
/// assert_eq!(iter.value()?, b"open");
/// assert!(iter.prev()?);
/// assert_eq!(iter.key(), b"friday");
/// assert!(!iter.prev()?);
/// # db.close()
/// # }
/// ```
pub struct Iter {
    // Dropped in this order: the cursor reads what `keep_alive` holds.
    view: MvccCursor<MergedSource>,
    values: Box<dyn ValueSource>,
    #[expect(dead_code, reason = "held for what its drop releases")]
    keep_alive: Box<dyn Any + Send>,
    /// The separated value of the shown key, if it was asked for.
    loaded: Vec<u8>,
    is_loaded: bool,
    failed: Option<StorageError>,
    /// Tells the transaction what is read, where its level asks for it.
    tracker: Option<Tracker>,
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("is_valid", &self.is_valid())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

impl Iter {
    /// An iterator over `view`, whose sources borrow from nothing but what `keep_alive` holds. Values that are
    /// separated come from `values`.
    pub(crate) fn new(
        view: MvccCursor<MergedSource>,
        values: Box<dyn ValueSource>,
        keep_alive: Box<dyn Any + Send>,
    ) -> Self {
        Self {
            view,
            values,
            keep_alive,
            loaded: Vec::new(),
            is_loaded: false,
            failed: None,
            tracker: None,
        }
    }

    /// Notes every move from now on.
    pub(crate) fn track_with(&mut self, tracker: Tracker) {
        self.tracker = Some(tracker);
    }

    /// Goes to the first key; false when there is none.
    ///
    /// # Errors
    /// `Io` or `Corruption` when storage fails; `MemoryLimit` when the transaction that made the iterator cannot remember
    /// more reads.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        let outcome = self.view.seek_to_first();
        self.arrive(outcome, Move::First)
    }

    /// Goes to the last key; false when there is none.
    ///
    /// # Errors
    /// `Io` or `Corruption` when storage fails; `MemoryLimit` when the transaction that made the iterator cannot remember
    /// more reads.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        let outcome = self.view.seek_to_last();
        self.arrive(outcome, Move::Last)
    }

    /// Goes to the first key at or after `key`; false when there is none. A `key` before the lower bound means the
    /// lower bound.
    ///
    /// # Errors
    /// `Io` or `Corruption` when storage fails; `MemoryLimit` when the transaction that made the iterator cannot remember
    /// more reads.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let outcome = self.view.seek(key);
        self.arrive(outcome, Move::Seek(key))
    }

    /// Goes to the last key at or before `key`; false when there is none. A `key` at or behind the upper bound means
    /// the last key before the bound.
    ///
    /// # Errors
    /// `Io` or `Corruption` when storage fails; `MemoryLimit` when the transaction that made the iterator cannot remember
    /// more reads.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        let outcome = self.view.seek_for_prev(key);
        self.arrive(outcome, Move::SeekForPrev(key))
    }

    /// Goes to the following key; false when there is none, and the iterator is not positioned then.
    ///
    /// # Errors
    /// `InvalidArgument` when the iterator is not positioned; `Io` or `Corruption` when storage fails, or failed since
    /// the last seek; `MemoryLimit` when the transaction that made the iterator cannot remember more reads.
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that lends keys and values cannot be a std iterator; `entries` is one"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        let is_plain = !self.is_loaded && self.tracker.is_none() && self.failed.is_none();
        if is_plain && self.view.next_of_run() {
            return Ok(true);
        }
        self.check_positioned()?;
        let outcome = self.view.next();
        self.arrive(outcome, Move::Next)
    }

    /// Goes to the preceding key; false when there is none, and the iterator is not positioned then.
    ///
    /// # Errors
    /// `InvalidArgument` when the iterator is not positioned; `Io` or `Corruption` when storage fails, or failed since
    /// the last seek; `MemoryLimit` when the transaction that made the iterator cannot remember more reads.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        self.check_positioned()?;
        let outcome = self.view.prev();
        self.arrive(outcome, Move::Prev)
    }

    /// True while the iterator is on a key.
    #[inline]
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.failed.is_none() && self.view.is_valid()
    }

    /// The key, lent until the next move; empty when the iterator is not positioned.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.failed.is_none() {
            self.view.key()
        } else {
            &[]
        }
    }

    /// The value, lent until the next move. Reads the value log if the value lies there, once per position.
    ///
    /// # Errors
    /// `InvalidArgument` when the iterator is not positioned; `Io` or `Corruption` when storage fails, and the iterator
    /// is not positioned then.
    #[inline]
    pub fn value(&mut self) -> Result<&[u8]> {
        self.entry().map(|(_, value)| value)
    }

    /// Key and value at once, lent until the next move. As [`Iter::key`] and [`Iter::value`].
    ///
    /// # Errors
    /// Those of [`Iter::value`].
    #[inline]
    pub fn entry(&mut self) -> Result<(&[u8], &[u8])> {
        // A failure is that of a value that lies elsewhere; a run has none.
        if self.view.has_run_entry() {
            return Ok(self.view.run_entry());
        }
        self.check_positioned()?;
        if self.is_loaded {
            return Ok((self.view.key(), &self.loaded));
        }
        let error = match self.view.entry() {
            Ok((key, ValueRef::Inline(bytes))) => return Ok((key, bytes)),
            Ok((key, ValueRef::Separated(pointer))) => {
                match self.values.read(&pointer, key, &mut self.loaded) {
                    Ok(()) => {
                        self.is_loaded = true;
                        return Ok((key, &self.loaded));
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        Err(Error::from(duplicate(self.failed.insert(error))))
    }

    /// When the entry expires, in Unix seconds; `None` when it never does or the iterator is not positioned.
    #[inline]
    #[must_use]
    pub fn expires_at(&self) -> Option<i64> {
        if !self.is_valid() {
            return None;
        }
        Some(self.view.expires_at()).filter(|expires_at| *expires_at != 0)
    }

    /// The keys and values from here on, copied, as a std iterator: from the current key, or from the first key when
    /// the iterator is not positioned. Ends at the first error.
    #[must_use]
    pub fn entries(self) -> Entries {
        let step = match (&self.failed, self.is_valid()) {
            (None, true) => Step::Stay,
            (None, false) => Step::First,
            (Some(_), _) => Step::Next,
        };
        Entries { iter: self, step }
    }

    /// Records how a move ended.
    #[inline]
    fn arrive(&mut self, outcome: StorageResult<bool>, how: Move<'_>) -> Result<bool> {
        if self.is_loaded {
            self.is_loaded = false;
            if self.loaded.capacity() > BUFFER_BYTES_KEPT {
                self.loaded = Vec::new();
            }
        }
        match outcome {
            Ok(is_positioned) => {
                self.failed = None;
                if self.tracker.is_some() {
                    self.track(how)?;
                }
                Ok(is_positioned)
            }
            Err(error) => Err(Error::from(duplicate(self.failed.insert(error)))),
        }
    }

    /// Tells the transaction of a move. What cannot be noted is not shown.
    fn track(&mut self, how: Move<'_>) -> Result<()> {
        let shown = self.view.is_valid().then(|| self.view.key());
        match self
            .tracker
            .as_mut()
            .map(|tracker| tracker.note(how, shown))
        {
            None | Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => {
                self.tracker = None;
                Ok(())
            }
            Some(Err(error)) => {
                self.view.lose_position();
                Err(error)
            }
        }
    }

    #[inline]
    fn check_positioned(&self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(Error::from(duplicate(error)));
        }
        if self.view.is_valid() {
            Ok(())
        } else {
            Err(Error::invalid(
                "the iterator is not positioned: seek before moving or reading",
            ))
        }
    }
}

/// What an [`Entries`] does before it shows an entry.
#[derive(Clone, Copy, Debug)]
enum Step {
    Stay,
    First,
    Next,
    End,
}

/// Keys and values, copied, in ascending order; made by [`Iter::entries`]. Ends after the first error.
#[derive(Debug)]
pub struct Entries {
    iter: Iter,
    step: Step,
}

impl Entries {
    fn advance(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let is_positioned = match self.step {
            Step::Stay => true,
            Step::First => self.iter.seek_to_first()?,
            Step::Next => self.iter.next()?,
            Step::End => false,
        };
        if !is_positioned {
            return Ok(None);
        }
        let key = self.iter.key().to_vec();
        let value = self.iter.value()?.to_vec();
        Ok(Some((key, value)))
    }
}

impl Iterator for Entries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let outcome = self.advance().transpose();
        self.step = match &outcome {
            Some(Ok(_)) => Step::Next,
            Some(Err(_)) | None => Step::End,
        };
        outcome
    }
}

impl FusedIterator for Entries {}

/// The same error once more. The system's own error cannot be cloned: its number is kept if it has one, else its kind
/// and text.
fn duplicate(error: &StorageError) -> StorageError {
    match error {
        StorageError::Io {
            file,
            operation,
            source,
        } => {
            let source = match source.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(source.kind(), source.to_string()),
            };
            StorageError::io(file.clone(), operation, source)
        }
        StorageError::Corruption(corruption) => StorageError::Corruption(corruption.clone()),
        StorageError::NewerVersion {
            file,
            found,
            supported,
        } => StorageError::NewerVersion {
            file: file.clone(),
            found: *found,
            supported: *supported,
        },
    }
}
