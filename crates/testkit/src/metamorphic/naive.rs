//! What every configuration must answer: the operations run against the naive [`Model`].
//!
//! Transactions follow the table of `isolation/hermitage/oracle.rs`, over keys and ranges of any order. Where the manual
//! leaves open what happens (a transaction or snapshot that is older than a family that it reads), and where nothing is
//! under a number, there is no answer, and the operation is left out everywhere.

use std::collections::BTreeMap;

use kingtide::{ErrorKind, IsolationLevel};

use super::{
    answer::{Answer, Entry, spelling},
    clock,
    operation::{Bounds, Change, ChangeKind, From, Move, Operation, ReadKind, SLOTS, name_of},
    span::{Span, arrange, arrange_bounds, within},
};
use crate::{
    dump::Dump,
    model::{Expected, FamilyNumber, Model, Write},
    order::OrderedKey,
};

/// A moment: the commits that are visible, and the clock.
#[derive(Clone, Copy, Debug)]
struct View {
    commit: u64,
    tick: u64,
    epoch: u64,
}

#[derive(Clone, Debug)]
struct Held {
    level: IsolationLevel,
    view: View,
    writes: Vec<Write>,
    /// The number of writes at each savepoint.
    saved: Vec<usize>,
    /// What its level promises to keep.
    read: Vec<Span>,
    /// What it read for update, and the newest commit then.
    locked: Vec<(Span, u64)>,
}

#[derive(Clone, Debug)]
struct Prepared {
    writes: Vec<Write>,
    owned: Vec<Span>,
    read: Vec<Span>,
}

#[derive(Clone, Debug)]
struct HeldIter {
    family: FamilyNumber,
    entries: Vec<(OrderedKey, Vec<u8>)>,
    position: Option<usize>,
}

/// The database as it should be.
#[derive(Default)]
pub(crate) struct Naive {
    model: Model,
    comparators: BTreeMap<FamilyNumber, &'static str>,
    /// When each family came, on the clock of `epoch`.
    created: BTreeMap<FamilyNumber, u64>,
    epoch: u64,
    tick: u64,
    transactions: [Option<Held>; SLOTS],
    snapshots: [Option<View>; SLOTS],
    iters: [Option<HeldIter>; SLOTS],
    prepared: BTreeMap<Vec<u8>, Prepared>,
}

impl Naive {
    /// Runs an operation. `None` when it is to be left out.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Option<Answer> {
        match operation {
            Operation::Create(..)
            | Operation::Drop(_)
            | Operation::Rename(..)
            | Operation::Clone(..) => Some(settled(self.change_families(operation))),
            Operation::Write(changes, _) => Some(settled(self.write(changes))),
            Operation::Get(from, family, keys, kind) => self.get(*from, *family, keys, *kind),
            Operation::Contains(from, family, key) => {
                let (number, view, own) = match self.reader(*from, *family)? {
                    Ok(reader) => reader,
                    Err(kind) => return Some(Answer::Refused(kind)),
                };
                let found = self.find(number, key, view, &own).is_some();
                Some(Answer::Found(found))
            }
            Operation::Scan(from, family, bounds, is_backward) => {
                self.scan(*from, *family, bounds, *is_backward)
            }
            Operation::OpenIter(slot, from, family, bounds) => {
                self.open_iter(*slot, *from, *family, bounds)
            }
            Operation::Moves(slot, moves) => self.move_iter(*slot, moves),
            Operation::Begin(..)
            | Operation::Buffer(..)
            | Operation::Save(_)
            | Operation::Restore(_)
            | Operation::Commit(_)
            | Operation::Rollback(_)
            | Operation::Prepare(..)
            | Operation::EndPrepared(..) => self.transact(operation),
            Operation::ListPrepared => Some(Answer::Prepared(self.prepared())),
            Operation::Snapshot(slot) => {
                self.snapshots[*slot] = Some(self.now());
                Some(Answer::Done)
            }
            Operation::Release(slot) => self.snapshots[*slot].take().map(|_| Answer::Done),
            Operation::BulkLoad(family, entries) => Some(settled(self.bulk_load(*family, entries))),
            Operation::CompactRange(family, (None, None)) => {
                let refused = self.family(*family).err();
                Some(Answer::Refused(
                    refused.unwrap_or(ErrorKind::InvalidArgument),
                ))
            }
            Operation::Flush(family, _)
            | Operation::Compact(family)
            | Operation::CompactRange(family, _)
            | Operation::ChangeSettings(family) => {
                Some(settled(self.family(*family).map(|_| Answer::Done)))
            }
            Operation::Rest | Operation::SyncWal | Operation::Verify => Some(Answer::Done),
            Operation::Advance(ticks) => {
                self.tick += ticks;
                Some(Answer::Done)
            }
            Operation::Reopen => {
                self.let_go();
                self.snapshots = Default::default();
                Some(Answer::All(self.dump()))
            }
            Operation::Copy(_) => Some(Answer::All(self.dump())),
        }
    }

    /// The transactions that are prepared, and how many operations are in each.
    pub(crate) fn prepared(&self) -> Vec<(Vec<u8>, usize)> {
        let count = |(xid, prepared): (&Vec<u8>, &Prepared)| (xid.clone(), prepared.writes.len());
        self.prepared.iter().map(count).collect()
    }

    /// All that is there.
    pub(crate) fn dump(&self) -> Dump {
        let families = self.model.names().into_iter();
        families
            .filter_map(|name| {
                let number = self.model.family(&name)?;
                let entries = self.entries(number, self.now(), &[], &(None, None));
                Some((name, self.spelled(number, entries)))
            })
            .collect()
    }

    fn now(&self) -> View {
        View {
            commit: self.model.last_commit(),
            tick: self.tick,
            epoch: self.epoch,
        }
    }

    fn family(&self, number: usize) -> Result<FamilyNumber, ErrorKind> {
        self.model
            .family(&name_of(number))
            .ok_or(ErrorKind::NotFound)
    }

    /// Transactions and iterators end.
    fn let_go(&mut self) {
        self.transactions = Default::default();
        self.iters = Default::default();
    }

    fn change_families(&mut self, operation: &Operation) -> Result<Answer, ErrorKind> {
        match operation {
            Operation::Create(number, comparator) => {
                self.check_free(*number)?;
                let family = self.model.create(&name_of(*number), comparator);
                self.came(family, comparator);
            }
            Operation::Drop(number) => {
                self.let_go();
                let family = self.family(*number)?;
                self.check_unprepared(family)?;
                self.model.drop_family(&name_of(*number));
            }
            Operation::Rename(from, to) => {
                self.family(*from)?;
                if from != to {
                    self.check_free(*to)?;
                    self.model.rename(&name_of(*from), &name_of(*to));
                }
            }
            Operation::Clone(from, to) => {
                let source = self.family(*from)?;
                if from == to {
                    return Err(ErrorKind::InvalidArgument);
                }
                self.check_free(*to)?;
                let family = self.model.clone_family(&name_of(*from), &name_of(*to));
                self.came(family.unwrap_or(source), self.comparators[&source]);
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    fn came(&mut self, family: FamilyNumber, comparator: &'static str) {
        self.epoch += 1;
        self.created.insert(family, self.epoch);
        self.comparators.insert(family, comparator);
    }

    fn check_free(&self, number: usize) -> Result<(), ErrorKind> {
        match self.family(number) {
            Ok(_) => Err(ErrorKind::AlreadyExists),
            Err(_) => Ok(()),
        }
    }

    /// Nothing of the family is locked.
    fn check_unprepared(&self, family: FamilyNumber) -> Result<(), ErrorKind> {
        let mut spans = self
            .prepared
            .values()
            .flat_map(|prepared| prepared.owned.iter().chain(&prepared.read));
        if spans.any(|span| span.family == family) {
            return Err(ErrorKind::Busy);
        }
        Ok(())
    }

    fn writes_of(&self, change: &Change) -> Result<Write, ErrorKind> {
        let family = self.family(change.family)?;
        let mut write = Write {
            family,
            key: change.key.clone(),
            end: None,
            value: None,
            expires_at: 0,
        };
        match &change.kind {
            ChangeKind::Put(value, ticks) => {
                write.value = Some(value.clone());
                write.expires_at = ticks.map_or(0, |ticks| clock::expiry(self.tick, ticks));
            }
            ChangeKind::Delete | ChangeKind::SingleDelete => {}
            ChangeKind::DeleteRange(other) => {
                let order = self.model.order(family);
                if let Some((start, end)) = arrange(&order, &change.key, other) {
                    write.key = start;
                    write.end = Some(end);
                }
            }
        }
        Ok(write)
    }

    fn write(&mut self, changes: &[Change]) -> Result<Answer, ErrorKind> {
        let writes: Result<Vec<Write>, ErrorKind> = changes
            .iter()
            .map(|change| self.writes_of(change))
            .collect();
        let writes = writes?;
        let spans: Vec<Span> = writes.iter().map(Span::of_write).collect();
        self.check_locks(&spans)?;
        self.model.commit(&writes);
        Ok(Answer::Done)
    }

    fn bulk_load(&mut self, family: usize, entries: &[Entry]) -> Result<Answer, ErrorKind> {
        let family = self.family(family)?;
        self.check_unprepared(family)?;
        let order = self.model.order(family);
        // Of equal keys the first is loaded.
        let mut sorted = BTreeMap::new();
        for (key, value) in entries {
            sorted.entry(OrderedKey::new(&order, key)).or_insert(value);
        }
        let writes: Vec<Write> = sorted
            .into_iter()
            .map(|(key, value)| Write {
                family,
                key: key.bytes,
                end: None,
                value: Some(value.clone()),
                expires_at: 0,
            })
            .collect();
        self.model.commit(&writes);
        Ok(Answer::Done)
    }

    /// Nothing that is to be written is locked by what is prepared.
    fn check_locks(&self, owned: &[Span]) -> Result<(), ErrorKind> {
        let mut held = self
            .prepared
            .values()
            .flat_map(|prepared| prepared.owned.iter().chain(&prepared.read));
        let is_locked = held.any(|held| {
            let order = self.model.order(held.family);
            owned.iter().any(|span| span.meets(held, &order))
        });
        if is_locked {
            return Err(ErrorKind::Conflict);
        }
        Ok(())
    }

    /// Which family, view and own writes a read goes by.
    #[expect(
        clippy::type_complexity,
        reason = "left out, refused, or the three things that a read goes by"
    )]
    fn reader(
        &self,
        from: From,
        family: usize,
    ) -> Option<Result<(FamilyNumber, View, Vec<Write>), ErrorKind>> {
        let (view, writes) = match from {
            From::Newest => (self.now(), Vec::new()),
            From::Snapshot(slot) => (self.snapshots[slot]?, Vec::new()),
            From::Transaction(slot) => {
                let held = self.transactions[slot].as_ref()?;
                let mut view = held.view;
                if !held.level.has_one_view() {
                    (view.commit, view.tick) = (self.model.last_commit(), self.tick);
                }
                (view, held.writes.clone())
            }
        };
        let number = match self.family(family) {
            Ok(number) => number,
            Err(kind) => return Some(Err(kind)),
        };
        if self.created[&number] > view.epoch {
            return None;
        }
        Some(Ok((number, view, writes)))
    }

    fn find(&self, family: FamilyNumber, key: &[u8], view: View, own: &[Write]) -> Option<Vec<u8>> {
        let clock = clock::span(view.tick);
        let expected = match own_write(&self.model, family, key, own) {
            Some(write) => write.expected(clock),
            None => self.model.get(family, key, view.commit, clock),
        };
        match expected {
            Expected::Absent => None,
            Expected::Present(value) | Expected::Either(value) => Some(value.to_vec()),
        }
    }

    fn get(
        &mut self,
        from: From,
        family: usize,
        keys: &[Vec<u8>],
        kind: ReadKind,
    ) -> Option<Answer> {
        let (number, view, own) = match self.reader(from, family)? {
            Ok(reader) => reader,
            Err(kind) => return Some(Answer::Refused(kind)),
        };
        let values: Vec<Option<Vec<u8>>> = keys
            .iter()
            .map(|key| self.find(number, key, view, &own))
            .collect();
        if let From::Transaction(slot) = from {
            let foreign: Vec<bool> = keys
                .iter()
                .map(|key| own_write(&self.model, number, key, &own).is_none())
                .collect();
            if let Some(held) = &mut self.transactions[slot] {
                for ((key, value), is_foreign) in keys.iter().zip(&values).zip(foreign) {
                    let span = Span::key(number, key);
                    match kind {
                        ReadKind::ForUpdate => held.locked.push((span, view.commit)),
                        ReadKind::Tracked if is_foreign && held.remembers(value.is_some()) => {
                            held.read.push(span);
                        }
                        _ => {}
                    }
                }
            }
        }
        Some(Answer::Values(values))
    }

    fn entries(
        &self,
        family: FamilyNumber,
        view: View,
        own: &[Write],
        bounds: &Bounds,
    ) -> Vec<(OrderedKey, Vec<u8>)> {
        let order = self.model.order(family);
        let clock = clock::span(view.tick);
        let entries = self.model.entries(family, view.commit, clock, own);
        entries
            .into_iter()
            .filter(|entry| within(&order, &entry.key.bytes, bounds))
            .map(|entry| (entry.key, entry.value))
            .collect()
    }

    fn spelled(&self, family: FamilyNumber, entries: Vec<(OrderedKey, Vec<u8>)>) -> Vec<Entry> {
        let comparator = self.comparators[&family];
        entries
            .into_iter()
            .map(|(key, value)| (spelling(comparator, &key.bytes), value))
            .collect()
    }

    fn scan(
        &mut self,
        from: From,
        family: usize,
        bounds: &Bounds,
        is_backward: bool,
    ) -> Option<Answer> {
        let (number, view, own) = match self.reader(from, family)? {
            Ok(reader) => reader,
            Err(kind) => return Some(Answer::Refused(kind)),
        };
        let bounds = arrange_bounds(&self.model.order(number), bounds);
        let mut entries = self.entries(number, view, &own, &bounds);
        if let From::Transaction(slot) = from {
            let foreign: Vec<Span> = entries
                .iter()
                .filter(|(key, _)| own_write(&self.model, number, &key.bytes, &own).is_none())
                .map(|(key, _)| Span::key(number, &key.bytes))
                .collect();
            if let Some(held) = &mut self.transactions[slot] {
                match held.level {
                    IsolationLevel::RepeatableRead => held.read.extend(foreign),
                    IsolationLevel::Serializable => held.read.push(Span::range(number, &bounds)),
                    _ => {}
                }
            }
        }
        if is_backward {
            entries.reverse();
        }
        Some(Answer::Entries(self.spelled(number, entries)))
    }

    fn open_iter(
        &mut self,
        slot: usize,
        from: From,
        family: usize,
        bounds: &Bounds,
    ) -> Option<Answer> {
        if let From::Transaction(slot) = from {
            // What single moves add to what is remembered is left to other proofs.
            if self.transactions[slot].as_ref()?.remembers(true) {
                return None;
            }
        }
        let (number, view, own) = match self.reader(from, family)? {
            Ok(reader) => reader,
            Err(kind) => return Some(Answer::Refused(kind)),
        };
        let bounds = arrange_bounds(&self.model.order(number), bounds);
        self.iters[slot] = Some(HeldIter {
            family: number,
            entries: self.entries(number, view, &own, &bounds),
            position: None,
        });
        Some(Answer::Done)
    }

    fn move_iter(&mut self, slot: usize, moves: &[Move]) -> Option<Answer> {
        let mut held = self.iters[slot].take()?;
        let comparator = self.comparators[&held.family];
        let order = self.model.order(held.family);
        let positions = moves
            .iter()
            .map(|step| {
                held.position = held.after(step, |key| OrderedKey::new(&order, key));
                let (key, value) = &held.entries[held.position?];
                Some((spelling(comparator, &key.bytes), value.clone()))
            })
            .collect();
        self.iters[slot] = Some(held);
        Some(Answer::Positions(positions))
    }

    fn transact(&mut self, operation: &Operation) -> Option<Answer> {
        match operation {
            Operation::Begin(slot, level, snapshot) => {
                let view = match snapshot {
                    Some(snapshot) => self.snapshots[*snapshot]?,
                    None => self.now(),
                };
                self.transactions[*slot] = Some(Held::new(*level, view));
            }
            Operation::Buffer(slot, change) => {
                let held = self.transactions[*slot].as_ref()?;
                let write = match self.writes_of(change) {
                    Ok(write) => write,
                    Err(kind) => return Some(Answer::Refused(kind)),
                };
                if self.created[&write.family] > held.view.epoch {
                    return None;
                }
                self.transactions[*slot].as_mut()?.writes.push(write);
            }
            Operation::Save(slot) => {
                let held = self.transactions[*slot].as_mut()?;
                held.saved.push(held.writes.len());
            }
            Operation::Restore(slot) => {
                let held = self.transactions[*slot].as_mut()?;
                held.writes.truncate(held.saved.pop()?);
            }
            Operation::Commit(slot) => {
                let held = self.transactions[*slot].take()?;
                if self.check_commit(&held).is_err() {
                    return Some(Answer::Refused(ErrorKind::Conflict));
                }
                if !held.writes.is_empty() {
                    self.model.commit(&held.writes);
                }
            }
            Operation::Rollback(slot) => drop(self.transactions[*slot].take()?),
            Operation::Prepare(slot, xid) => {
                let held = self.transactions[*slot].take()?;
                if self.check_prepare(&held).is_err() {
                    return Some(Answer::Refused(ErrorKind::Conflict));
                }
                self.prepared.insert(xid.clone(), held.into_prepared());
            }
            Operation::EndPrepared(pick, is_commit) => {
                let index = pick.checked_rem(self.prepared.len())?;
                let xid = self.prepared.keys().nth(index)?.clone();
                let prepared = self.prepared.remove(&xid)?;
                if *is_commit && !prepared.writes.is_empty() {
                    self.model.commit(&prepared.writes);
                }
            }
            _ => return None,
        }
        Some(Answer::Done)
    }

    fn check_commit(&self, held: &Held) -> Result<(), ErrorKind> {
        let is_stale = |(span, commit): &(Span, u64)| span.changed_at(&self.model) > *commit;
        if held.locked.iter().any(is_stale) {
            return Err(ErrorKind::Conflict);
        }
        if held.level.has_one_view() && held.is_checked() {
            let written = held.writes.iter().map(Span::of_write);
            let mut relied_on = written.chain(held.read.iter().cloned());
            if relied_on.any(|span| span.changed_at(&self.model) > held.view.commit) {
                return Err(ErrorKind::Conflict);
            }
        }
        self.check_locks(&held.owned())
    }

    fn check_prepare(&self, held: &Held) -> Result<(), ErrorKind> {
        self.check_commit(held)?;
        let mut owned = self.prepared.values().flat_map(|prepared| &prepared.owned);
        let is_read = owned.any(|owned| {
            let order = self.model.order(owned.family);
            held.read.iter().any(|span| span.meets(owned, &order))
        });
        if is_read && held.is_checked() {
            return Err(ErrorKind::Conflict);
        }
        Ok(())
    }
}

impl Held {
    fn new(level: IsolationLevel, view: View) -> Self {
        Self {
            level,
            view,
            writes: Vec::new(),
            saved: Vec::new(),
            read: Vec::new(),
            locked: Vec::new(),
        }
    }

    /// True when its level promises to keep a read that found its key, or did not.
    fn remembers(&self, is_found: bool) -> bool {
        match self.level {
            IsolationLevel::RepeatableRead => is_found,
            IsolationLevel::Serializable => true,
            _ => false,
        }
    }

    /// True when its end has something to check: one that only read has not.
    fn is_checked(&self) -> bool {
        !self.writes.is_empty() || !self.locked.is_empty()
    }

    fn owned(&self) -> Vec<Span> {
        let written = self.writes.iter().map(Span::of_write);
        let locked = self.locked.iter().map(|(span, _)| span.clone());
        written.chain(locked).collect()
    }

    fn into_prepared(self) -> Prepared {
        let is_checked = self.is_checked();
        Prepared {
            owned: self.owned(),
            read: if is_checked { self.read } else { Vec::new() },
            writes: self.writes,
        }
    }
}

impl HeldIter {
    fn after(&self, step: &Move, ordered: impl Fn(&[u8]) -> OrderedKey) -> Option<usize> {
        let count = self.entries.len();
        let at = match step {
            Move::First => 0,
            Move::Last => count.checked_sub(1)?,
            Move::Seek(key) => {
                let key = ordered(key);
                self.entries.partition_point(|(entry, _)| *entry < key)
            }
            Move::SeekForPrev(key) => {
                let key = ordered(key);
                let behind = self.entries.partition_point(|(entry, _)| *entry <= key);
                behind.checked_sub(1)?
            }
            Move::Next => self.position? + 1,
            Move::Prev => self.position?.checked_sub(1)?,
        };
        (at < count).then_some(at)
    }
}

/// The newest of `own` that decides about `key`.
fn own_write<'w>(
    model: &Model,
    family: FamilyNumber,
    key: &[u8],
    own: &'w [Write],
) -> Option<&'w Write> {
    let order = model.order(family);
    let mut newest_first = own.iter().rev();
    newest_first.find(|write| write.family == family && write.concerns(&order, key))
}

fn settled(outcome: Result<Answer, ErrorKind>) -> Answer {
    outcome.unwrap_or_else(Answer::Refused)
}
