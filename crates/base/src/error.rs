//! The two ways in which storage fails: the operating system refuses, or the bytes are not what was written.

use std::{fmt, io};

/// Damage: bytes that fail their checksum, or that contradict themselves. Carries what an operator needs to find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The file, relative to the database directory.
    pub file: String,
    /// Where in the file the damaged unit begins, in bytes.
    pub offset: u64,
    /// What was being read, and which check failed.
    pub what: String,
    /// The checksum (or value) that the file promises.
    pub expected: u64,
    /// The checksum (or value) that the bytes give.
    pub found: u64,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at offset {}: {} (expected {:#018x}, found {:#018x})",
            self.file, self.offset, self.what, self.expected, self.found
        )
    }
}

/// Why a storage operation failed.
#[derive(Debug)]
pub enum StorageError {
    /// The operating system refused `operation` on `file`.
    Io {
        /// The file or directory, relative to the database directory.
        file: String,
        /// What was attempted, as a verb: "read", "sync".
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is damaged.
    Corruption(Box<Corruption>),
    /// The file is whole but was written by a newer version of Kingtide.
    NewerVersion {
        /// The file, relative to the database directory.
        file: String,
        /// The version found.
        found: u32,
        /// The newest version that this build reads.
        supported: u32,
    },
}

/// The result of a storage operation.
pub type StorageResult<T> = Result<T, StorageError>;

impl StorageError {
    /// Wraps the system's refusal of `operation` on `file`.
    pub fn io(file: impl Into<String>, operation: &'static str, source: io::Error) -> Self {
        Self::Io {
            file: file.into(),
            operation,
            source,
        }
    }

    /// Reports damage that is not a checksum mismatch: `what` says which rule the bytes break.
    pub fn malformed(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self::checksum(file, offset, what, 0, 0)
    }

    /// Reports a checksum mismatch.
    pub fn checksum(
        file: impl Into<String>,
        offset: u64,
        what: impl Into<String>,
        expected: u64,
        found: u64,
    ) -> Self {
        Self::Corruption(Box::new(Corruption {
            file: file.into(),
            offset,
            what: what.into(),
            expected,
            found,
        }))
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                file,
                operation,
                source,
            } => {
                write!(f, "cannot {operation} {file}: {source}")
            }
            Self::Corruption(corruption) => corruption.fmt(f),
            Self::NewerVersion {
                file,
                found,
                supported,
            } => write!(
                f,
                "{file} has format version {found}, this build reads up to {supported}: open it with a newer Kingtide"
            ),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Corruption(_) | Self::NewerVersion { .. } => None,
        }
    }
}
