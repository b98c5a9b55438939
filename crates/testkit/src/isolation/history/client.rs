//! One thread of a session: random transactions, several of them open at a time, everything written down.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use kingtide::{
    ColumnFamily, Db, ErrorKind, IsolationLevel, Iter, IterOptions, SeqNo, SyncMode, Transaction,
    TransactionOptions,
};
use kingtide_env::give_way;

use super::{
    profile::{FAMILIES, Profile},
    record::{Ending, Key, Log, Number, Operation, Part, Record, Role, Span},
};
use crate::{
    isolation::LEVELS,
    random::Random,
    violation::{Checked, Violation, ensure},
};

/// What the threads of a session share.
pub struct Shared<'a> {
    /// The database.
    pub db: &'a Db,
    /// Its families.
    pub families: &'a [ColumnFamily; FAMILIES],
    /// The shape of the transactions.
    pub profile: &'a Profile,
    /// Where the stamps come from.
    pub stamps: AtomicU64,
    /// The largest sequence number that was acknowledged.
    pub acknowledged: AtomicU64,
    /// Transactions of this window that are still to begin.
    pub left: AtomicU64,
}

impl Shared<'_> {
    /// The beginning of a call.
    fn enter(&self) -> Span {
        Span {
            floor: self.acknowledged.load(Ordering::SeqCst),
            from: self.stamp(),
            to: 0,
        }
    }

    /// The end of a call.
    fn leave(&self, span: &mut Span) {
        span.to = self.stamp();
    }

    /// Notes a commit that has returned.
    fn acknowledge(&self, sequence: SeqNo) -> Ending {
        self.acknowledged.fetch_max(sequence.0, Ordering::SeqCst);
        Ending::Committed(sequence.0)
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::SeqCst)
    }

    /// Takes one of the transactions that are left.
    fn take(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
    }

    fn family(&self, key: Key) -> &ColumnFamily {
        &self.families[usize::from(key / self.profile.keys)]
    }
}

/// The bytes of a key. All have one length, so that every order of the tests sorts them by number.
#[must_use]
pub fn key_bytes(key: Key) -> [u8; 3] {
    let [high, low] = key.to_be_bytes();
    [b'k', high, low]
}

/// The number of a key.
///
/// # Errors
/// When it is none of ours.
pub fn key_number(bytes: &[u8]) -> Checked<Key> {
    match bytes {
        [b'k', high, low] => Ok(Key::from_be_bytes([*high, *low])),
        _ => Err(Violation::new(format!(
            "a key that nobody wrote: {bytes:?}"
        ))),
    }
}

/// The bytes of a value: its number, and for one in seven so much padding that they go to a value file.
#[must_use]
pub fn value_bytes(number: Number) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    if number.is_multiple_of(7) {
        bytes.resize(100, number as u8);
    }
    bytes
}

/// The number in a value.
///
/// # Errors
/// When it is not as it was written.
pub fn value_number(bytes: &[u8]) -> Checked<Number> {
    let number = bytes.first_chunk().copied().map(Number::from_le_bytes);
    match number {
        Some(number) if value_bytes(number) == bytes => Ok(number),
        _ => Err(Violation::new(format!(
            "a value that nobody wrote: {bytes:?}"
        ))),
    }
}

/// A thread with its open transactions.
pub struct Client<'a> {
    shared: &'a Shared<'a>,
    random: Random,
    slots: Vec<Slot>,
    log: Log,
}

/// One process: transactions that follow each other.
struct Slot {
    process: u32,
    written: u64,
    open: Option<Open>,
    waiting: Option<Waiting>,
    /// The log of the open transaction.
    log: Log,
}

/// A transaction that is prepared.
struct Waiting {
    xid: [u8; 8],
    level: IsolationLevel,
    begin: Span,
    prepared: Span,
}

/// An open transaction.
struct Open {
    transaction: Transaction,
    level: IsolationLevel,
    begin: Span,
    operations_left: usize,
    is_read_only: bool,
    has_savepoint: bool,
    walk: Option<Walk>,
}

/// An iterator that is used now and then.
struct Walk {
    iter: Iter,
    /// The read in the slot's log.
    operation: usize,
    bounds: Range<Key>,
    is_backwards: bool,
    is_positioned: bool,
    has_ended: bool,
    items: Vec<(Key, Number)>,
}

impl<'a> Client<'a> {
    /// The thread of that number.
    #[must_use]
    pub fn new(shared: &'a Shared<'a>, thread: usize, seed: u64) -> Self {
        let slot = |slot: usize| Slot {
            process: (thread * shared.profile.slots + slot) as u32 + 1,
            written: 0,
            open: None,
            waiting: None,
            log: Log::default(),
        };
        Self {
            shared,
            random: Random::new(seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9)),
            slots: (0..shared.profile.slots).map(slot).collect(),
            log: Log::default(),
        }
    }

    /// Runs transactions until none is left, and ends all it began. Answers what it wrote down.
    ///
    /// # Errors
    /// A call that fails with anything but a conflict. The other threads stop then, too.
    pub fn run(&mut self) -> Checked<Log> {
        let outcome = self.run_all();
        if outcome.is_err() {
            self.shared.left.store(0, Ordering::SeqCst);
        }
        outcome.map(|()| std::mem::take(&mut self.log))
    }

    fn run_all(&mut self) -> Checked {
        loop {
            let index = self.random.below(self.slots.len());
            let slot = &mut self.slots[index];
            if slot.waiting.is_some() {
                slot.finish(self.shared, &mut self.random, &mut self.log)?;
            } else if slot.open.is_some() {
                slot.step(self.shared, &mut self.random, &mut self.log)?;
            } else if self.shared.take() {
                slot.begin(self.shared, &mut self.random)?;
            } else if self.slots.iter().all(Slot::is_idle) {
                return Ok(());
            }
            if self.random.one_in(64) {
                give_way();
            }
            self.tidy_up()?;
        }
    }

    /// Now and then a flush or a merge, so that transactions find their keys in other places at the end than before.
    fn tidy_up(&mut self) -> Checked {
        if self.random.one_in(8_000) {
            let family = self.random.pick(self.shared.families);
            self.shared.db.flush(family)?;
        }
        if self.random.one_in(40_000) {
            let family = self.random.pick(self.shared.families);
            self.shared.db.compact(family)?;
        }
        Ok(())
    }
}

impl Slot {
    const fn is_idle(&self) -> bool {
        self.open.is_none() && self.waiting.is_none()
    }

    fn begin(&mut self, shared: &Shared<'_>, random: &mut Random) -> Checked {
        let profile = shared.profile;
        let level = profile.level.unwrap_or_else(|| *random.pick(&LEVELS));
        let is_synced = random.one_in(profile.synced_one_in);
        let mut begin = shared.enter();
        let transaction = shared.db.begin_with(TransactionOptions {
            isolation: level,
            sync: is_synced.then_some(SyncMode::Full),
            ..TransactionOptions::default()
        })?;
        shared.leave(&mut begin);
        self.open = Some(Open {
            transaction,
            level,
            begin,
            operations_left: random.between(1, profile.operations_max),
            is_read_only: random.one_in(5),
            has_savepoint: false,
            walk: None,
        });
        Ok(())
    }

    /// The next operation of the open transaction, or its end.
    fn step(&mut self, shared: &Shared<'_>, random: &mut Random, log: &mut Log) -> Checked {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if open.operations_left == 0 {
            return self.end(shared, random, open, log);
        }
        open.operations_left -= 1;
        let key = any_key(shared.profile, random);
        match random.below(100) {
            0..30 => self.get(shared, &open, key)?,
            30..36 => self.multi_get(shared, random, &open, key)?,
            36..48 => self.scan(shared, random, &open)?,
            48..60 => self.walk(shared, random, &mut open)?,
            _ if open.is_read_only => self.get(shared, &open, key)?,
            60..70 => {
                self.get(shared, &open, key)?;
                self.put(shared, &mut open, key)?;
            }
            70..84 => self.put(shared, &mut open, key)?,
            84..90 => self.delete(shared, &mut open, key)?,
            90..94 => self.get_for_update(shared, &mut open, key)?,
            _ if shared.profile.is_plain => self.put(shared, &mut open, key)?,
            94 | 95 => self.clear(shared, random, &mut open)?,
            96 | 97 => self.peek(shared, &open, key)?,
            _ => self.save_or_undo(&mut open)?,
        }
        self.open = Some(open);
        Ok(())
    }

    fn put(&mut self, shared: &Shared<'_>, open: &mut Open, key: Key) -> Checked {
        self.written += 1;
        let number = u64::from(self.process) << 40 | self.written;
        let value = value_bytes(number);
        open.transaction
            .put(shared.family(key), &key_bytes(key), &value)?;
        self.log
            .operations
            .push(Operation::Write(key, Some(number)));
        Ok(())
    }

    fn delete(&mut self, shared: &Shared<'_>, open: &mut Open, key: Key) -> Checked {
        if shared.profile.is_plain {
            return self.put(shared, open, key);
        }
        open.transaction
            .delete(shared.family(key), &key_bytes(key))?;
        self.log.operations.push(Operation::Write(key, None));
        Ok(())
    }

    fn get(&mut self, shared: &Shared<'_>, open: &Open, key: Key) -> Checked {
        let mut span = shared.enter();
        let value = open.transaction.get(shared.family(key), &key_bytes(key))?;
        shared.leave(&mut span);
        let number = value.map(|value| value_number(&value)).transpose()?;
        self.note_read(span, Role::Plain, [Part::Point(key, number)]);
        Ok(())
    }

    fn peek(&mut self, shared: &Shared<'_>, open: &Open, key: Key) -> Checked {
        let mut span = shared.enter();
        let family = shared.family(key);
        let value = open.transaction.get_untracked(family, &key_bytes(key))?;
        shared.leave(&mut span);
        let number = value.map(|value| value_number(&value)).transpose()?;
        self.note_read(span, Role::Untracked, [Part::Point(key, number)]);
        Ok(())
    }

    fn get_for_update(&mut self, shared: &Shared<'_>, open: &mut Open, key: Key) -> Checked {
        let mut span = shared.enter();
        let family = shared.family(key);
        let value = open.transaction.get_for_update(family, &key_bytes(key))?;
        shared.leave(&mut span);
        let number = value.map(|value| value_number(&value)).transpose()?;
        self.note_read(span, Role::ForUpdate, [Part::Point(key, number)]);
        Ok(())
    }

    fn clear(&mut self, shared: &Shared<'_>, random: &mut Random, open: &mut Open) -> Checked {
        let keys = any_range(shared.profile, random);
        let (start, end) = (key_bytes(keys.start), key_bytes(keys.end));
        open.transaction
            .delete_range(shared.family(keys.start), &start, &end)?;
        self.log.operations.push(Operation::Clear(keys));
        Ok(())
    }

    fn save_or_undo(&mut self, open: &mut Open) -> Checked {
        let operation = if open.has_savepoint {
            open.transaction.rollback_to("here")?;
            Operation::Undo
        } else {
            open.transaction.savepoint("here")?;
            Operation::Save
        };
        open.has_savepoint = !open.has_savepoint;
        self.log.operations.push(operation);
        Ok(())
    }

    fn multi_get(
        &mut self,
        shared: &Shared<'_>,
        random: &mut Random,
        open: &Open,
        first: Key,
    ) -> Checked {
        let profile = shared.profile;
        let start = first / profile.keys * profile.keys;
        let mut keys = vec![first];
        for _ in 0..random.between(1, 3) {
            keys.push(start + any_key(profile, random) % profile.keys);
        }
        let bytes: Vec<[u8; 3]> = keys.iter().map(|key| key_bytes(*key)).collect();
        let mut span = shared.enter();
        let values = open.transaction.multi_get(shared.family(first), &bytes)?;
        shared.leave(&mut span);
        ensure(values.len() == keys.len(), || {
            "a multi_get that leaves keys out".to_owned()
        })?;
        let mut parts = Vec::new();
        for (key, value) in keys.into_iter().zip(values) {
            let number = value.map(|value| value_number(&value)).transpose()?;
            parts.push(Part::Point(key, number));
        }
        self.note_read(span, Role::Plain, parts);
        Ok(())
    }

    fn note_read(&mut self, span: Span, role: Role, parts: impl IntoIterator<Item = Part>) {
        let start = self.log.parts.len();
        self.log.parts.extend(parts);
        let parts = start..self.log.parts.len();
        self.log
            .operations
            .push(Operation::Read { span, parts, role });
    }

    /// Creates an iterator and reads all or a part of its range.
    fn scan(&mut self, shared: &Shared<'_>, random: &mut Random, open: &Open) -> Checked {
        let mut walk = self.open_walk(shared, random, open)?;
        let steps = if random.one_in(4) {
            random.below(4)
        } else {
            usize::MAX
        };
        walk.go(random, steps)?;
        self.note_walk(walk);
        Ok(())
    }

    /// Creates an iterator to be used later, or goes on with the one there is.
    fn walk(&mut self, shared: &Shared<'_>, random: &mut Random, open: &mut Open) -> Checked {
        match open.walk.take() {
            None => open.walk = Some(self.open_walk(shared, random, open)?),
            Some(mut walk) => {
                let steps = random.between(1, 4);
                walk.go(random, steps)?;
                if walk.has_ended || random.one_in(4) {
                    self.note_walk(walk);
                } else {
                    open.walk = Some(walk);
                }
            }
        }
        Ok(())
    }

    fn open_walk(
        &mut self,
        shared: &Shared<'_>,
        random: &mut Random,
        open: &Open,
    ) -> Checked<Walk> {
        let bounds = any_range(shared.profile, random);
        let options = IterOptions {
            lower: Some(key_bytes(bounds.start).to_vec()),
            upper: Some(key_bytes(bounds.end).to_vec()),
            ..IterOptions::default()
        };
        let mut span = shared.enter();
        let iter = open
            .transaction
            .iter(shared.family(bounds.start), options)?;
        shared.leave(&mut span);
        let operation = self.log.operations.len();
        self.note_read(span, Role::Plain, []);
        Ok(Walk {
            iter,
            operation,
            bounds,
            is_backwards: random.one_in(2),
            is_positioned: false,
            has_ended: false,
            items: Vec::new(),
        })
    }

    /// Writes down what an iterator read, where it was created.
    fn note_walk(&mut self, mut walk: Walk) {
        let Some(keys) = walk.covered() else {
            return;
        };
        if walk.is_backwards {
            walk.items.reverse();
        }
        let start = self.log.items.len();
        self.log.items.append(&mut walk.items);
        let part = self.log.parts.len();
        let items = start..self.log.items.len();
        self.log.parts.push(Part::Range(keys, items));
        if let Operation::Read { parts, .. } = &mut self.log.operations[walk.operation] {
            *parts = part..part + 1;
        }
    }

    fn end(
        &mut self,
        shared: &Shared<'_>,
        random: &mut Random,
        mut open: Open,
        log: &mut Log,
    ) -> Checked {
        if let Some(walk) = open.walk.take() {
            self.note_walk(walk);
        }
        let mut end = shared.enter();
        let ending = match random.below(20) {
            0 => {
                open.transaction.rollback()?;
                Ending::RolledBack
            }
            1 => {
                // Numbers of writes only grow, so no name comes twice. A transaction without writes takes one, too.
                self.written += 1;
                let xid = (u64::from(self.process) << 40 | self.written).to_be_bytes();
                if committed(open.transaction.prepare(&xid))?.is_some() {
                    shared.leave(&mut end);
                    self.waiting = Some(Waiting {
                        xid,
                        level: open.level,
                        begin: open.begin,
                        prepared: end,
                    });
                    return Ok(());
                }
                Ending::Conflict
            }
            _ => committed(open.transaction.commit())?
                .map_or(Ending::Conflict, |sequence| shared.acknowledge(sequence)),
        };
        shared.leave(&mut end);
        self.note((open.level, open.begin, None), (end, ending), log);
        Ok(())
    }

    /// Leaves a prepared transaction as it is for a while, then ends it.
    fn finish(&mut self, shared: &Shared<'_>, random: &mut Random, log: &mut Log) -> Checked {
        let Some(waiting) = self.waiting.take_if(|_| random.one_in(3)) else {
            return Ok(());
        };
        let mut end = shared.enter();
        let ending = if random.one_in(5) {
            shared.db.rollback_prepared(&waiting.xid)?;
            Ending::RolledBack
        } else {
            shared.acknowledge(shared.db.commit_prepared(&waiting.xid)?)
        };
        shared.leave(&mut end);
        let begin = (waiting.level, waiting.begin, Some(waiting.prepared));
        self.note(begin, (end, ending), log);
        Ok(())
    }

    /// Writes down a transaction that has ended.
    fn note(
        &mut self,
        (level, begin, prepared): (IsolationLevel, Span, Option<Span>),
        (end, ending): (Span, Ending),
        log: &mut Log,
    ) {
        self.log.records.push(Record {
            process: self.process,
            level,
            begin,
            operations: 0..self.log.operations.len(),
            prepared,
            end,
            ending,
        });
        log.append(&mut self.log);
    }
}

/// What a commit answered; nothing when it was a conflict.
fn committed<T>(outcome: kingtide::Result<T>) -> Checked<Option<T>> {
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Walk {
    /// Goes on for so many entries, or to the end.
    fn go(&mut self, random: &mut Random, steps: usize) -> Checked {
        for _ in 0..steps {
            if self.has_ended {
                break;
            }
            let is_valid = if self.is_positioned {
                if self.is_backwards {
                    self.iter.prev()?
                } else {
                    self.iter.next()?
                }
            } else {
                self.is_positioned = true;
                self.position(random)?
            };
            if is_valid {
                let number = value_number(self.iter.value()?)?;
                self.items.push((key_number(self.iter.key())?, number));
            } else {
                self.has_ended = true;
            }
        }
        Ok(())
    }

    /// Goes to the first entry of the direction, or seeks somewhere between the bounds.
    fn position(&mut self, random: &mut Random) -> Checked<bool> {
        if random.one_in(3) {
            let length = usize::from(self.bounds.end - self.bounds.start);
            let target = self.bounds.start + random.below(length) as Key;
            if self.is_backwards {
                self.bounds.end = target + 1;
                return Ok(self.iter.seek_for_prev(&key_bytes(target))?);
            }
            self.bounds.start = target;
            return Ok(self.iter.seek(&key_bytes(target))?);
        }
        Ok(if self.is_backwards {
            self.iter.seek_to_last()?
        } else {
            self.iter.seek_to_first()?
        })
    }

    /// The keys about which the iterator has told something: from where it began to where it stands, or to the end.
    fn covered(&self) -> Option<Range<Key>> {
        let bounds = self.bounds.clone();
        match (self.has_ended, self.items.last()) {
            (true, _) => Some(bounds),
            (false, None) => None,
            (false, Some((last, _))) if self.is_backwards => Some(*last..bounds.end),
            (false, Some((last, _))) => Some(bounds.start..*last + 1),
        }
    }
}

/// A range of keys of one family, often around hot ones.
fn any_range(profile: &Profile, random: &mut Random) -> Range<Key> {
    let start = any_key(profile, random);
    let beyond = (start / profile.keys + 1) * profile.keys;
    let length = random.between(1, usize::from(profile.scan_max)) as Key;
    start..(start + length).min(beyond)
}

/// Half of the time one of the hot keys, of any family.
fn any_key(profile: &Profile, random: &mut Random) -> Key {
    let most = if random.one_in(2) {
        profile.hot_keys
    } else {
        profile.keys
    };
    let family = random.below(FAMILIES) as Key;
    family * profile.keys + random.below(usize::from(most)) as Key
}
