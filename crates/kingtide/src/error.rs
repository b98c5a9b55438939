//! What can go wrong, by what the caller can do about it.

use std::{error, fmt};

use kingtide_base::{Corruption, StorageError};

/// Answers "what can the caller do". The message says what happened in words; it is for people and may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument breaks a rule that the call documents. Fix the call.
    InvalidArgument,
    /// The named column family (or directory, with `create_if_missing` off) does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// Another opening, in this or another process, holds the database. Close it first.
    Locked,
    /// The database was opened read-only. Reopen it for writing.
    ReadOnly,
    /// A key, value, name or transaction exceeds its documented limit.
    TooLarge,
    /// Writers are ahead of flushing and the bounded wait ended. Try again later.
    Busy,
    /// Another transaction committed first. Reset and try again.
    Conflict,
    /// The transaction would hold more in memory than it may. Nothing was changed: commit what it holds, or roll it back
    /// and work in smaller pieces.
    MemoryLimit,
    /// The transaction was aborted from another thread, or its time was over. Reset it and try again.
    Aborted,
    /// The device is full. Nothing is lost; writing goes on once space is back.
    DiskFull,
    /// The operating system refused an operation for another reason; see the source.
    Io,
    /// Stored bytes are damaged. `kingtide verify` tells which files; restore them from a backup.
    Corruption,
    /// The log could not be synced: this commit is wholly there or wholly absent after the next open. Reopen and look.
    OutcomeUnknown,
    /// An earlier failure stopped all writing in this opening. Reads go on; reopen the database to write.
    ReopenRequired,
    /// The family's comparator is not registered. Register it, or add it to `Options::comparators`
    /// and open again.
    ComparatorMissing,
    /// The files were written by a newer version of Kingtide.
    NewerVersion,
    /// The database, or this transaction, is closed or finished.
    Closed,
}

/// An error of Kingtide: a [`kind`](Error::kind) for the program, a message for people, the source if there is one.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, ErrorKind, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let again = Db::open(directory.path(), Options::default());
/// match again.expect_err("a database is open once").kind() {
///     ErrorKind::Locked => println!("close the other one first"),
///     kind => panic!("unexpected: {kind:?}"),
/// }
/// # db.close()
/// # }
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// The result of a call into Kingtide.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with a message for people.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Where another transaction was first, when the kind is [`ErrorKind::Conflict`].
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        self.source.as_ref()?.downcast_ref::<Conflict>()
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The damage, when the kind is [`ErrorKind::Corruption`] and the place is known.
    #[must_use]
    pub fn corruption(&self) -> Option<&Corruption> {
        match self.source.as_ref()?.downcast_ref::<StorageError>()? {
            StorageError::Corruption(corruption) => Some(corruption),
            StorageError::Io { .. } | StorageError::NewerVersion { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn error::Error + 'static))
    }
}

/// What a transaction did with a key that another one wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictAccess {
    /// It wrote the key.
    Write,
    /// It read the key for update.
    Update,
    /// It read the key, or looked for it in vain.
    Read,
    /// It read a range of keys in which the key lies.
    Range,
}

/// The place of a conflict, from [`Error::conflict`].
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{ConflictAccess, Db, FamilyOptions, IsolationLevel, Options, TransactionOptions};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let stock = db.open_family("stock", FamilyOptions::default())?;
/// let mut slow = db.begin_with(TransactionOptions {
///     isolation: IsolationLevel::Serializable,
///     ..TransactionOptions::default()
/// })?;
/// assert!(slow.get(&stock, b"apples")?.is_none());
/// slow.put(&stock, b"order", b"5 apples")?;
/// db.put(&stock, b"apples", b"3")?; // commits first
/// let error = slow.commit().expect_err("the decision rested on something else");
/// let conflict = error.conflict().expect("it is a conflict");
/// assert_eq!((conflict.family.as_str(), conflict.key.as_slice()), ("stock", &b"apples"[..]));
/// assert_eq!(conflict.access, ConflictAccess::Read);
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The column family's name at that moment.
    pub family: String,
    /// The key that the other transaction wrote or locked, or an end of the range. There may be more of them.
    pub key: Vec<u8>,
    /// What this transaction did with it.
    pub access: ConflictAccess,
    /// The xid of the other transaction, when that one is prepared and waits for its outcome.
    pub prepared: Option<Vec<u8>>,
}

impl Conflict {
    pub(crate) fn new(family: String, key: &[u8], access: ConflictAccess) -> Self {
        Self {
            family,
            key: key.to_vec(),
            access,
            prepared: None,
        }
    }

    /// A conflict with the prepared transaction `xid`.
    pub(crate) fn with_prepared(self, xid: &[u8]) -> Self {
        Self {
            prepared: Some(xid.to_vec()),
            ..self
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.access {
            ConflictAccess::Write => "",
            ConflictAccess::Update => ", which was read for update,",
            ConflictAccess::Read => ", which was read,",
            ConflictAccess::Range => ", which lies in a range that was read,",
        };
        if let Some(xid) = &self.prepared {
            return write!(
                f,
                "key \"{}\" of column family {:?}{how} is locked by the prepared transaction \"{}\": try again after \
                 its outcome",
                self.key.escape_ascii(),
                self.family,
                xid.escape_ascii(),
            );
        }
        write!(
            f,
            "key \"{}\" of column family {:?}{how} was written by another transaction since this one began: reset it and try again",
            self.key.escape_ascii(),
            self.family,
        )
    }
}

impl error::Error for Conflict {}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self {
            kind: ErrorKind::Conflict,
            message: conflict.to_string(),
            source: Some(Box::new(conflict)),
        }
    }
}

impl From<StorageError> for Error {
    fn from(source: StorageError) -> Self {
        let kind = match &source {
            StorageError::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    ErrorKind::DiskFull
                }
                _ => ErrorKind::Io,
            },
            StorageError::Corruption(_) => ErrorKind::Corruption,
            StorageError::NewerVersion { .. } => ErrorKind::NewerVersion,
        };
        Self {
            kind,
            message: source.to_string(),
            source: Some(Box::new(source)),
        }
    }
}
