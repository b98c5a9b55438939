//! Replay: walks the log from its start, hands out whole records in commit order and finds out how the log ends.
//!
//! 1. The segments that count are those whose life is at or above the start's. They must be of this database, and follow
//!    one another: lives without a gap, each base where the segment before ends.
//! 2. Frames are read until one is invalid. If the next segment begins exactly there, reading goes on in it.
//! 3. Otherwise the log ends there, at P. That is what a crash leaves, unless something *behind* P proves that P was
//!    durable: any valid frame behind it, in this segment or a later one, or the manifest, with a durable mark above P.
//!    Then it is damage and is reported as such.
//! 4. A record in parts counts only when its last part is there.

use kingtide_base::{
    DatabaseId, Lsn, SegmentId, SeqNo, StorageError, StorageResult,
    planted::{self, Bug},
};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::{
    FRAME_ALIGN, Frame, FrameKind, HeaderFault, SEGMENT_FRAMES_OFFSET, SEGMENT_VERSION,
    SegmentHeader, decode_frame,
};

use super::segment::segment_slot;

/// Where replay begins, from the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogStart {
    /// Segments of earlier lives are ignored.
    pub(crate) segment: SegmentId,
    /// Records before this position are ignored.
    pub(crate) position: Lsn,
    /// How far the manifest knows the log to be durable.
    pub(crate) durable: Lsn,
    /// The database that segments from the start on must be of; with `None` they may be of any.
    pub(crate) database: Option<DatabaseId>,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The largest sequence number of a whole record; zero when there is none.
    pub(crate) sequence: SeqNo,
    /// The position behind the last valid frame.
    pub(crate) position: Lsn,
    /// A life that no segment file has had.
    pub(crate) next_segment: SegmentId,
    /// A slot whose file name is free, as are all above.
    pub(crate) next_slot: u64,
}

/// Receives whole records.
pub(crate) trait Replay {
    /// One transaction's payload. `place` is where it stands, for messages.
    ///
    /// # Errors
    /// When the payload is malformed or storage fails.
    fn record(&mut self, sequence: SeqNo, payload: &[u8], place: (&str, u64)) -> StorageResult<()>;
}

struct Found {
    name: String,
    header: SegmentHeader,
}

/// Replays the log in `directory` from `start`.
///
/// # Errors
/// Corruption when the log is damaged, what `replay` answers, and what the system answers.
pub(crate) fn read_log(
    directory: &dyn Directory,
    start: LogStart,
    replay: &mut dyn Replay,
) -> StorageResult<LogEnd> {
    let (segments, next_segment, next_slot) = find_segments(directory, start)?;
    let mut walk = Walk {
        start,
        end: start.position,
        sequence: SeqNo::ZERO,
        parts: Vec::new(),
        unpacked: Vec::new(),
        parts_sequence: None,
        place: ("wal".to_owned(), 0),
        stopped: false,
    };
    for (index, segment) in segments.iter().enumerate() {
        let follows = segment.header.segment.0 == start.segment.0 + index as u64;
        let contiguous = segment.header.base == walk.end || index == 0;
        if !(follows && contiguous) || (planted::is(Bug::ReplayStopsAtSegment) && index > 0) {
            walk.stop();
        }
        let bytes = read_segment(directory, segment)?;
        walk.segment(segment, &bytes, replay)?;
    }
    walk.check_mark(start.durable)?;
    Ok(LogEnd {
        sequence: walk.sequence,
        position: walk.end,
        next_segment,
        next_slot,
    })
}

/// The segments at or above the start, ordered by life; the next free life; the next free slot.
fn find_segments(
    directory: &dyn Directory,
    start: LogStart,
) -> StorageResult<(Vec<Found>, SegmentId, u64)> {
    let mut segments: Vec<Found> = Vec::new();
    let mut next_segment = start.segment;
    let mut next_slot = 1;
    let entries = directory
        .list()
        .map_err(|error| StorageError::io("wal", "list", error))?;
    for entry in entries {
        let Some(slot) = segment_slot(&entry.name) else {
            continue;
        };
        next_slot = next_slot.max(slot.saturating_add(1));
        if let Some(header) = read_header(directory, &entry.name)? {
            next_segment = next_segment.max(header.segment.next());
            if header.segment >= start.segment {
                check_database(&entry.name, start.database, header.database)?;
                segments.push(Found {
                    name: entry.name,
                    header,
                });
            }
        }
    }
    segments.sort_by_key(|segment| segment.header.segment);
    Ok((segments, next_segment, next_slot))
}

/// A segment that counts is of the database that the manifest is of.
fn check_database(
    name: &str,
    expected: Option<DatabaseId>,
    found: Option<DatabaseId>,
) -> StorageResult<()> {
    let Some(expected) = expected.filter(|expected| found != Some(*expected)) else {
        return Ok(());
    };
    let found = found.map_or("none".to_owned(), |found| found.to_string());
    let what = format!("the segment is of database {found}, and the manifest of {expected}");
    Err(StorageError::malformed(format!("wal/{name}"), 0, what))
}

/// The header of a segment file: its first copy, or the second when the first is damaged; `None` when the file never
/// began a life, or a crash took both copies before they were durable.
pub(super) fn read_header(
    directory: &dyn Directory,
    name: &str,
) -> StorageResult<Option<SegmentHeader>> {
    let path = || format!("wal/{name}");
    let file = directory
        .open(name, OpenMode::Read)
        .map_err(|error| StorageError::io(path(), "open", error))?;
    let mut bytes = [0_u8; SEGMENT_FRAMES_OFFSET as usize];
    let count = file
        .read_at(&mut bytes, 0)
        .map_err(|error| StorageError::io(path(), "read", error))?;
    match SegmentHeader::decode_either(&bytes[..count]) {
        Ok(header) => Ok(Some(header)),
        Err(HeaderFault::NewerVersion(found)) => Err(StorageError::NewerVersion {
            file: path(),
            found,
            supported: SEGMENT_VERSION,
        }),
        Err(_) => Ok(None),
    }
}

fn read_segment(directory: &dyn Directory, segment: &Found) -> StorageResult<Vec<u8>> {
    let path = || format!("wal/{}", segment.name);
    let file = directory
        .open(&segment.name, OpenMode::Read)
        .map_err(|error| StorageError::io(path(), "open", error))?;
    let length = file
        .len()
        .map_err(|error| StorageError::io(path(), "measure", error))?;
    let length = usize::try_from(length.min(segment.header.bytes)).unwrap_or(usize::MAX);
    let mut bytes = vec![0_u8; length];
    let count = file
        .read_at(&mut bytes, 0)
        .map_err(|error| StorageError::io(path(), "read", error))?;
    bytes.truncate(count);
    Ok(bytes)
}

struct Walk {
    start: LogStart,
    /// The position behind the last valid frame.
    end: Lsn,
    sequence: SeqNo,
    parts: Vec<u8>,
    /// Where payloads are unpacked.
    unpacked: Vec<u8>,
    parts_sequence: Option<SeqNo>,
    /// File and offset behind the last valid frame.
    place: (String, u64),
    /// True once the log has ended at `place`.
    stopped: bool,
}

impl Walk {
    fn segment(
        &mut self,
        segment: &Found,
        bytes: &[u8],
        replay: &mut dyn Replay,
    ) -> StorageResult<()> {
        let header = &segment.header;
        let file = format!("wal/{}", segment.name);
        let mut offset = self.first_offset(header);
        while !self.stopped {
            let position = position_of(header, offset);
            let Ok(frame) = decode_frame(
                bytes.get(offset..).unwrap_or_default(),
                header.salt,
                position,
            ) else {
                if planted::is(Bug::ReplayAcrossHole) && offset < bytes.len() {
                    offset += FRAME_ALIGN;
                    continue;
                }
                break;
            };
            self.frame(&frame, replay, (&file, offset as u64))?;
            offset += frame.bytes;
            self.end = position_of(header, offset);
        }
        if !self.stopped {
            self.place = (file, offset as u64);
        }
        self.search_marks(header, bytes, offset)
    }

    /// Where reading begins in a segment: at its first frame, or at the start's position if that lies inside.
    fn first_offset(&self, header: &SegmentHeader) -> usize {
        let skipped = self.start.position.0.saturating_sub(header.base.0);
        usize::try_from(SEGMENT_FRAMES_OFFSET.saturating_add(skipped)).unwrap_or(usize::MAX)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        replay: &mut dyn Replay,
        place: (&str, u64),
    ) -> StorageResult<()> {
        let sequence = frame.header.sequence;
        let payload = frame
            .unpacked(&mut self.unpacked)
            .map_err(|fault| StorageError::malformed(place.0, place.1, fault.to_string()))?;
        match frame.header.kind {
            FrameKind::Commit => {
                self.parts_sequence = None;
                self.sequence = self.sequence.max(sequence);
                replay.record(sequence, payload, place)
            }
            FrameKind::PartFirst => {
                self.parts.clear();
                if !planted::is(Bug::RecordPartLost) {
                    self.parts.extend_from_slice(payload);
                }
                self.parts_sequence = Some(sequence);
                Ok(())
            }
            FrameKind::PartMiddle | FrameKind::PartLast => {
                if self.parts_sequence != Some(sequence) {
                    return Err(StorageError::malformed(
                        place.0,
                        place.1,
                        "a part of a record without the parts before it",
                    ));
                }
                self.parts.extend_from_slice(payload);
                if frame.header.kind == FrameKind::PartLast {
                    self.parts_sequence = None;
                    self.sequence = self.sequence.max(sequence);
                    let payload = std::mem::take(&mut self.parts);
                    replay.record(sequence, &payload, place)?;
                }
                Ok(())
            }
            FrameKind::Mark | FrameKind::SegmentEnd | FrameKind::Edit => Ok(()),
        }
    }

    /// Looks behind the last valid frame for one that proves more to have been durable. The walk goes on in the next
    /// segment if that begins where this one ended, so nothing is reported before the mark itself contradicts the end.
    fn search_marks(
        &mut self,
        header: &SegmentHeader,
        bytes: &[u8],
        from: usize,
    ) -> StorageResult<()> {
        let mut offset = from;
        while offset < bytes.len() {
            if let Ok(frame) =
                decode_frame(&bytes[offset..], header.salt, position_of(header, offset))
            {
                self.stop();
                self.check_mark(frame.header.durable)?;
                offset += frame.bytes;
            } else {
                offset += FRAME_ALIGN;
            }
        }
        Ok(())
    }

    fn check_mark(&self, durable: Lsn) -> StorageResult<()> {
        if durable <= self.end {
            return Ok(());
        }
        let (file, offset) = self.place.clone();
        Err(StorageError::checksum(
            file,
            offset,
            format!(
                "the log breaks off at position {} although it was durable up to position {durable}",
                self.end
            ),
            durable.0,
            self.end.0,
        ))
    }
}

fn position_of(header: &SegmentHeader, offset: usize) -> Lsn {
    Lsn(header
        .base
        .0
        .saturating_add(offset as u64 - SEGMENT_FRAMES_OFFSET))
}
