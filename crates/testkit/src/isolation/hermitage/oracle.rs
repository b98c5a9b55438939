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
//! A transaction that is prepared was checked like one that commits, and keeps what was protected locked until it ends:
//! what it wrote or read for update against everybody's writes and reads for update and against others that prepare and
//! have read it, what it read against writes alone.
//!
//! A conflict without such a cause is wrong as well.

use std::collections::BTreeMap;

use kingtide::IsolationLevel;

use super::scenario::{Amount, Answer, KeyRange};

/// A value, or a deletion.
type Write = (u8, Option<i64>);

/// The database of one interleaving.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    commits: Vec<Vec<Write>>,
    /// Transactions that are prepared, by number.
    prepared: BTreeMap<usize, Expected>,
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
            prepared: BTreeMap::new(),
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

    /// True when the commit of `transaction` must be a conflict; nothing else may be one.
    #[must_use]
    pub fn refuses_commit(&self, transaction: &Expected) -> bool {
        self.has_changed(transaction)
            || self.prepared.values().any(|prepared| {
                transaction
                    .owned()
                    .any(|key| prepared.owns(key) || prepared.relies_on(key))
            })
    }

    /// True when preparing `transaction` must be a conflict.
    #[must_use]
    pub fn refuses_prepare(&self, transaction: &Expected) -> bool {
        self.refuses_commit(transaction)
            || self.prepared.values().any(|prepared| {
                transaction.is_checked() && prepared.owned().any(|key| transaction.relies_on(key))
            })
    }

    /// True when a write of its own of `key` must be a conflict.
    #[must_use]
    pub fn refuses_write(&self, key: u8) -> bool {
        let mut prepared = self.prepared.values();
        prepared.any(|prepared| prepared.owns(key) || prepared.relies_on(key))
    }

    /// Keeps a transaction until it ends.
    pub fn prepare(&mut self, number: usize, mut transaction: Expected) {
        if !transaction.is_checked() {
            // One that only read locks nothing.
            transaction.found.clear();
            transaction.ranges.clear();
        }
        self.prepared.insert(number, transaction);
    }

    /// The transaction that was prepared as `number` ends.
    pub fn end(&mut self, number: usize) -> Option<Expected> {
        self.prepared.remove(&number)
    }

    /// The numbers of the transactions that are prepared.
    pub fn prepared(&self) -> impl Iterator<Item = usize> {
        self.prepared.keys().copied()
    }

    /// True when a commit since the view of `transaction` wrote what it relies on.
    fn has_changed(&self, transaction: &Expected) -> bool {
        let written = |view: usize| self.commits[view..].iter().flatten().map(|write| write.0);
        let is_taken = |(key, view): &(u8, usize)| written(*view).any(|other| other == *key);
        if transaction.locked.iter().any(is_taken) {
            return true;
        }
        if !transaction.level.has_one_view() || !transaction.is_checked() {
            return false;
        }
        let is_protected =
            |key| transaction.writes.contains_key(&key) || transaction.relies_on(key);
        written(transaction.view).any(is_protected)
    }
}

impl Expected {
    /// The keys written and read for update.
    fn owned(&self) -> impl Iterator<Item = u8> {
        let locked = self.locked.iter().map(|(key, _)| *key);
        self.writes.keys().copied().chain(locked)
    }

    fn owns(&self, key: u8) -> bool {
        self.owned().any(|other| other == key)
    }

    /// True when its level protects a read of `key`.
    fn relies_on(&self, key: u8) -> bool {
        match self.level {
            IsolationLevel::RepeatableRead => self.found.contains(&key),
            IsolationLevel::Serializable => self.ranges.iter().any(|range| range.contains(key)),
            _ => false,
        }
    }

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
    #[must_use]
    pub fn is_checked(&self) -> bool {
        !self.writes.is_empty() || !self.locked.is_empty()
    }
}
