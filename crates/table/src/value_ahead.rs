//! Reads values ahead of one reader that takes them in the order of their keys, or in the opposite one.
//!
//! Whoever writes a value file appends values in key order, so a scan meets the records of each file in the order in which
//! they lie, although it goes from file to file. For each of the files met last there is a window: where the reader
//! was, and a piece of the file around that. After a few steps in one direction, with gaps that are small, a read takes a
//! whole piece, twice as long as the one before, up to a bound; a jump begins anew with single records. So a scan of adjacent
//! records of 4 KiB asks the system once for dozens of them, and point reads cost what they cost. Where more than half of the readers of
//! late went on from the record at which they began, the first read takes a piece: to read the first two each alone costs ranges of
//! some dozens of records a tenth.
//!
//! Every record is verified as in [`ValueFiles::read`]. Pieces are copies: files never change, so they cannot be stale.

use std::io;

use kingtide_base::{FileId, StorageError, StorageResult, ValuePointer};
use kingtide_collections::LONG_VALUE_BYTES;
use kingtide_format::vlog::{StoredValue, VLOG_HEADER_BYTES};

use crate::habit::Habit;
use crate::value_log::{ValueFiles, stored_value};

/// Files that are read ahead of at the same time; others are forgotten, the one not met for longest first.
const WINDOWS_MAX: usize = 512;
/// The longest piece, in bytes.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// So long a piece may be for any number of files.
const PIECE_BYTES_MIN: u64 = 4 << 10;
/// The first piece holds about so many records, of this length at most: a short range over short values in many files would
/// read little else than what it does not need.
const FIRST_RECORDS: u64 = 16;
const FIRST_PIECE_BYTES_MAX: u64 = 32 << 10;
/// All pieces together, in bytes.
const PIECES_BYTES_MAX: u64 = WINDOWS_MAX as u64 * PIECE_BYTES_MIN;
/// The largest gap that a step may have, in bytes.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// Steps in one direction before pieces are read, unless readers have the [`Habit`] to go on.
const STEPS_BEFORE: u32 = 2;

/// See the module. Holds at most 2 MiB.
#[derive(Debug, Default)]
pub struct ValueReadAhead {
    /// The file of each window.
    files: Vec<FileId>,
    windows: Vec<Window>,
    /// Steps so far.
    steps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

#[derive(Debug)]
struct Window {
    /// The step at which its file was met last.
    met: u64,
    /// The record read last.
    last: (u64, u64),
    direction: Direction,
    steps: u32,
    piece: Vec<u8>,
    /// Where in the file the piece begins.
    piece_start: u64,
    piece_bytes: u64,
}

impl ValueReadAhead {
    /// Replaces the content of `value` by the value that `pointer` leads to and that was appended for `key`, as
    /// [`ValueFiles::read`] answers it.
    ///
    /// # Errors
    /// As [`ValueFiles::read`]; what `value` holds then means nothing.
    pub fn read(
        &mut self,
        files: &ValueFiles,
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        match self.record(files, pointer) {
            Some(record) => files.open_value(record, pointer, key, value),
            None => files.read_into(pointer, key, value),
        }
    }

    /// The value that `pointer` leads to and that was appended for `key`, as its record stores it; `record` is for one that is not
    /// read ahead. `None` where the value must be [read](ValueReadAhead::read): it is long, or what is stored means nothing by itself.
    ///
    /// # Errors
    /// As [`ValueFiles::read`].
    pub fn read_stored<'a>(
        &'a mut self,
        files: &ValueFiles,
        pointer: &ValuePointer,
        key: &[u8],
        record: &'a mut Vec<u8>,
    ) -> StorageResult<Option<StoredValue<'a>>> {
        if pointer.record_bytes as usize >= LONG_VALUE_BYTES {
            return Ok(None);
        }
        match self.record(files, pointer) {
            Some(record) => stored_value(record, pointer, key),
            None => {
                files.read_record(pointer, record)?;
                stored_value(record, pointer, key)
            }
        }
    }

    /// The bytes of the record that `pointer` leads to, if they are read ahead.
    fn record(&mut self, files: &ValueFiles, pointer: &ValuePointer) -> Option<&[u8]> {
        let span = (
            pointer.offset,
            pointer
                .offset
                .saturating_add(u64::from(pointer.record_bytes)),
        );
        let index = self.window(files.habit(), pointer.file, span);
        let piece_bytes_max = self.piece_bytes_max();
        let window = &mut self.windows[index];
        if window.record(span).is_none() {
            window.fetch(files, pointer.file, (span, piece_bytes_max));
        }
        window.record(span)
    }

    /// How long a piece may be, so that those of all windows keep within their bound.
    fn piece_bytes_max(&self) -> u64 {
        let share = PIECES_BYTES_MAX / self.windows.len().max(1) as u64;
        share.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Which window is that of `file`; it is told of the step to `span`.
    fn window(&mut self, habit: &Habit, file: FileId, span: (u64, u64)) -> usize {
        self.steps += 1;
        if let Some(index) = self.files.iter().position(|known| *known == file) {
            let window = &mut self.windows[index];
            window.met = self.steps;
            window.step(habit, span);
            return index;
        }
        habit.begin();
        let window = Window {
            met: self.steps,
            last: span,
            direction: Direction::Forward,
            steps: 0,
            piece: Vec::new(),
            piece_start: 0,
            piece_bytes: 0,
        };
        if self.windows.len() < WINDOWS_MAX {
            self.files.push(file);
            self.windows.push(window);
            let piece_bytes_max = self.piece_bytes_max();
            for window in &mut self.windows {
                if window.piece.capacity() as u64 > piece_bytes_max {
                    window.piece = Vec::new();
                }
            }
            return self.windows.len() - 1;
        }
        let places = self.windows.iter().enumerate();
        let oldest = places.min_by_key(|(_, window)| window.met);
        let index = oldest.map_or(0, |(index, _)| index);
        self.files[index] = file;
        self.windows[index] = window;
        index
    }
}

impl Window {
    /// Notes that the reader goes from the record read last to the one at `span`.
    fn step(&mut self, habit: &Habit, span: (u64, u64)) {
        let (start, end) = span;
        let is_near = |gap: Option<u64>| gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
        let direction = if is_near(start.checked_sub(self.last.1)) {
            Some(Direction::Forward)
        } else if is_near(self.last.0.checked_sub(end)) {
            Some(Direction::Backward)
        } else {
            None
        };
        match direction {
            Some(direction) if direction == self.direction => {
                self.steps += 1;
                if self.steps == STEPS_BEFORE {
                    habit.go_on();
                }
            }
            Some(direction) => {
                self.direction = direction;
                self.steps = 1;
                self.piece_bytes = 0;
            }
            // The same record again is no step.
            None if span == self.last => {}
            None => {
                habit.begin();
                self.steps = 0;
                self.piece_bytes = 0;
            }
        }
        self.last = span;
    }

    /// Reads the piece that is to be read for the record at `span`, if one is, with a bound for its length.
    fn fetch(&mut self, files: &ValueFiles, file: FileId, (span, bytes_max): ((u64, u64), u64)) {
        let walks = self.steps >= STEPS_BEFORE || files.habit().is_to_go_on();
        let piece = walks.then(|| self.wanted_piece(span, bytes_max)).flatten();
        let Some(piece) = piece else {
            // What is kept would only take room.
            self.piece = Vec::new();
            return;
        };
        self.piece_start = piece.0;
        // What cannot be read ahead may still be read alone; that tells what is wrong.
        if files.read_piece(file, piece, &mut self.piece).is_err() {
            self.piece.clear();
        }
    }

    /// The bytes of the record at `span`, if the piece holds them.
    fn record(&self, (start, end): (u64, u64)) -> Option<&[u8]> {
        let from = start.checked_sub(self.piece_start)?;
        let to = end.checked_sub(self.piece_start)?;
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        self.piece.get(from..to).filter(|record| !record.is_empty())
    }

    /// The piece to read for the record at `span`: none for records that are long enough to be read alone.
    fn wanted_piece(
        &mut self,
        (start, end): (u64, u64),
        piece_bytes_max: u64,
    ) -> Option<(u64, u64)> {
        let record_bytes = end.checked_sub(start)?;
        let first = record_bytes
            .saturating_mul(FIRST_RECORDS)
            .clamp(PIECE_BYTES_MIN, FIRST_PIECE_BYTES_MAX.min(piece_bytes_max));
        self.piece_bytes = (self.piece_bytes * 2).clamp(first, piece_bytes_max);
        if record_bytes >= self.piece_bytes {
            return None;
        }
        Some(match self.direction {
            Direction::Forward => (start, start.checked_add(self.piece_bytes)?),
            Direction::Backward => {
                let from = end.saturating_sub(self.piece_bytes);
                (from.max(VLOG_HEADER_BYTES as u64).min(start), end)
            }
        })
    }
}

/// Fills `piece` with the bytes from the first to the second of `span`, fewer at the end of the file. After an error what
/// it holds means nothing.
pub(crate) fn fill(
    file: &dyn kingtide_env::File,
    name: &str,
    span: (u64, u64),
    piece: &mut Vec<u8>,
) -> StorageResult<()> {
    let length = usize::try_from(span.1.saturating_sub(span.0)).unwrap_or(usize::MAX);
    let length = length.min(PIECE_BYTES_MAX as usize);
    // Only what grows is zeroed.
    piece.resize(length, 0);
    let error = |error: io::Error| StorageError::io(name, "read", error);
    let read = file.read_at(piece, span.0).map_err(error)?;
    piece.truncate(read);
    Ok(())
}
