//! From a manifest file to the state it describes.
//!
//! 1. The header must be whole and carry the number of the file's name.
//! 2. The snapshot, written before the file got its name, must be whole to its last byte.
//! 3. After it, batches are applied up to the first invalid frame. That is the end, unless a valid frame further on
//!    carries a durable mark beyond it: then bytes that were durable are gone, which is damage.
//!
//! The end that is found must not lie before that of the file `WITNESS`, which is read first: bytes beyond were durable.
//!
//! Reads only. A file that another process is appending to is read as of some moment: a frame that was invalid because
//! it was just being written is looked at again before it is called damaged.

use std::io;

use kingtide_base::{StorageError, StorageResult};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::{
    Edit, FRAME_ALIGN, Frame, FrameFault, FrameKind, HeaderFault, MANIFEST_HEADER_BYTES,
    MANIFEST_VERSION, ManifestHeader, ManifestWitness, decode_edits,
};

use super::{
    ManifestState,
    append::directory_error,
    name::{Numbers, final_name},
    source::FrameSource,
    witness,
};

/// How often a read starts again because the manifest was replaced under it.
const READ_ATTEMPTS_MAX: usize = 8;

/// True when the directory has a manifest, that is, holds a database.
pub(crate) fn is_present(directory: &dyn Directory) -> StorageResult<bool> {
    Ok(Numbers::list(directory)?.current().is_some())
}

/// The state that the current manifest describes. Writes nothing.
///
/// # Errors
/// `NotFound` when there is no manifest, corruption, and what the system answers.
pub(crate) fn read(directory: &dyn Directory) -> StorageResult<ManifestState> {
    let mut attempts = 1;
    loop {
        let seen = witness::read(directory)?;
        let number = current(&Numbers::list(directory)?)?;
        match replay(directory, number, seen) {
            // A writer may have rolled to a new manifest since the directory was listed.
            Err(StorageError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempts < READ_ATTEMPTS_MAX =>
            {
                attempts += 1;
            }
            outcome => return outcome,
        }
    }
}

/// The number of the manifest that counts.
pub(super) fn current(numbers: &Numbers) -> StorageResult<u64> {
    numbers
        .current()
        .ok_or_else(|| directory_error("find the manifest in", io::ErrorKind::NotFound.into()))
}

/// The state that manifest `number` describes; `witness` says how far it must reach.
pub(super) fn replay(
    directory: &dyn Directory,
    number: u64,
    witness: Option<ManifestWitness>,
) -> StorageResult<ManifestState> {
    let name = final_name(number);
    let file = directory
        .open(&name, OpenMode::Read)
        .map_err(|error| StorageError::io(&name, "open", error))?;
    let file_bytes = file
        .len()
        .map_err(|error| StorageError::io(&name, "measure", error))?;
    let mut source = FrameSource::new(&*file, &name);
    let header = header(&mut source, &name, number)?;
    let snapshot_end = (MANIFEST_HEADER_BYTES as u64)
        .checked_add(header.snapshot_bytes)
        .filter(|end| *end <= file_bytes)
        .ok_or_else(|| {
            let what = "the file is shorter than its snapshot";
            let expected = header.snapshot_bytes;
            StorageError::checksum(&name, file_bytes, what, expected, file_bytes)
        })?;
    let mut replay = Replay {
        name: &name,
        state: ManifestState::default(),
        batches: 0,
        parts: None,
    };
    let mut offset = MANIFEST_HEADER_BYTES as u64;
    loop {
        if offset == snapshot_end && replay.parts.is_some() {
            return Err(replay.damage(offset, "the snapshot ends within a batch"));
        }
        if offset >= file_bytes {
            witness::check(witness, &name, (number, offset), replay.state.identity())?;
            return Ok(replay.state);
        }
        match source.frame(header.salt, offset)? {
            Ok(frame) => {
                let end = offset + frame.bytes as u64;
                if offset < snapshot_end && end > snapshot_end {
                    return Err(replay.damage(offset, "a frame reaches beyond the snapshot"));
                }
                replay.frame(offset, &frame)?;
                offset = end;
            }
            Err(fault) if offset < snapshot_end => {
                return Err(invalid_frame(&name, offset, fault, "the snapshot"));
            }
            Err(fault) => {
                if !is_lost(&mut source, header.salt, offset, file_bytes)? {
                    witness::check(witness, &name, (number, offset), replay.state.identity())?;
                    return Ok(replay.state);
                }
                // The frame may have been half written when it was read, and whole when its witness was.
                source.forget();
                if source.frame(header.salt, offset)?.is_err() {
                    return Err(invalid_frame(&name, offset, fault, "durable edits"));
                }
            }
        }
    }
}

fn header(source: &mut FrameSource<'_>, name: &str, number: u64) -> StorageResult<ManifestHeader> {
    let bytes = source.bytes(0, MANIFEST_HEADER_BYTES)?;
    let header = ManifestHeader::decode(bytes).map_err(|fault| match fault {
        HeaderFault::NewerVersion(found) => StorageError::NewerVersion {
            file: name.to_owned(),
            found,
            supported: MANIFEST_VERSION,
        },
        HeaderFault::Checksum { expected, found } => {
            StorageError::checksum(name, 0, fault.to_string(), expected, found)
        }
        _ => StorageError::malformed(name, 0, fault.to_string()),
    })?;
    if header.number != number {
        let what = "the header carries the number of another manifest";
        return Err(StorageError::checksum(name, 0, what, number, header.number));
    }
    Ok(header)
}

/// True when a valid frame behind the invalid one at `offset` says that `offset` had been durable.
fn is_lost(
    source: &mut FrameSource<'_>,
    salt: u64,
    offset: u64,
    file_bytes: u64,
) -> StorageResult<bool> {
    let mut at = offset;
    while at < file_bytes {
        if let Ok(frame) = source.frame(salt, at)?
            && frame.header.durable.0 > offset
        {
            return Ok(true);
        }
        at += FRAME_ALIGN as u64;
    }
    Ok(false)
}

fn invalid_frame(name: &str, offset: u64, fault: FrameFault, place: &str) -> StorageError {
    let (expected, found) = fault.checksums();
    let what = format!("{fault}, within {place}");
    StorageError::checksum(name, offset, what, expected, found)
}

/// What has been read so far.
struct Replay<'a> {
    name: &'a str,
    state: ManifestState,
    /// Batches that have been applied.
    batches: u64,
    /// The parts so far of a batch that did not fit one frame.
    parts: Option<Vec<u8>>,
}

impl Replay<'_> {
    /// Takes in a valid frame.
    fn frame(&mut self, offset: u64, frame: &Frame<'_>) -> StorageResult<()> {
        let kind = frame.header.kind;
        let batch_expected = match kind {
            FrameKind::Mark => self.batches,
            _ => self.batches + 1,
        };
        if frame.header.sequence.0 != batch_expected {
            let what = "a batch is missing";
            let found = frame.header.sequence.0;
            return Err(StorageError::checksum(
                self.name,
                offset,
                what,
                batch_expected,
                found,
            ));
        }
        if frame.header.is_packed {
            return Err(self.damage(offset, "a packed frame has no place here".to_owned()));
        }
        match (kind, self.parts.take()) {
            (FrameKind::Mark, None) => Ok(()),
            (FrameKind::Edit, None) => self.batch(offset, frame.payload),
            (FrameKind::PartFirst, None) => {
                self.parts = Some(frame.payload.to_vec());
                Ok(())
            }
            (FrameKind::PartMiddle, Some(mut parts)) => {
                parts.extend_from_slice(frame.payload);
                self.parts = Some(parts);
                Ok(())
            }
            (FrameKind::PartLast, Some(mut parts)) => {
                parts.extend_from_slice(frame.payload);
                self.batch(offset, &parts)
            }
            _ => Err(self.damage(
                offset,
                format!("a frame of kind {kind:?} has no place here"),
            )),
        }
    }

    fn batch(&mut self, offset: u64, payload: &[u8]) -> StorageResult<()> {
        let edits: Vec<Edit> =
            decode_edits(payload).map_err(|fault| self.damage(offset, fault.to_string()))?;
        for edit in &edits {
            self.state
                .apply(edit)
                .map_err(|fault| self.damage(offset, fault.to_string()))?;
        }
        self.batches += 1;
        Ok(())
    }

    fn damage(&self, offset: u64, what: impl Into<String>) -> StorageError {
        StorageError::malformed(self.name, offset, what)
    }
}
