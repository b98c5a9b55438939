//! The end of the log. Guarded by the commit lock: every method with `&mut self` runs inside it, so none may block,
//! allocate without bound or call user code; what needs that (creating blanks, syncing) works on values handed out.

use std::{collections::VecDeque, io, sync::Arc};

use kingtide_base::{
    DatabaseId, Lsn, SegmentId, SeqNo, StorageError, StorageResult, limits,
    planted::{self, Bug},
};
use kingtide_env::{Env, File, WINDOWS_KEPT};
use kingtide_format::{
    FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEGMENT_FRAMES_OFFSET, encode_frame_header,
    frame_bytes, payload_hash,
};

use super::{
    record::RecordFrames,
    segment::{Blank, Segment},
};

/// Segments grow with use to this size, beyond only for a frame that needs more. A blank is zero-filled when it is made: of
/// large ones much would be filled and never used, and a segment goes back only as a whole.
const GROWN_BYTES_MAX: u64 = 16 << 20;
/// Blanks that are kept for later lives; more are removed.
const BLANKS_KEPT_MAX: usize = 8;
/// Segments that may exist at once; a list of this capacity is secured at open so that a switch never allocates.
const SEGMENTS_RESERVED: usize = 1024;
/// Bytes of the log that one prepared window covers.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;
/// How much of the log lies in windows ahead of the tail, at least, when the keeper has done its work: as much as writers fill
/// while it waits for a processor.
const WINDOWS_AHEAD_BYTES: u64 = 4 * WINDOW_BYTES;

// A window is not given up for one ahead while the tail is in it.
const _: () = assert!(WINDOWS_AHEAD_BYTES / WINDOW_BYTES < WINDOWS_KEPT as u64);

/// Segments that hold bytes not yet known to be durable, oldest first.
pub(crate) type UnsyncedSegments = Vec<Arc<Segment>>;

/// Where the next record goes.
pub(crate) struct Tail {
    current: Arc<Segment>,
    offset: u64,
    /// Older segments that may hold records not yet in tables, oldest first.
    retained: VecDeque<Arc<Segment>>,
    /// Segments before `current` that no sync has covered yet.
    unsynced: UnsyncedSegments,
    blanks: VecDeque<Blank>,
    database: DatabaseId,
    /// The end of the window prepared last, in the current segment.
    window_end: u64,
    /// Bytes of frames appended in this opening.
    bytes_written: u64,
    /// False once windows were given up.
    has_windows: bool,
    /// The segment that windows were claimed in last.
    windowed: Option<Arc<Segment>>,
    /// The one before it, until it is taken.
    outgrown: Option<Arc<Segment>>,
}

impl Tail {
    /// Begins the log of this opening of `database` in `blank`, as life `id`, at position `base`.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub(crate) fn begin(
        blank: Blank,
        id: SegmentId,
        base: Lsn,
        database: DatabaseId,
    ) -> StorageResult<Self> {
        let current = Arc::new(blank.begin(id, base, database)?);
        Ok(Self {
            current,
            offset: SEGMENT_FRAMES_OFFSET,
            retained: VecDeque::with_capacity(SEGMENTS_RESERVED),
            unsynced: Vec::with_capacity(SEGMENTS_RESERVED),
            blanks: VecDeque::with_capacity(SEGMENTS_RESERVED),
            database,
            window_end: 0,
            bytes_written: 0,
            has_windows: true,
            windowed: None,
            outgrown: None,
        })
    }

    /// The end of a log that is only read: it takes no records.
    pub(crate) fn read_only(id: SegmentId, base: Lsn) -> Self {
        let current = Segment {
            id,
            salt: 0,
            base,
            bytes: SEGMENT_FRAMES_OFFSET,
            file: Arc::new(ReadOnlyFile),
            name: "read-only".to_owned(),
        };
        Self {
            current: Arc::new(current),
            offset: SEGMENT_FRAMES_OFFSET,
            retained: VecDeque::new(),
            unsynced: Vec::new(),
            blanks: VecDeque::new(),
            database: DatabaseId(0),
            window_end: u64::MAX,
            bytes_written: 0,
            has_windows: false,
            windowed: None,
            outgrown: None,
        }
    }

    /// The position behind the last record.
    pub(crate) fn position(&self) -> Lsn {
        self.current.position(self.offset)
    }

    /// The segment that records go to now.
    pub(crate) fn segment(&self) -> SegmentId {
        self.current.id
    }

    /// True when the record fits into the current segment and the blanks.
    pub(crate) fn has_room(&self, record: &RecordFrames) -> bool {
        let mut room = self.current.bytes - self.offset;
        let mut blanks = self.blanks.iter();
        for bytes in record.sizes() {
            while room < bytes {
                match blanks.next() {
                    Some(blank) => room = blank.frame_room(),
                    None => return false,
                }
            }
            room -= bytes;
        }
        true
    }

    /// The size of the blank that should be prepared next: at least what `record` needs, growing with use.
    pub(crate) fn next_blank_bytes(&self, record: Option<&RecordFrames>) -> u64 {
        let needed = record.map_or(0, |record| record.largest() + SEGMENT_FRAMES_OFFSET);
        let grown = (self.current.bytes * 2).min(GROWN_BYTES_MAX);
        needed.max(grown).min(limits::SEGMENT_BYTES_MAX)
    }

    /// True when the keeper should prepare another blank: none is left and the current segment is half full.
    pub(crate) fn wants_blank(&self) -> bool {
        self.blanks.is_empty() && self.offset > self.current.bytes / 2
    }

    /// Adds a blank for a later life.
    pub(crate) fn add_blank(&mut self, blank: Blank) {
        self.blanks.push_back(blank);
    }

    /// Appends a record whose room was checked under the same hold of the lock, and answers the position behind it.
    ///
    /// `buffer` holds the payloads that are not packed at the planned places; the bytes before the payload of a whole
    /// record, and of a packed one, are overwritten by the frame's header. `durable` is how far the log is known durable.
    ///
    /// # Errors
    /// When a write is refused. Part of the record may be in the log then: the caller must stop the log.
    pub(crate) fn append(
        &mut self,
        buffer: &mut [u8],
        record: &mut RecordFrames,
        sequence: SeqNo,
        durable: Lsn,
    ) -> StorageResult<Lsn> {
        let RecordFrames { frames, packed, .. } = record;
        for frame in &*frames {
            let size = frame_bytes(frame.payload.len()) as u64;
            while self.current.bytes - self.offset < size {
                self.switch()?;
            }
            let header = FrameHeader {
                payload_bytes: frame.payload.len() as u32,
                kind: frame.kind,
                is_packed: frame.is_packed,
                sequence,
                durable,
            };
            let header =
                encode_frame_header(&header, frame.hash, self.current.salt, self.position());
            let bytes = match frame.is_packed {
                true => packed.as_mut_slice(),
                false => &mut *buffer,
            };
            if frame.is_packed || frame.kind == FrameKind::Commit {
                let start = frame.payload.start - FRAME_HEADER_BYTES;
                bytes[start..frame.payload.start].copy_from_slice(&header);
                self.write(&bytes[start..frame.payload.end], 0)?;
            } else {
                self.write(&header, 0)?;
                self.write(&bytes[frame.payload.clone()], FRAME_HEADER_BYTES as u64)?;
            }
            self.offset += size;
            self.bytes_written += size;
        }
        Ok(self.position())
    }

    /// Appends a mark: a small frame that carries `durable` and nothing else. Skipped (false) when the current segment
    /// has no room for it.
    ///
    /// # Errors
    /// When the write is refused.
    pub(crate) fn append_mark(&mut self, sequence: SeqNo, durable: Lsn) -> StorageResult<bool> {
        let size = frame_bytes(0) as u64;
        if self.current.bytes - self.offset < size {
            return Ok(false);
        }
        let header = FrameHeader {
            payload_bytes: 0,
            kind: FrameKind::Mark,
            is_packed: false,
            sequence,
            durable,
        };
        let header = encode_frame_header(
            &header,
            payload_hash(&[]),
            self.current.salt,
            self.position(),
        );
        self.write(&header, 0)?;
        self.offset += size;
        self.bytes_written += size;
        Ok(true)
    }

    fn write(&self, bytes: &[u8], behind: u64) -> StorageResult<()> {
        self.current
            .file
            .write_at(bytes, self.offset + behind)
            .map_err(|error| {
                StorageError::io(format!("wal/{}", self.current.name), "append to", error)
            })
    }

    /// Goes on in the next blank. Its room was checked before.
    fn switch(&mut self) -> StorageResult<()> {
        let blank = self.blanks.pop_front().ok_or_else(|| {
            StorageError::malformed(
                format!("wal/{}", self.current.name),
                self.offset,
                "the log ran out of secured segments",
            )
        })?;
        let next = Arc::new(blank.begin(self.current.id.next(), self.position(), self.database)?);
        let full = std::mem::replace(&mut self.current, next);
        self.unsynced.push(Arc::clone(&full));
        self.retained.push_back(full);
        self.offset = SEGMENT_FRAMES_OFFSET;
        self.window_end = 0;
        Ok(())
    }

    /// What a sync must cover: all segments that hold unsynced bytes, oldest first, the current one last.
    pub(crate) fn unsynced(&self) -> UnsyncedSegments {
        let mut segments = self.unsynced.clone();
        segments.push(Arc::clone(&self.current));
        segments
    }

    /// Notes that the segments of a finished sync are durable; the current segment stays on the list of every sync.
    pub(crate) fn note_synced(&mut self, through: SegmentId) {
        self.unsynced.retain(|segment| segment.id >= through);
    }

    /// Takes out the segments below `oldest_needed`, whose records are all in durable tables and which the durable
    /// manifest no longer asks for. The first few become blanks; the names of the others are returned for removal.
    pub(crate) fn retire(&mut self, env: &dyn Env, oldest_needed: SegmentId) -> Vec<String> {
        let mut removable = Vec::new();
        while self.retained.front().is_some_and(|segment| {
            segment.id < oldest_needed
                || (planted::is(Bug::SegmentRetiredEarly) && segment.id == oldest_needed)
        }) {
            let Some(segment) = self.retained.pop_front() else {
                break;
            };
            self.unsynced.retain(|unsynced| unsynced.id != segment.id);
            let grown = segment.bytes * 2 >= self.current.bytes;
            if self.blanks.len() < BLANKS_KEPT_MAX && grown {
                self.blanks.push_back(Blank::recycle(env, &segment));
            } else {
                removable.push(segment.name.clone());
            }
        }
        removable
    }

    /// Gives up all blanks but the smallest one, for a log that is idle; their names are returned for removal.
    pub(crate) fn shrink(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while self.blanks.len() > 1 {
            let largest = (0..self.blanks.len()).max_by_key(|index| self.blanks[*index].bytes);
            let Some(blank) = largest.and_then(|index| self.blanks.remove(index)) else {
                break;
            };
            names.push(blank.name);
        }
        names
    }

    /// Gives up all blanks, for a log that has been idle for long; their names are returned for removal.
    pub(crate) fn give_up_blanks(&mut self) -> Vec<String> {
        self.blanks.drain(..).map(|blank| blank.name).collect()
    }

    /// The secured length of the current segment.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.current.bytes
    }

    /// Goes on in `blank`, however much room the current segment has left.
    ///
    /// # Errors
    /// When its header cannot be written. The caller must stop the log then.
    pub(crate) fn restart(&mut self, blank: Blank) -> StorageResult<()> {
        self.blanks.push_front(blank);
        self.switch()
    }

    /// The window to prepare next, if the tail has come near the end of the last one: which file, from where. A call
    /// claims the window: the next one is offered only when the tail comes near its end.
    pub(crate) fn claim_window(&mut self) -> Option<(Arc<Segment>, u64)> {
        if !self.wants_window() {
            return None;
        }
        let start = self.window_end.max(self.offset) & !4095;
        self.window_end = (start + WINDOW_BYTES).min(self.current.bytes);
        let last = self.windowed.replace(Arc::clone(&self.current));
        if let Some(last) = last.filter(|last| last.id != self.current.id) {
            self.outgrown = Some(last);
        }
        Some((Arc::clone(&self.current), start))
    }

    /// After a window was claimed: the segment that had windows and takes no more records, if there is one.
    pub(crate) fn take_outgrown(&mut self) -> Option<Arc<Segment>> {
        self.outgrown.take()
    }

    /// True when the keeper should look: a window or a blank is due.
    pub(crate) fn wants_attention(&self) -> bool {
        self.wants_window() || self.wants_blank()
    }

    /// No more windows in this opening: its commits are synced one by one. A store into mapped memory makes the whole
    /// folio dirty that the page cache keeps the page in, which may be many pages, and every sync would write all of it;
    /// a positional write makes dirty only what it touches.
    pub(crate) fn give_up_windows(&mut self) {
        self.has_windows = false;
    }

    fn wants_window(&self) -> bool {
        // The first records go by position: an opening that writes little, or syncs, needs no mapping.
        self.has_windows
            && self.bytes_written >= WINDOW_BYTES / 16
            && self.offset + WINDOWS_AHEAD_BYTES >= self.window_end
            && self.window_end < self.current.bytes
    }

    /// Segments in use and blanks, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        let segments = self.retained.iter().map(|segment| segment.bytes);
        let blanks = self.blanks.iter().map(|blank| blank.bytes);
        let bytes = segments.chain(blanks).sum::<u64>() + self.current.bytes;
        (self.retained.len() + self.blanks.len() + 1, bytes)
    }

    /// Bytes of segments that hold records, the current one included.
    pub(crate) fn retained_bytes(&self) -> u64 {
        self.retained
            .iter()
            .map(|segment| segment.bytes)
            .sum::<u64>()
            + self.offset
    }

    /// Bytes of frames appended in this opening.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }
}

impl Segment {
    /// Prepares a window of this segment for cheap small writes.
    pub(crate) fn prepare_window(&self, offset: u64) {
        // A hint: when it fails, writes take the positional path.
        let _ = self
            .file
            .prepare_window(offset, WINDOW_BYTES.min(self.bytes - offset));
    }

    /// Releases all windows of this segment, which takes no more records: mapped memory is memory of the process.
    pub(crate) fn release_windows(&self) {
        // A hint, as above.
        let _ = self.file.prepare_window(self.bytes, 0);
    }

    /// Makes what was written to this segment durable.
    ///
    /// # Errors
    /// When the sync fails; the log must stop then.
    pub(crate) fn make_durable(&self) -> StorageResult<()> {
        self.sync()
    }
}

/// Stands in for the current segment of a log that is only read: refuses every write.
#[derive(Debug)]
struct ReadOnlyFile;

impl File for ReadOnlyFile {
    fn read_at(&self, _target: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _source: &[u8], _offset: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn prepare_window(&self, _offset: u64, _bytes: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn allocate(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn read_only() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the database is open for reading only",
    )
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
