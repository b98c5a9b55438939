//! What is written down about transactions while they run.
//!
//! Keys are numbers, and every write writes a number that no other write writes, so that a value that was read names the
//! write it came from. Time is told in two ways, both taken by the thread that makes the call:
//!
//! - *stamps* from one counter, taken before and after a call: a call whose first stamp is larger than another's last
//!   one began after the other had returned;
//! - the *floor*: the largest sequence number whose commit had returned, anywhere, before the call was made. What begins
//!   after that must see that commit.

use std::ops::Range;

use kingtide::IsolationLevel;

/// The number of a key. Keys of different families have different numbers.
pub type Key = u16;

/// The number that a write wrote.
pub type Number = u64;

/// When a call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The largest sequence number acknowledged before the call.
    pub floor: u64,
    /// The stamp before the call.
    pub from: u64,
    /// The stamp after the call.
    pub to: u64,
}

/// A part of what one call or one iterator read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A key, and the number found under it.
    Point(Key, Option<Number>),
    /// All keys of a range; what was found is in [`Log::items`], in the order of the keys.
    Range(Range<Key>, Range<usize>),
}

/// What a read means for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What the level makes of it.
    Plain,
    /// It counts as a write.
    ForUpdate,
    /// Nothing: it is not remembered.
    Untracked,
}

/// One thing that a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A get, a multi_get or an iterator: one view, even below repeatable read. The parts are in [`Log::parts`]. An
    /// iterator stands where it was created.
    Read {
        /// When the view was taken.
        span: Span,
        /// What was read.
        parts: Range<usize>,
        /// What it means for the commit.
        role: Role,
    },
    /// A put, or a delete when there is no number.
    Write(Key, Option<Number>),
    /// A deletion of all keys of a range.
    Clear(Range<Key>),
    /// The savepoint, which moves here if there was one.
    Save,
    /// Back to the savepoint, which is gone then.
    Undo,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The commit succeeded with this sequence number; 0 when nothing was written.
    Committed(u64),
    /// The commit was a conflict.
    Conflict,
    /// It was rolled back.
    RolledBack,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who ran it: transactions of one process follow each other.
    pub process: u32,
    /// Its level.
    pub level: IsolationLevel,
    /// Its beginning.
    pub begin: Span,
    /// Its operations, in [`Log::operations`].
    pub operations: Range<usize>,
    /// The call that prepared it, if it was committed or rolled back in two phases.
    pub prepared: Option<Span>,
    /// Its last call.
    pub end: Span,
    /// What that answered.
    pub ending: Ending,
}

/// Transactions and what they did, kept flat so that a million of them need no million allocations.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The transactions.
    pub records: Vec<Record>,
    /// What they did.
    pub operations: Vec<Operation>,
    /// What their reads found.
    pub parts: Vec<Part>,
    /// What their scans found.
    pub items: Vec<(Key, Number)>,
}

impl Log {
    /// Moves all of `other` to the end of this log. `other` is empty afterwards and keeps its memory.
    pub fn append(&mut self, other: &mut Self) {
        let (operations, parts, items) =
            (self.operations.len(), self.parts.len(), self.items.len());
        let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
        self.records
            .extend(other.records.drain(..).map(|record| Record {
                operations: moved(record.operations, operations),
                ..record
            }));
        self.operations
            .extend(other.operations.drain(..).map(|operation| match operation {
                Operation::Read {
                    span,
                    parts: range,
                    role,
                } => Operation::Read {
                    span,
                    role,
                    parts: moved(range, parts),
                },
                other => other,
            }));
        self.parts
            .extend(other.parts.drain(..).map(|part| match part {
                Part::Range(keys, range) => Part::Range(keys, moved(range, items)),
                Part::Point(..) => part,
            }));
        self.items.append(&mut other.items);
    }

    /// Keys read, and keys of ranges that were scanned.
    #[must_use]
    pub fn reads(&self) -> u64 {
        let keys = |part: &Part| match part {
            Part::Point(..) => 1,
            Part::Range(keys, _) => keys.len() as u64,
        };
        self.parts.iter().map(keys).sum()
    }

    /// The operations of a transaction.
    #[must_use]
    pub fn operations_of(&self, record: &Record) -> &[Operation] {
        &self.operations[record.operations.clone()]
    }
}

/// All transactions between two moments at which none was open.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The number under each key at its beginning.
    pub before: Vec<Option<Number>>,
    /// The largest sequence number at its beginning.
    pub sequence_before: u64,
    /// The transactions.
    pub log: Log,
    /// The number under each key at its end.
    pub after: Vec<Option<Number>>,
}
