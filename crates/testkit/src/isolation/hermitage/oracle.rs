//! What the levels say, as a program: for every step of an interleaving the one answer that is right.
//!
//! The state is the list of commits so far. A *view* is a length of that list. From repeatable read up a transaction has
//! the view of its beginning, below it each operation takes a new one. A commit with writes must conflict if a commit
//! after its view wrote what its level protects:
//!
//! | level | protects |
//! |---|---|
//! | read uncommitted, read committed | nothing |
//! | repeatable read | keys written, keys found by reads |
//! | snapshot | keys written |
//! | serializable | keys written, keys and ranges read, found or not |
//! | all | keys read for update |
//!
//! A deletion of a range writes all keys of the range, those too that are not there.
//!
//! A conflict without such a cause is wrong as well. One thing is left open: how far beyond the entry where it stopped an
//! iterator counts as having read, so there a conflict with anything within the iterator's bounds is accepted.

use std::collections::BTreeMap;

use kingtide::IsolationLevel;

use super::scenario::{Amount, Answer, KeyRange};

/// A value, or a deletion.
type Write = (u8, Option<i64>);

/// The database of one interleaving.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    commits: Vec<Vec<Write>>,
}

/// What a commit must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeds.
    Commits,
    /// It is a conflict.
    Conflicts,
    /// Both are right.
    Either,
}

/// A transaction of the oracle.
#[derive(Clone, Debug)]
pub struct Expected {
    level: IsolationLevel,
    view: usize,
    writes: BTreeMap<u8, Option<i64>>,
    last_read: BTreeMap<u8, i64>,
    saved: Option<BTreeMap<u8, Option<i64>>>,
    /// Keys read for update, and the view of that read.
    locked: Vec<(u8, usize)>,
    found: Vec<u8>,
    ranges: Vec<KeyRange>,
    /// Bounds of iterators that stopped short.
    doubtful: Vec<KeyRange>,
    iter: Option<Walk>,
}

/// An iterator that is read in single steps.
#[derive(Clone, Debug)]
struct Walk {
    bounds: KeyRange,
    entries: Vec<(u8, i64)>,
    /// Which of the entries come from others, and so count as read.
    foreign: Vec<bool>,
    next: usize,
}

impl Oracle {
    /// A database with this state.
    #[must_use]
    pub fn new(state: &[(u8, i64)]) -> Self {
        let writes = state.iter().map(|(key, value)| (*key, Some(*value)));
        Self {
            commits: vec![writes.collect()],
        }
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self, level: IsolationLevel) -> Expected {
        Expected {
            level,
            view: self.commits.len(),
            writes: BTreeMap::new(),
            last_read: BTreeMap::new(),
            saved: None,
            locked: Vec::new(),
            found: Vec::new(),
            ranges: Vec::new(),
            doubtful: Vec::new(),
            iter: None,
        }
    }

    /// Takes a commit of its own.
    pub fn set(&mut self, key: u8, value: i64) {
        self.commits.push(vec![(key, Some(value))]);
    }

    /// Takes the writes of a transaction that committed.
    pub fn apply(&mut self, transaction: &Expected) {
        let writes = &transaction.writes;
        self.commits
            .push(writes.iter().map(|(key, value)| (*key, *value)).collect());
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> Vec<(u8, i64)> {
        self.state_at(self.commits.len()).into_iter().collect()
    }

    fn state_at(&self, view: usize) -> BTreeMap<u8, i64> {
        let mut state = BTreeMap::new();
        for (key, value) in self.commits[..view].iter().flatten() {
            match value {
                Some(value) => state.insert(*key, *value),
                None => state.remove(key),
            };
        }
        state
    }

    /// What the commit of `transaction` must answer.
    #[must_use]
    pub fn verdict(&self, transaction: &Expected) -> Verdict {
        let level = transaction.level;
        let is_taken = |(key, view): &(u8, usize)| {
            self.commits[*view..]
                .iter()
                .flatten()
                .any(|(written, _)| written == key)
        };
        if transaction.locked.iter().any(is_taken) {
            return Verdict::Conflicts;
        }
        if !level.has_one_view() || !transaction.is_checked() {
            return Verdict::Commits;
        }
        let is_serializable = level == IsolationLevel::Serializable;
        let is_protected = |key: u8| {
            transaction.writes.contains_key(&key)
                || (level == IsolationLevel::RepeatableRead && transaction.found.contains(&key))
                || (is_serializable && transaction.ranges.iter().any(|range| range.contains(key)))
        };
        let is_doubtful = |key: u8| {
            is_serializable && transaction.doubtful.iter().any(|range| range.contains(key))
        };
        let since = || self.commits[transaction.view..].iter().flatten();
        if since().any(|(key, _)| is_protected(*key)) {
            Verdict::Conflicts
        } else if since().any(|(key, _)| is_doubtful(*key)) {
            Verdict::Either
        } else {
            Verdict::Commits
        }
    }
}

impl Expected {
    /// What the transaction sees now: its view, its own writes over it.
    fn sees(&self, oracle: &Oracle) -> BTreeMap<u8, i64> {
        let view = if self.level.has_one_view() {
            self.view
        } else {
            oracle.commits.len()
        };
        let mut state = oracle.state_at(view);
        for (key, value) in &self.writes {
            match value {
                Some(value) => state.insert(*key, *value),
                None => state.remove(key),
            };
        }
        state
    }

    /// Reads a key.
    pub fn get(&mut self, oracle: &Oracle, key: u8) -> Answer {
        Answer::Value(self.read(oracle, key))
    }

    /// Reads several keys.
    pub fn gets(&mut self, oracle: &Oracle, keys: &[u8]) -> Answer {
        let read = |key: &u8| self.read(oracle, *key).map(|value| (*key, value));
        let mut entries: Vec<_> = keys.iter().filter_map(read).collect();
        entries.sort_unstable();
        Answer::Entries(entries)
    }

    fn read(&mut self, oracle: &Oracle, key: u8) -> Option<i64> {
        let value = self.sees(oracle).get(&key).copied();
        self.last_read.insert(key, value.unwrap_or(0));
        if !self.writes.contains_key(&key) {
            if value.is_some() {
                self.found.push(key);
            }
            self.ranges.push(KeyRange {
                lower: key,
                upper: key + 1,
            });
        }
        value
    }

    /// Reads a range.
    pub fn scan(&mut self, oracle: &Oracle, range: KeyRange) -> Answer {
        let walk = self.walk(oracle, range);
        for (key, value) in &walk.entries {
            self.last_read.insert(*key, *value);
        }
        let foreign = walk
            .entries
            .iter()
            .zip(&walk.foreign)
            .filter(|(_, foreign)| **foreign);
        self.found.extend(foreign.map(|((key, _), _)| *key));
        self.ranges.push(range);
        Answer::Entries(walk.entries)
    }

    fn walk(&self, oracle: &Oracle, bounds: KeyRange) -> Walk {
        let entries: Vec<(u8, i64)> = self
            .sees(oracle)
            .into_iter()
            .filter(|(key, _)| bounds.contains(*key))
            .collect();
        let foreign = entries
            .iter()
            .map(|(key, _)| !self.writes.contains_key(key))
            .collect();
        Walk {
            bounds,
            entries,
            foreign,
            next: 0,
        }
    }

    /// Creates the iterator of the single steps.
    pub fn open(&mut self, oracle: &Oracle, bounds: KeyRange) {
        self.iter = Some(self.walk(oracle, bounds));
    }

    /// The iterator's next entry.
    pub fn next(&mut self) -> Answer {
        let Some(walk) = &mut self.iter else {
            return Answer::Entry(None);
        };
        let entry = walk.entries.get(walk.next).copied();
        let mut read = walk.bounds;
        if let Some((key, value)) = entry {
            read.upper = key + 1;
            self.last_read.insert(key, value);
            if walk.foreign[walk.next] {
                self.found.push(key);
            }
            walk.next += 1;
        }
        self.ranges.push(read);
        self.doubtful.push(walk.bounds);
        Answer::Entry(entry)
    }

    /// Buffers a write; answers the number that it writes.
    pub fn put(&mut self, key: u8, amount: Amount) -> i64 {
        let value = match amount {
            Amount::Is(value) => value,
            Amount::LastRead(read, plus) => self.last_read.get(&read).copied().unwrap_or(0) + plus,
        };
        self.writes.insert(key, Some(value));
        value
    }

    /// Reads a key for update.
    pub fn lock(&mut self, oracle: &Oracle, key: u8) -> Answer {
        let view = if self.level.has_one_view() {
            self.view
        } else {
            oracle.commits.len()
        };
        self.locked.push((key, view));
        self.peek(oracle, key)
    }

    /// Reads a key that is not remembered.
    pub fn peek(&mut self, oracle: &Oracle, key: u8) -> Answer {
        let value = self.sees(oracle).get(&key).copied();
        self.last_read.insert(key, value.unwrap_or(0));
        Answer::Value(value)
    }

    /// Makes the savepoint.
    pub fn save(&mut self) {
        self.saved = Some(self.writes.clone());
    }

    /// Goes back to the savepoint, which is gone then.
    pub fn undo(&mut self) {
        if let Some(writes) = self.saved.take() {
            self.writes = writes;
        }
    }

    /// Buffers the deletion of a range.
    pub fn clear(&mut self, range: KeyRange) {
        self.writes
            .extend((range.lower..range.upper).map(|key| (key, None)));
    }

    /// Buffers a deletion.
    pub fn delete(&mut self, key: u8) {
        self.writes.insert(key, None);
    }

    /// True when a commit has something to write.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// True when a commit has something to check or to write: keys read for update count.
    fn is_checked(&self) -> bool {
        !self.writes.is_empty() || !self.locked.is_empty()
    }
}
