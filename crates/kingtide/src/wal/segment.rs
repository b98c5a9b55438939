//! Segment files. A file in `wal/` keeps its name for ever; what it holds is told by its header, which is rewritten when
//! the file begins a new life. The header is stored twice, in sectors of their own, so that one damaged byte cannot hide
//! a whole segment.

use std::sync::Arc;

use kingtide_base::{DatabaseId, Lsn, SegmentId, StorageError, StorageResult, limits};
use kingtide_env::{Directory, Env, File, OpenMode};
use kingtide_format::{SEGMENT_FRAMES_OFFSET, SEGMENT_HEADER_COPY_OFFSET, SegmentHeader};

/// The ending of segment file names.
const WAL_SUFFIX: &str = ".wal";
/// The slot that the name of a segment file tells; `None` for names of other files.
pub(crate) fn segment_slot(name: &str) -> Option<u64> {
    name.strip_suffix(WAL_SUFFIX)?.parse().ok()
}

/// The name of the segment file of a slot.
pub(crate) fn segment_name(slot: u64) -> String {
    format!("{slot:06}{WAL_SUFFIX}")
}

/// Zeros are written in steps of this size.
const ALLOCATE_STEP_BYTES: u64 = 1 << 20;

/// A segment in its current life.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The number of this life; orders the segments.
    pub(crate) id: SegmentId,
    /// Salts every frame of this life.
    pub(super) salt: u64,
    /// The position of the first frame.
    pub(super) base: Lsn,
    /// The secured length of the file.
    pub(crate) bytes: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) name: String,
}

impl Segment {
    /// The position in the log of a byte in this file.
    pub(super) fn position(&self, offset: u64) -> Lsn {
        Lsn(self.base.0 + (offset - SEGMENT_FRAMES_OFFSET))
    }

    /// Makes everything written to the file durable.
    pub(super) fn sync(&self) -> StorageResult<()> {
        self.file
            .sync()
            .map_err(|error| StorageError::io(format!("wal/{}", self.name), "sync", error))
    }
}

/// A zero-filled or retired segment file that waits for its next life.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(super) file: Arc<dyn File>,
    pub(super) name: String,
    pub(crate) bytes: u64,
    pub(super) salt: u64,
}

impl Blank {
    /// Creates the file `slot` and secures `bytes` for it; its name is durable when this returns. With `sync` its
    /// zeros are durable too, which makes later syncs of small records cheap.
    ///
    /// # Errors
    /// When the disk is full or the system refuses; the file is then removed again.
    pub(crate) fn create(
        env: &dyn Env,
        directory: &dyn Directory,
        slot: u64,
        bytes: u64,
        sync: bool,
    ) -> StorageResult<Self> {
        let bytes = bytes.clamp(limits::SEGMENT_BYTES_MIN, limits::SEGMENT_BYTES_MAX);
        let name = segment_name(slot);
        let file = directory
            .open(&name, OpenMode::CreateNew)
            .map_err(|error| StorageError::io(format!("wal/{name}"), "create", error))?;
        match Self::secure(directory, file.as_ref(), bytes, sync) {
            Ok(()) => Ok(Self {
                file,
                name,
                bytes,
                salt: env.random_u64(),
            }),
            Err(error) => {
                // Best effort: what stays behind is an empty segment without a header, which every open ignores.
                let _ = directory.remove(&name);
                Err(StorageError::io(
                    format!("wal/{name}"),
                    "secure space for",
                    error,
                ))
            }
        }
    }

    fn secure(
        directory: &dyn Directory,
        file: &dyn File,
        bytes: u64,
        sync: bool,
    ) -> std::io::Result<()> {
        // The first segment of a log is small, and made before it is known how it will be used.
        let for_small_syncs = sync || bytes == limits::SEGMENT_BYTES_MIN;
        let mut offset = 0;
        while offset < bytes {
            let step = ALLOCATE_STEP_BYTES.min(bytes - offset);
            if for_small_syncs {
                file.allocate_for_small_syncs(offset, step)?;
            } else {
                file.allocate(offset, step)?;
            }
            if sync {
                // Step by step: the device is never busy for long when a commit wants to be synced meanwhile.
                file.sync()?;
            }
            offset += step;
        }
        directory.sync()
    }

    /// A retired segment, ready for another life.
    pub(super) fn recycle(env: &dyn Env, segment: &Segment) -> Self {
        Self {
            file: Arc::clone(&segment.file),
            name: segment.name.clone(),
            bytes: segment.bytes,
            salt: env.random_u64(),
        }
    }

    /// Begins the next life in the log of `database`: writes both copies of the header. The frames of the former life no longer validate.
    ///
    /// # Errors
    /// When the write is refused.
    pub(super) fn begin(
        self,
        id: SegmentId,
        base: Lsn,
        database: DatabaseId,
    ) -> StorageResult<Segment> {
        let header = SegmentHeader {
            segment: id,
            salt: self.salt,
            database: Some(database),
            base,
            bytes: self.bytes,
        };
        let bytes = header.encode();
        for offset in [0, SEGMENT_HEADER_COPY_OFFSET] {
            self.file.write_at(&bytes, offset).map_err(|error| {
                StorageError::io(format!("wal/{}", self.name), "write the header of", error)
            })?;
        }
        Ok(Segment {
            id,
            salt: self.salt,
            base,
            bytes: self.bytes,
            file: self.file,
            name: self.name,
        })
    }

    /// Frames that fit into the file.
    pub(super) fn frame_room(&self) -> u64 {
        self.bytes - SEGMENT_FRAMES_OFFSET
    }
}
