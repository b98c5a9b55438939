//! What is done in a run: a list that follows from a seed and knows nothing of settings.
//!
//! Operations name families, transactions, snapshots and iterators by small numbers. Whether something is there under
//! a number is decided when the list is run, so that every prefix of a list is a list too.

use kingtide::IsolationLevel;

use crate::{history::Draw, order::SHORT_FIRST, random::Random};

/// Names of families in a run.
pub const FAMILIES: usize = 4;
/// Transactions, snapshots and iterators at a time, each.
pub const SLOTS: usize = 3;
/// The longest list of keys of one operation.
const KEYS_MAX: usize = 12;
/// Orders that families sort by; byte order comes most often.
const COMPARATORS: [&str; 8] = [
    "memcmp",
    "memcmp",
    "memcmp",
    "reverse_memcmp",
    "case_insensitive",
    "uint64",
    "int64",
    SHORT_FIRST,
];

/// The name of family number `number`.
#[must_use]
pub fn name_of(number: usize) -> String {
    format!("f{number}")
}

/// One write, of a transaction or on its own.
#[derive(Clone, Debug)]
pub struct Change {
    /// The number of the family.
    pub family: usize,
    /// The key, or one end of a range.
    pub key: Vec<u8>,
    /// What becomes of it.
    pub kind: ChangeKind,
}

/// What becomes of a key.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// It gets a value; if given, until so many ticks from now, which may be over.
    Put(Vec<u8>, Option<i64>),
    /// It is deleted.
    Delete,
    /// It is deleted, with the hint that it was put once, which need not be true.
    SingleDelete,
    /// All keys between it and this one are deleted; the smaller of the two goes too.
    DeleteRange(Vec<u8>),
}

/// Which state a read sees.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// The newest one.
    Newest,
    /// That of a snapshot.
    Snapshot(usize),
    /// That of a transaction.
    Transaction(usize),
}

/// How a transaction reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// As its level says.
    Tracked,
    /// Not remembered.
    Untracked,
    /// For update.
    ForUpdate,
}

/// The bounds of an iterator. If both are given, the smaller one is the lower one.
pub type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A move of an iterator.
#[derive(Clone, Debug)]
pub enum Move {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key from this one on.
    Seek(Vec<u8>),
    /// To the last key up to this one.
    SeekForPrev(Vec<u8>),
    /// One on.
    Next,
    /// One back.
    Prev,
}

/// One operation. Numbers of families, transactions, snapshots and iterators are slots, see the head of this file.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Creates a family that sorts by this order.
    Create(usize, &'static str),
    /// Drops a family, after letting go of all transactions and iterators.
    Drop(usize),
    /// Renames a family.
    Rename(usize, usize),
    /// Clones a family.
    Clone(usize, usize),
    /// Writes outside of a transaction, or several at once in one of this level.
    Write(Vec<Change>, IsolationLevel),
    /// Reads keys of one family, outside of transactions or in one.
    Get(From, usize, Vec<Vec<u8>>, ReadKind),
    /// Whether a key is there.
    Contains(From, usize, Vec<u8>),
    /// Reads all entries within bounds, backwards if true.
    Scan(From, usize, Bounds, bool),
    /// Begins a transaction, at a snapshot if given, in place of what is in the slot.
    Begin(usize, IsolationLevel, Option<usize>),
    /// A write of a transaction.
    Buffer(usize, Change),
    /// Makes a savepoint.
    Save(usize),
    /// Goes back to the newest savepoint.
    Restore(usize),
    /// Commits a transaction.
    Commit(usize),
    /// Rolls a transaction back.
    Rollback(usize),
    /// Prepares a transaction under a name that no other operation uses.
    Prepare(usize, Vec<u8>),
    /// Ends one of the prepared transactions: commits it if true.
    EndPrepared(usize, bool),
    /// Lists what is prepared.
    ListPrepared,
    /// Takes a snapshot in place of what is in the slot.
    Snapshot(usize),
    /// Lets go of a snapshot.
    Release(usize),
    /// Opens an iterator in place of what is in the slot.
    OpenIter(usize, From, usize, Bounds),
    /// Moves an iterator and reads where it stands after each move.
    Moves(usize, Vec<Move>),
    /// Loads entries, sorted first.
    BulkLoad(usize, Vec<(Vec<u8>, Vec<u8>)>),
    /// Writes the memtable of a family to a table; in the background if true.
    Flush(usize, bool),
    /// Merges a family.
    Compact(usize),
    /// Merges what lies within bounds.
    CompactRange(usize, Bounds),
    /// Waits until nothing is left to be done in the background.
    Rest,
    /// Syncs the log.
    SyncWal,
    /// Changes the settings of a family to others.
    ChangeSettings(usize),
    /// So many ticks pass.
    Advance(u64),
    /// Closes and opens, after letting go of everything.
    Reopen,
    /// Makes a copy of the database and reads all of it; byte by byte if true.
    Copy(bool),
    /// Reads all files.
    Verify,
}

/// Draws the parts of operations.
struct Source {
    random: Random,
    draw: Draw,
    value_bytes_max: usize,
}

/// The first `count` operations of a seed.
#[must_use]
pub fn list(seed: u64, count: usize) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let draw = Draw::new(&mut random);
    let value_bytes_max = *random.pick(&[8, 40, 150, 600]);
    let mut source = Source {
        random,
        draw,
        value_bytes_max,
    };
    // How often each kind comes differs between lists.
    let weights: Vec<usize> = KINDS
        .iter()
        .map(|(weight, _)| weight * source.random.pick(&[0, 1, 1, 1, 1, 3]))
        .collect();
    let total: usize = weights.iter().sum();
    let mut operations: Vec<Operation> = (0..FAMILIES / 2)
        .map(|number| Operation::Create(number, source.comparator()))
        .collect();
    for number in operations.len()..count.max(operations.len()) {
        let mut at = source.random.below(total);
        let chosen = weights.iter().position(|weight| {
            let is_here = at < *weight;
            at = at.wrapping_sub(*weight);
            is_here
        });
        let kind = chosen.map_or(write as Kind, |index| KINDS[index].1);
        operations.push(kind(&mut source, number));
    }
    operations.truncate(count);
    operations
}

/// Makes an operation; it is told its number.
type Kind = fn(&mut Source, usize) -> Operation;

/// The kinds of operations and how often they come.
const KINDS: [(usize, Kind); 31] = [
    (200, write),
    (60, write_many),
    (180, get),
    (25, |source, _| {
        let from = source.from();
        Operation::Contains(from, source.family(), source.key())
    }),
    (25, |source, _| {
        let (from, family, bounds) = (source.from(), source.family(), source.bounds());
        Operation::Scan(from, family, bounds, source.random.one_in(2))
    }),
    (30, begin),
    (90, |source, _| {
        let slot = source.slot();
        Operation::Buffer(slot, source.change())
    }),
    (60, |source, _| {
        let from = From::Transaction(source.slot());
        let (family, key) = (source.family(), source.key());
        let kind = *source.random.pick(&[
            ReadKind::Tracked,
            ReadKind::Tracked,
            ReadKind::Untracked,
            ReadKind::ForUpdate,
        ]);
        Operation::Get(from, family, vec![key], kind)
    }),
    (8, |source, _| Operation::Save(source.slot())),
    (6, |source, _| Operation::Restore(source.slot())),
    (30, |source, _| Operation::Commit(source.slot())),
    (4, |source, _| Operation::Rollback(source.slot())),
    (10, |source, number| {
        Operation::Prepare(source.slot(), format!("x{number}").into_bytes())
    }),
    (12, |source, _| {
        Operation::EndPrepared(source.slot(), !source.random.one_in(3))
    }),
    (5, |_, _| Operation::ListPrepared),
    (12, |source, _| Operation::Snapshot(source.slot())),
    (4, |source, _| Operation::Release(source.slot())),
    (12, |source, _| {
        let (slot, from, family) = (source.slot(), source.from(), source.family());
        Operation::OpenIter(slot, from, family, source.bounds())
    }),
    (50, moves),
    (3, bulk_load),
    (8, |source, _| {
        Operation::Flush(source.family(), source.random.one_in(3))
    }),
    (2, |source, _| Operation::Compact(source.family())),
    (2, |source, _| {
        Operation::CompactRange(source.family(), source.bounds())
    }),
    (1, |_, _| Operation::Rest),
    (4, |_, _| Operation::SyncWal),
    (3, |source, _| Operation::ChangeSettings(source.family())),
    (8, |source, _| {
        Operation::Advance(source.random.between(1, 3) as u64)
    }),
    (3, |_, _| Operation::Reopen),
    (1, |source, _| Operation::Copy(source.random.one_in(2))),
    (1, |_, _| Operation::Verify),
    (8, change_families),
];

fn write(source: &mut Source, _: usize) -> Operation {
    let level = *source.random.pick(&IsolationLevel::ALL);
    Operation::Write(vec![source.change()], level)
}

fn write_many(source: &mut Source, _: usize) -> Operation {
    let level = *source.random.pick(&IsolationLevel::ALL);
    let count = match source.random.below(10) {
        0 => source.random.between(30, 80),
        _ => source.random.between(2, KEYS_MAX),
    };
    Operation::Write((0..count).map(|_| source.change()).collect(), level)
}

fn get(source: &mut Source, _: usize) -> Operation {
    let (from, family) = (source.from(), source.family());
    let count = if source.random.one_in(8) {
        source.random.below(KEYS_MAX)
    } else {
        1
    };
    let keys = (0..count).map(|_| source.key()).collect();
    Operation::Get(from, family, keys, ReadKind::Tracked)
}

fn begin(source: &mut Source, _: usize) -> Operation {
    let level = *source.random.pick(&IsolationLevel::ALL);
    let slot = source.slot();
    let snapshot = source.random.one_in(4).then(|| source.slot());
    Operation::Begin(slot, level, snapshot.filter(|_| level.has_one_view()))
}

fn moves(source: &mut Source, _: usize) -> Operation {
    let slot = source.slot();
    let count = source.random.between(1, KEYS_MAX);
    let moves = (0..count)
        .map(|_| match source.random.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::Seek(source.key()),
            3 => Move::SeekForPrev(source.key()),
            4..=7 => Move::Next,
            _ => Move::Prev,
        })
        .collect();
    Operation::Moves(slot, moves)
}

fn bulk_load(source: &mut Source, _: usize) -> Operation {
    let family = source.family();
    let count = source.random.between(1, 30);
    let entries = (0..count).map(|_| (source.key(), source.value())).collect();
    Operation::BulkLoad(family, entries)
}

fn change_families(source: &mut Source, _: usize) -> Operation {
    let (from, to) = (source.random.below(FAMILIES), source.random.below(FAMILIES));
    match source.random.below(6) {
        0..=2 => Operation::Create(from, source.comparator()),
        3 => Operation::Drop(from),
        4 => Operation::Rename(from, to),
        _ => Operation::Clone(from, to),
    }
}

impl Source {
    fn comparator(&mut self) -> &'static str {
        COMPARATORS[self.random.below(COMPARATORS.len())]
    }

    fn slot(&mut self) -> usize {
        self.random.below(SLOTS)
    }

    /// Mostly one of the first two, which are there from the beginning.
    fn family(&mut self) -> usize {
        if self.random.one_in(4) {
            self.random.below(FAMILIES)
        } else {
            self.random.below(FAMILIES / 2)
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.draw.key(&mut self.random)
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(60) {
            0 => 0,
            1 => self.random.between(1_000, 3_000),
            _ => self.random.between(1, self.value_bytes_max),
        };
        self.random.bytes(length)
    }

    fn from(&mut self) -> From {
        match self.random.below(6) {
            0 => From::Snapshot(self.slot()),
            1 => From::Transaction(self.slot()),
            _ => From::Newest,
        }
    }

    fn bounds(&mut self) -> Bounds {
        let lower = self.random.one_in(3).then(|| self.key());
        let upper = self.random.one_in(3).then(|| self.key());
        (lower, upper)
    }

    fn change(&mut self) -> Change {
        let (family, key) = (self.family(), self.key());
        let kind = match self.random.below(20) {
            0..=2 => ChangeKind::Delete,
            3 => ChangeKind::SingleDelete,
            4 => ChangeKind::DeleteRange(self.key()),
            5 => {
                let ticks = *self.random.pick(&[-1, 1, 2, 5]);
                ChangeKind::Put(self.value(), Some(ticks))
            }
            _ => ChangeKind::Put(self.value(), None),
        };
        Change { family, key, kind }
    }
}
