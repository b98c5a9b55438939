//! The language of the scenarios: transactions as lists of steps, written as text.
//!
//! | step | meaning |
//! |---|---|
//! | `begin`, `commit`, `rollback` | of this transaction |
//! | `get x` | reads a key |
//! | `gets xy` | reads several keys in one call |
//! | `scan a..d` | reads all keys from `a` up to but not including `d` through one iterator; `back a..d` backwards |
//! | `open a..d`, `next` | the same in single steps: each `next` reads one entry, or the end |
//! | `put x 5`, `delete x` | writes a key |
//! | `put x x+1` | writes what this transaction read last of `x`, plus 1; a key that was not found counts as 0 |
//! | `clear a..d` | deletes all keys of a range at once |
//! | `once x` | deletes a key that was put once |
//! | `lock x` | reads a key for update |
//! | `peek x` | reads a key without having it remembered |
//! | `save`, `undo` | makes a savepoint; takes back what was written since |
//! | `prepare`, then `finish` or `refuse` | the two phases: the transaction is prepared, then committed or rolled back |
//! | `set x 5` | a transaction of its own: begins, writes, commits |
//!
//! Keys are single letters and values are numbers.

use std::fmt;

use kingtide::IsolationLevel;

/// One call of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins the transaction at its level.
    Begin,
    /// Reads a key.
    Get(u8),
    /// Reads several keys in one call.
    Gets(Vec<u8>),
    /// Reads a range through an iterator.
    Scan(KeyRange),
    /// Reads a range through an iterator, last key first.
    Back(KeyRange),
    /// Creates an iterator over a range.
    Open(KeyRange),
    /// Reads the next entry of the iterator.
    Next,
    /// Writes a key.
    Put(u8, Amount),
    /// Deletes a key.
    Delete(u8),
    /// Deletes a key that was put once, by a single delete.
    Once(u8),
    /// Deletes a range.
    Clear(KeyRange),
    /// Reads a key for update.
    Lock(u8),
    /// Reads a key without having it remembered.
    Peek(u8),
    /// Makes the savepoint.
    Save,
    /// Goes back to the savepoint.
    Undo,
    /// Prepares the transaction.
    Prepare,
    /// Commits what was prepared, if it was.
    Finish,
    /// Rolls back what was prepared, if it was.
    Refuse,
    /// Commits.
    Commit,
    /// Rolls back.
    Rollback,
    /// Writes a key in a transaction of its own.
    Set(u8, i64),
}

/// Keys from the first up to but not including the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub lower: u8,
    /// The first key beyond.
    pub upper: u8,
}

impl KeyRange {
    /// True when `key` lies inside.
    #[must_use]
    pub const fn contains(self, key: u8) -> bool {
        self.lower <= key && key < self.upper
    }
}

/// What a `put` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This number.
    Is(i64),
    /// What was read last of the key, plus this number.
    LastRead(u8, i64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |range: &KeyRange| format!("{}..{}", range.lower as char, range.upper as char);
        match self {
            Self::Begin => write!(f, "begin"),
            Self::Get(key) => write!(f, "get {}", *key as char),
            Self::Gets(keys) => write!(f, "gets {}", keys.escape_ascii()),
            Self::Scan(keys) => write!(f, "scan {}", range(keys)),
            Self::Back(keys) => write!(f, "back {}", range(keys)),
            Self::Open(keys) => write!(f, "open {}", range(keys)),
            Self::Next => write!(f, "next"),
            Self::Put(key, Amount::Is(value)) => write!(f, "put {} {value}", *key as char),
            Self::Put(key, Amount::LastRead(read, plus)) => {
                write!(f, "put {} {}+{plus}", *key as char, *read as char)
            }
            Self::Delete(key) => write!(f, "delete {}", *key as char),
            Self::Clear(keys) => write!(f, "clear {}", range(keys)),
            Self::Once(key) => write!(f, "once {}", *key as char),
            Self::Lock(key) => write!(f, "lock {}", *key as char),
            Self::Peek(key) => write!(f, "peek {}", *key as char),
            Self::Save => write!(f, "save"),
            Self::Undo => write!(f, "undo"),
            Self::Prepare => write!(f, "prepare"),
            Self::Finish => write!(f, "finish"),
            Self::Refuse => write!(f, "refuse"),
            Self::Commit => write!(f, "commit"),
            Self::Rollback => write!(f, "rollback"),
            Self::Set(key, value) => write!(f, "set {} {value}", *key as char),
        }
    }
}

/// Reads a script, steps divided by `;`.
///
/// # Panics
/// When it is not one: scripts are part of the program.
#[must_use]
pub fn parse_script(text: &str) -> Vec<Step> {
    text.split(';')
        .map(|step| parse_step(step.trim()))
        .collect()
}

/// Reads a state, as in `x=1 y=2`.
///
/// # Panics
/// When it is not one.
#[must_use]
pub fn parse_state(text: &str) -> Vec<(u8, i64)> {
    let entry = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap_or_else(|| wrong(entry));
        (parse_key(key), parse_number(value))
    };
    text.split_whitespace().map(entry).collect()
}

fn parse_step(text: &str) -> Step {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["begin"] => Step::Begin,
        ["get", key] => Step::Get(parse_key(key)),
        ["gets", keys] => Step::Gets(keys.bytes().collect()),
        ["scan", range] => Step::Scan(parse_range(range)),
        ["back", range] => Step::Back(parse_range(range)),
        ["open", range] => Step::Open(parse_range(range)),
        ["next"] => Step::Next,
        ["put", key, amount] => Step::Put(parse_key(key), parse_amount(amount)),
        ["delete", key] => Step::Delete(parse_key(key)),
        ["clear", range] => Step::Clear(parse_range(range)),
        ["once", key] => Step::Once(parse_key(key)),
        ["lock", key] => Step::Lock(parse_key(key)),
        ["peek", key] => Step::Peek(parse_key(key)),
        ["save"] => Step::Save,
        ["undo"] => Step::Undo,
        ["prepare"] => Step::Prepare,
        ["finish"] => Step::Finish,
        ["refuse"] => Step::Refuse,
        ["commit"] => Step::Commit,
        ["rollback"] => Step::Rollback,
        ["set", key, value] => Step::Set(parse_key(key), parse_number(value)),
        _ => wrong(text),
    }
}

fn parse_key(text: &str) -> u8 {
    match text.as_bytes() {
        [key] => *key,
        _ => wrong(text),
    }
}

fn parse_range(text: &str) -> KeyRange {
    let (lower, upper) = text.split_once("..").unwrap_or_else(|| wrong(text));
    KeyRange {
        lower: parse_key(lower),
        upper: parse_key(upper),
    }
}

fn parse_amount(text: &str) -> Amount {
    match text.split_once('+') {
        Some((key, plus)) => Amount::LastRead(parse_key(key), parse_number(plus)),
        None => Amount::Is(parse_number(text)),
    }
}

fn parse_number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| wrong(text))
}

fn wrong<T>(text: &str) -> T {
    panic!("not in the language of the scenarios: {text:?}")
}

/// The columns of the table of anomalies, named as by Adya and in the Hermitage tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Dirty write.
    G0,
    /// Aborted read.
    G1a,
    /// Intermediate read.
    G1b,
    /// Circular information flow.
    G1c,
    /// Observed transaction vanishes.
    Otv,
    /// Predicate-many-preceders.
    Pmp,
    /// Lost update.
    P4,
    /// Read skew.
    GSingle,
    /// Write skew on items.
    G2Item,
    /// Write skew on predicates.
    G2,
    /// Not in Hermitage: one call or one iterator that sees two states.
    OneView,
    /// Not in Hermitage: a lost update or a write skew though everything was read for update.
    ForUpdate,
}

impl Column {
    /// All columns.
    pub const ALL: [Self; 12] = [
        Self::G0,
        Self::G1a,
        Self::G1b,
        Self::G1c,
        Self::Otv,
        Self::Pmp,
        Self::P4,
        Self::GSingle,
        Self::G2Item,
        Self::G2,
        Self::OneView,
        Self::ForUpdate,
    ];

    /// The heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::G0 => "G0",
            Self::G1a => "G1a",
            Self::G1b => "G1b",
            Self::G1c => "G1c",
            Self::Otv => "OTV",
            Self::Pmp => "PMP",
            Self::P4 => "P4",
            Self::GSingle => "G-single",
            Self::G2Item => "G2-item",
            Self::G2 => "G2",
            Self::OneView => "two views",
            Self::ForUpdate => "for update",
        }
    }

    /// The table of the manual: true where the level prevents the anomaly.
    #[must_use]
    pub fn is_prevented(self, level: IsolationLevel) -> bool {
        match self {
            Self::G0 | Self::G1a | Self::G1b | Self::G1c | Self::Otv => true,
            Self::OneView | Self::ForUpdate => true,
            Self::Pmp | Self::P4 | Self::GSingle => level.has_one_view(),
            Self::G2Item => matches!(
                level,
                IsolationLevel::RepeatableRead | IsolationLevel::Serializable
            ),
            Self::G2 => matches!(level, IsolationLevel::Serializable),
        }
    }
}

/// Transactions that show an anomaly, if their order lets them.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The anomaly that it can show.
    pub column: Column,
    /// The state before.
    pub setup: &'static str,
    /// A script for each transaction.
    pub scripts: &'static [&'static str],
    /// The transaction, counted from 0, whose level should have prevented the anomaly that happened, if it happened.
    pub anomaly: fn(&Outcome) -> Option<usize>,
}

/// What a read answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of `get`.
    Value(Option<i64>),
    /// Of a scan, in the order of the keys also when it went backwards.
    Entries(Vec<(u8, i64)>),
    /// Of `next`.
    Entry(Option<(u8, i64)>),
}

/// What came of an interleaving.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The answers to each transaction's reads, in order.
    pub answers: Vec<Vec<Answer>>,
    /// Each transaction's place in the order of commits, from 1 on, if it committed.
    pub commits: Vec<Option<usize>>,
    /// The state afterwards.
    pub last: Vec<(u8, i64)>,
}

impl Outcome {
    /// True when all of these transactions committed.
    #[must_use]
    pub fn committed(&self, transactions: &[usize]) -> bool {
        transactions
            .iter()
            .all(|number| self.commits[*number].is_some())
    }

    /// The one of these transactions that committed last.
    #[must_use]
    pub fn last_committer(&self, transactions: &[usize]) -> Option<usize> {
        transactions
            .iter()
            .copied()
            .max_by_key(|number| self.commits[*number])
    }

    /// True when both committed, the first before the second.
    #[must_use]
    pub fn committed_before(&self, first: usize, second: usize) -> bool {
        self.committed(&[first, second]) && self.commits[first] < self.commits[second]
    }

    /// What the transaction's read of that number, counted from 0, found under `key`.
    #[must_use]
    pub fn saw(&self, transaction: usize, read: usize, key: u8) -> Option<i64> {
        match self.answers[transaction].get(read)? {
            Answer::Value(value) => *value,
            Answer::Entries(entries) => of(entries, key),
            Answer::Entry(entry) => entry.filter(|entry| entry.0 == key).map(|entry| entry.1),
        }
    }

    /// The answer to the transaction's read of that number.
    #[must_use]
    pub fn answer(&self, transaction: usize, read: usize) -> Option<&Answer> {
        self.answers[transaction].get(read)
    }

    /// What is under `key` afterwards.
    #[must_use]
    pub fn last(&self, key: u8) -> Option<i64> {
        of(&self.last, key)
    }
}

fn of(entries: &[(u8, i64)], key: u8) -> Option<i64> {
    entries
        .iter()
        .find(|entry| entry.0 == key)
        .map(|entry| entry.1)
}
