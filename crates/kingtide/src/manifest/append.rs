//! The open manifest: the only writer of the durable state of a database.
//!
//! An append tries its batch on a copy of the state, writes one frame (or the parts of one record), syncs, and then
//! makes the copy the state. After the sync it writes a mark, unsynced: a small frame that says how far the file is
//! durable. The mark usually reaches the disk with the next append or with the kernel's own writing; from then on the
//! loss of a synced batch is seen as damage and not taken for a torn tail.
//!
//! A file that has grown beyond four snapshots (and 1 MiB) is replaced before the next append: the whole state is
//! written to `MANIFEST-N.new`, synced, renamed to `MANIFEST-N`, the directory synced, the old file removed. Opening
//! does the same, so that nothing is ever appended behind a tail that is not known to be whole.
//!
//! What is durable is also noted in the file `WITNESS` (see `witness`).
//!
//! Failures:
//! - A write that fails (a full disk) leaves the state as it was. What part of the batch reached the file is unknown, so
//!   the next append begins with a new file. Until one has succeeded, a crash may bring the failed batch back: files
//!   that it names must be kept.
//! - After a failed sync or rename nothing is known, and every later append is refused.

use std::{io, sync::Arc};

use kingtide_base::{
    Lsn, SeqNo, StorageError, StorageResult,
    limits::FRAME_PAYLOAD_BYTES_MAX,
    planted::{self, Bug},
};
use kingtide_env::{Directory, Env, File, OpenMode};
use kingtide_format::{
    Edit, FrameHeader, FrameKind, MANIFEST_HEADER_BYTES, ManifestHeader, encode_edits, push_frame,
};

use super::{
    ManifestState,
    name::{Numbers, final_name, unfinished_name},
    replay::{current, replay},
    witness::{self, Witness},
};

/// The name under which errors of the directory itself are reported.
const DIRECTORY: &str = ".";

/// Wraps the system's refusal of an operation on the database directory.
pub(super) fn directory_error(operation: &'static str, source: io::Error) -> StorageError {
    StorageError::io(DIRECTORY, operation, source)
}

/// Sizes, in bytes. Tests make them small; the format does not depend on them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// A file is not replaced before it has grown beyond this.
    pub(super) roll_bytes_min: u64,
    /// The longest payload of one frame.
    pub(super) payload_bytes_max: usize,
    /// A snapshot is written in batches of about this length.
    pub(super) snapshot_batch_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            roll_bytes_min: 1 << 20,
            payload_bytes_max: FRAME_PAYLOAD_BYTES_MAX,
            snapshot_batch_bytes: 1 << 20,
        }
    }
}

/// How many times its snapshot a file may become before it is replaced.
const SNAPSHOTS_PER_FILE_MAX: u64 = 4;

/// What is known about the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// It is what was written.
    Whole,
    /// A write failed there: the next append needs a new file.
    Unknown,
    /// A sync failed: nothing more is written.
    Poisoned,
}

/// A manifest open for writing.
#[derive(Debug)]
pub(crate) struct Manifest {
    directory: Arc<dyn Directory>,
    env: Arc<dyn Env>,
    sizes: Sizes,
    state: ManifestState,
    current: ManifestFile,
    /// The highest number that was given to a file, finished or not.
    number_last: u64,
    /// The length of the file beyond which it is replaced.
    roll_at: u64,
    tail: Tail,
    witness: Witness,
}

/// Why a new file could not take over.
enum RollError {
    /// It never began to count; the old one still does.
    Kept(StorageError),
    /// Which one counts after a crash is unknown.
    Unknown(StorageError),
}

impl Manifest {
    /// The first manifest of a new database.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one, and what the system answers.
    pub(crate) fn create(
        directory: Arc<dyn Directory>,
        env: Arc<dyn Env>,
        state: ManifestState,
    ) -> StorageResult<Self> {
        Self::create_with(directory, env, state, Sizes::default())
    }

    pub(super) fn create_with(
        directory: Arc<dyn Directory>,
        env: Arc<dyn Env>,
        state: ManifestState,
        sizes: Sizes,
    ) -> StorageResult<Self> {
        let numbers = Numbers::list(&*directory)?;
        if let Some(number) = numbers.current() {
            let taken = io::ErrorKind::AlreadyExists.into();
            return Err(StorageError::io(final_name(number), "create", taken));
        }
        Witness::remove(&*directory);
        Self::begin(directory, env, state, (sizes, numbers))
    }

    /// Opens the current manifest for writing. What it says is written to a new file, which is durable when this
    /// returns; older and unfinished files are removed.
    ///
    /// # Errors
    /// `NotFound` when there is none, corruption, and what the system answers.
    pub(crate) fn open(directory: Arc<dyn Directory>, env: Arc<dyn Env>) -> StorageResult<Self> {
        Self::open_with(directory, env, Sizes::default())
    }

    pub(super) fn open_with(
        directory: Arc<dyn Directory>,
        env: Arc<dyn Env>,
        sizes: Sizes,
    ) -> StorageResult<Self> {
        let witness = witness::read(&*directory)?;
        let numbers = Numbers::list(&*directory)?;
        let mut state = replay(&*directory, current(&numbers)?, witness)?;
        state.date_tombstones(env.unix_micros() / 1_000_000);
        Self::begin(directory, env, state, (sizes, numbers))
    }

    /// Writes `state` to a file of its own and removes the files with `numbers`, which it replaces.
    fn begin(
        directory: Arc<dyn Directory>,
        env: Arc<dyn Env>,
        state: ManifestState,
        (sizes, numbers): (Sizes, Numbers),
    ) -> StorageResult<Self> {
        let number_last = next_number(numbers.highest())?;
        let place = Place {
            directory: &*directory,
            number: number_last,
            salt: env.random_u64(),
            sizes,
        };
        let current = match place.install(&state) {
            Ok(current) => current,
            Err(RollError::Kept(error) | RollError::Unknown(error)) => return Err(error),
        };
        for number in numbers.finished {
            remove(&*directory, &final_name(number));
        }
        for number in numbers.unfinished {
            remove(&*directory, &unfinished_name(number));
        }
        let mut witness = Witness::open(&*directory);
        witness.note(number_last, current.end, state.identity());
        let roll_at = current.roll_at(sizes);
        Ok(Self {
            directory,
            env,
            sizes,
            state,
            current,
            number_last,
            roll_at,
            tail: Tail::Whole,
            witness,
        })
    }

    /// The state as of the last append that succeeded.
    pub(crate) fn state(&self) -> &ManifestState {
        &self.state
    }

    /// Makes a batch durable as a whole, then applies it to the state.
    ///
    /// # Errors
    /// A batch that does not fit the state is refused as malformed, with nothing written. What the system answers:
    /// see the head of this file for what may be done after it.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> StorageResult<()> {
        if self.tail == Tail::Poisoned {
            return Err(self.poisoned());
        }
        if edits.is_empty() {
            return Ok(());
        }
        let mut state = self.state.clone();
        for edit in edits {
            state.apply(edit).map_err(|fault| {
                let what = format!("edit refused: {fault}");
                StorageError::malformed(&self.current.name, self.current.end, what)
            })?;
        }
        self.roll_if_needed()?;
        self.tail = Tail::Unknown;
        let end = self.current.write_batch(&encode_edits(edits), self.sizes)?;
        if planted::is(Bug::ManifestNotSynced) {
            self.current.durable = Lsn(end);
        } else if let Err(error) = self.current.file.sync() {
            self.tail = Tail::Poisoned;
            return Err(self.current.error("sync", error));
        }
        self.current.durable = Lsn(end);
        self.state = state;
        let identity = self.state.identity();
        self.witness.note(self.current.number, end, identity);
        // The batch is durable, with or without its witness; a tail in doubt is replaced at the next append.
        if self.current.write_mark().is_ok() {
            self.tail = Tail::Whole;
        }
        Ok(())
    }

    /// Makes sure that no batch that failed can come back, by going on in a new file if there is doubt.
    ///
    /// # Errors
    /// What the system answers, and after a failed sync always: the doubt remains.
    pub(crate) fn settle(&mut self) -> StorageResult<()> {
        match self.tail {
            Tail::Whole => Ok(()),
            Tail::Unknown => self.roll_if_needed(),
            Tail::Poisoned => Err(self.poisoned()),
        }
    }

    fn poisoned(&self) -> StorageError {
        let error = io::Error::other("an earlier sync failed; reopen the database");
        self.current.error("append to", error)
    }

    /// Goes on in a new file when this one has grown too long, or must not be appended to.
    fn roll_if_needed(&mut self) -> StorageResult<()> {
        let must_roll = self.tail != Tail::Whole;
        if !must_roll && self.current.end < self.roll_at {
            return Ok(());
        }
        self.number_last = next_number(self.number_last)?;
        let place = Place {
            directory: &*self.directory,
            number: self.number_last,
            salt: self.env.random_u64(),
            sizes: self.sizes,
        };
        match place.install(&self.state) {
            Ok(file) => {
                remove(&*self.directory, &self.current.name);
                self.roll_at = file.roll_at(self.sizes);
                let identity = self.state.identity();
                self.witness.note(file.number, file.end, identity);
                self.current = file;
                self.tail = Tail::Whole;
                Ok(())
            }
            Err(RollError::Kept(_)) if !must_roll => {
                // There may be no space for a snapshot while there is some for the batch. Try again later.
                self.roll_at = self.current.end.saturating_add(self.sizes.roll_bytes_min);
                Ok(())
            }
            Err(RollError::Kept(error)) => Err(error),
            Err(RollError::Unknown(error)) => {
                self.tail = Tail::Poisoned;
                Err(error)
            }
        }
    }
}

/// A manifest file that is appended to.
#[derive(Debug)]
struct ManifestFile {
    file: Arc<dyn File>,
    name: String,
    number: u64,
    salt: u64,
    /// Where the next frame goes.
    end: u64,
    /// Everything before this is durable.
    durable: Lsn,
    /// Batches in the file.
    batches: u64,
    snapshot_bytes: u64,
}

impl ManifestFile {
    /// Writes a batch behind the last frame, without syncing, and answers where it ends.
    fn write_batch(&mut self, payload: &[u8], sizes: Sizes) -> StorageResult<u64> {
        let batch = self.batches + 1;
        let part_count = payload.len().div_ceil(sizes.payload_bytes_max);
        let mut bytes = Vec::new();
        for (index, part) in payload.chunks(sizes.payload_bytes_max).enumerate() {
            let kind = match index {
                _ if part_count == 1 => FrameKind::Edit,
                0 => FrameKind::PartFirst,
                _ if index + 1 == part_count => FrameKind::PartLast,
                _ => FrameKind::PartMiddle,
            };
            self.push(&mut bytes, kind, batch, part);
        }
        self.write(&bytes)?;
        self.batches = batch;
        Ok(self.end)
    }

    /// Writes the witness of everything before it, without syncing.
    fn write_mark(&mut self) -> StorageResult<()> {
        let mut bytes = Vec::new();
        self.push(&mut bytes, FrameKind::Mark, self.batches, &[]);
        self.write(&bytes)
    }

    /// Appends a frame to `bytes`, which will be written at the end of the file.
    fn push(&self, bytes: &mut Vec<u8>, kind: FrameKind, batch: u64, payload: &[u8]) {
        let header = FrameHeader {
            is_packed: false,
            // Parts are cut to the limit of a frame, which fits.
            payload_bytes: payload.len() as u32,
            kind,
            sequence: SeqNo(batch),
            durable: self.durable,
        };
        let position = Lsn(self.end + bytes.len() as u64);
        push_frame(bytes, &header, payload, self.salt, position);
    }

    fn write(&mut self, bytes: &[u8]) -> StorageResult<()> {
        self.file
            .write_at(bytes, self.end)
            .map_err(|error| self.error("write", error))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn roll_at(&self, sizes: Sizes) -> u64 {
        let snapshots = self.snapshot_bytes.saturating_mul(SNAPSHOTS_PER_FILE_MAX);
        snapshots.max(sizes.roll_bytes_min)
    }

    fn error(&self, operation: &'static str, source: io::Error) -> StorageError {
        StorageError::io(&self.name, operation, source)
    }
}

/// What a new manifest file is to be.
struct Place<'a> {
    directory: &'a dyn Directory,
    number: u64,
    salt: u64,
    sizes: Sizes,
}

impl Place<'_> {
    /// Writes `state` to a new file and lets it take over: when this returns, the file counts, durably.
    fn install(&self, state: &ManifestState) -> Result<ManifestFile, RollError> {
        let unfinished = unfinished_name(self.number);
        let mut written = self.write(&unfinished, state).map_err(|error| {
            remove(self.directory, &unfinished);
            RollError::Kept(error)
        })?;
        let fail = |name: &str, operation, error| {
            RollError::Unknown(StorageError::io(name, operation, error))
        };
        if let Err(error) = written.file.sync() {
            remove(self.directory, &unfinished);
            return Err(fail(&unfinished, "sync", error));
        }
        let name = final_name(self.number);
        self.directory
            .rename(&unfinished, &name)
            .map_err(|error| fail(&unfinished, "rename", error))?;
        if !planted::is(Bug::ManifestRenameNotSynced) {
            self.directory
                .sync()
                .map_err(|error| fail(DIRECTORY, "sync", error))?;
        }
        written.name = name;
        written.durable = Lsn(written.end);
        Ok(written)
    }

    /// Writes the snapshot, and the header last: only then its length is known.
    fn write(&self, name: &str, state: &ManifestState) -> StorageResult<ManifestFile> {
        let file = self
            .directory
            .open(name, OpenMode::CreateNew)
            .map_err(|error| StorageError::io(name, "create", error))?;
        let mut target = ManifestFile {
            file,
            name: name.to_owned(),
            number: self.number,
            salt: self.salt,
            end: MANIFEST_HEADER_BYTES as u64,
            durable: Lsn::ZERO,
            batches: 0,
            snapshot_bytes: 0,
        };
        let mut batch = Vec::new();
        for edit in state.to_edits() {
            batch.extend_from_slice(&encode_edits(&[edit]));
            if batch.len() >= self.sizes.snapshot_batch_bytes {
                target.write_batch(&batch, self.sizes)?;
                batch.clear();
            }
        }
        if !batch.is_empty() {
            target.write_batch(&batch, self.sizes)?;
        }
        target.snapshot_bytes = target.end - MANIFEST_HEADER_BYTES as u64;
        let header = ManifestHeader {
            number: self.number,
            salt: self.salt,
            snapshot_bytes: target.snapshot_bytes,
        };
        target
            .file
            .write_at(&header.encode(), 0)
            .map_err(|error| target.error("write", error))?;
        Ok(target)
    }
}

fn next_number(number: u64) -> StorageResult<u64> {
    number.checked_add(1).ok_or_else(|| {
        StorageError::malformed(
            final_name(number),
            0,
            "no higher number is left for a manifest",
        )
    })
}

/// Removes a file that does not count any more. That it may stay is no failure: the next open ignores and removes it.
fn remove(directory: &dyn Directory, name: &str) {
    let _ = directory.remove(name);
}

#[cfg(test)]
mod tests;
