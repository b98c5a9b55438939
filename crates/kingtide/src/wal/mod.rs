//! The write-ahead log: one ordered log for all column families, in recycled segments.
//!
//! | module | what it is |
//! |---|---|
//! | `segment` | one life of a segment file, and blank segments waiting for theirs |
//! | `record` | a transaction's record, cut into frames, with everything hashed that can be hashed beforehand |
//! | `tail` | where the next record goes: append, switch of segments, what is unsynced, what may be reused |
//! | `reader` | replay: where the log ends, and whether it ended by a crash or by damage |
//! | `survey` | which segment files there are, for people |
//!
//! The tail is guarded by the commit lock (see `write`). Space is secured before a record is taken in: a segment is
//! zero-filled before it becomes a blank, and a record is only appended when the current segment and the blanks hold it.

mod reader;
mod record;
mod segment;
mod survey;
mod tail;

pub(crate) use reader::{LogEnd, LogStart, Replay, read_log};
pub(crate) use record::{HEADROOM_BYTES, PACKED_BYTES_MIN, RecordFrames};
pub(crate) use segment::{Blank, segment_name, segment_slot};
pub(crate) use survey::survey_segments;
pub(crate) use tail::{Tail, UnsyncedSegments};

// Loom's locks work inside its models only; these tests use them outside.
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
