//! Runs operations against a database in one configuration.

use kingtide::{
    ColumnFamily, Db, Error, IsolationLevel, Iter, IterOptions, Options, Result, Snapshot,
    Transaction, TransactionOptions,
};
use kingtide_base::KeyOrder;
use kingtide_env::MemoryEnv;

use super::{
    answer::{Answer, Entry, spelling},
    clock,
    operation::{Bounds, Change, ChangeKind, From, Move, Operation, ReadKind, SLOTS, name_of},
    setting::Configuration,
    span::{arrange, arrange_bounds},
};
use crate::{
    dump::{DEFAULT_FAMILY, Dump},
    order::{OrderedKey, key_order},
    world,
};

/// A transaction and how many savepoints it has.
type Held = (Transaction, usize);

/// A database that a list is run against.
pub(crate) struct Engine<C> {
    configuration: C,
    env: MemoryEnv,
    options: Options,
    db: Db,
    tick: u64,
    copies: u64,
    transactions: [Option<Held>; SLOTS],
    snapshots: [Option<Snapshot>; SLOTS],
    iters: [Option<(Iter, String)>; SLOTS],
}

impl<C: Configuration> Engine<C> {
    /// The database in `env`.
    pub(crate) fn new(configuration: C, env: MemoryEnv) -> Result<Self> {
        let options = configuration.database(&env);
        Ok(Self {
            configuration,
            db: Db::open(world::DATABASE, options.clone())?,
            env,
            options,
            tick: 0,
            copies: 0,
            transactions: Default::default(),
            snapshots: Default::default(),
            iters: Default::default(),
        })
    }

    /// Switches the machine off, so that the threads of the database end.
    pub(crate) fn power_off(&self) {
        world::power_off(&self.env);
        let _ = self.db.close();
    }

    /// Closes the database.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.let_go();
        self.snapshots = Default::default();
        self.db.close()
    }

    fn let_go(&mut self) {
        self.transactions = Default::default();
        self.iters = Default::default();
    }

    /// Runs operation number `number`. There is something under each number that it names.
    pub(crate) fn perform(&mut self, number: u64, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Create(name, comparator) => {
                let options = self.configuration.family(number, comparator);
                self.db.create_family(&name_of(*name), options)?;
            }
            Operation::Drop(name) => {
                self.let_go();
                self.db.drop_family(&name_of(*name))?;
            }
            Operation::Rename(from, to) => {
                self.db.rename_family(&name_of(*from), &name_of(*to))?;
            }
            Operation::Clone(from, to) => {
                self.db.clone_family(&name_of(*from), &name_of(*to))?;
            }
            Operation::Write(changes, level) => self.write(number, changes, *level)?,
            Operation::Get(from, family, keys, kind) => {
                return self.get(*from, *family, keys, *kind);
            }
            Operation::Contains(from, family, key) => return self.contains(*from, *family, key),
            Operation::Scan(from, family, bounds, is_backward) => {
                let family = self.family(*family)?;
                let mut iter = self.iter(*from, &family, bounds)?;
                let comparator = family.options().comparator;
                return Ok(Answer::Entries(sweep(
                    &mut iter,
                    &comparator,
                    *is_backward,
                )?));
            }
            Operation::OpenIter(slot, from, family, bounds) => {
                let family = self.family(*family)?;
                let iter = self.iter(*from, &family, bounds)?;
                self.iters[*slot] = Some((iter, family.options().comparator));
            }
            Operation::Moves(slot, moves) => return self.move_iter(*slot, moves),
            Operation::Begin(..)
            | Operation::Buffer(..)
            | Operation::Save(_)
            | Operation::Restore(_)
            | Operation::Commit(_)
            | Operation::Rollback(_)
            | Operation::Prepare(..) => self.transact(number, operation)?,
            Operation::EndPrepared(pick, is_commit) => {
                self.end_prepared(number, *pick, *is_commit)?
            }
            Operation::ListPrepared => {
                let list = self.db.prepared()?.into_iter();
                let listed = list.map(|prepared| (prepared.xid, prepared.operation_count));
                return Ok(Answer::Prepared(listed.collect()));
            }
            Operation::Snapshot(slot) => self.snapshots[*slot] = Some(self.db.snapshot()?),
            Operation::Release(slot) => self.snapshots[*slot] = None,
            Operation::BulkLoad(family, entries) => self.bulk_load(*family, entries)?,
            Operation::Reopen => return self.reopen().map(Answer::All),
            Operation::Copy(is_bytewise) => return self.copy(*is_bytewise).map(Answer::All),
            operation => self.maintain(number, operation)?,
        }
        Ok(Answer::Done)
    }

    fn maintain(&mut self, number: u64, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Flush(family, false) => self.db.flush(&self.family(*family)?),
            Operation::Flush(family, true) => self.db.flush_background(&self.family(*family)?),
            Operation::Compact(family) => self.db.compact(&self.family(*family)?),
            Operation::CompactRange(family, bounds) => {
                let family = self.family(*family)?;
                let (lower, upper) = arrange_bounds(&order_of(&family), bounds);
                self.db
                    .compact_range(&family, lower.as_deref(), upper.as_deref())
            }
            Operation::ChangeSettings(family) => {
                let family = self.family(*family)?;
                let comparator = family.options().comparator;
                let options = self.configuration.family(number, &comparator);
                self.db
                    .update_family_options(&family, options, number.is_multiple_of(2))
            }
            Operation::Advance(ticks) => {
                self.tick += ticks;
                self.env.advance(clock::duration(*ticks));
                Ok(())
            }
            Operation::Rest => self.db.wait_idle(),
            Operation::SyncWal => self.db.sync_wal(),
            Operation::Verify => {
                let report = self.db.verify(&mut |_, _| {})?;
                assert!(report.damages.is_empty(), "damage: {:?}", report.damages);
                Ok(())
            }
            operation => unreachable!("{operation:?} is dealt with by perform"),
        }
    }

    fn family(&self, number: usize) -> Result<ColumnFamily> {
        self.db.family(&name_of(number))
    }

    fn transaction(&self, slot: usize) -> &Transaction {
        let held = self.transactions[slot].as_ref();
        &held.expect("the naive database has it").0
    }

    fn snapshot(&self, slot: usize) -> &Snapshot {
        let held = self.snapshots[slot].as_ref();
        held.expect("the naive database has it")
    }

    /// How a transaction is made: its mode is the setting's business.
    fn transaction_options(&self, number: u64, isolation: IsolationLevel) -> TransactionOptions {
        TransactionOptions {
            isolation,
            sync: self.configuration.sync(number),
            ..TransactionOptions::default()
        }
    }

    fn write(&self, number: u64, changes: &[Change], level: IsolationLevel) -> Result<()> {
        if let [change] = changes {
            let family = self.family(change.family)?;
            // Calls of their own for single writes, where there are.
            match &change.kind {
                ChangeKind::Put(value, None) => {
                    return self.db.put(&family, &change.key, value);
                }
                ChangeKind::Put(value, Some(ticks)) => {
                    let expires_at = clock::expiry(self.tick, *ticks);
                    return self
                        .db
                        .put_expiring(&family, &change.key, value, expires_at);
                }
                ChangeKind::Delete => return self.db.delete(&family, &change.key),
                ChangeKind::SingleDelete => return self.db.single_delete(&family, &change.key),
                ChangeKind::DeleteRange(_) => {}
            }
        }
        let mut transaction = self
            .db
            .begin_with(self.transaction_options(number, level))?;
        for change in changes {
            self.apply(&mut transaction, change)?;
        }
        transaction.commit().map(drop)
    }

    fn apply(&self, transaction: &mut Transaction, change: &Change) -> Result<()> {
        let family = self.family(change.family)?;
        match &change.kind {
            ChangeKind::Put(value, None) => transaction.put(&family, &change.key, value),
            ChangeKind::Put(value, Some(ticks)) => {
                let expires_at = clock::expiry(self.tick, *ticks);
                transaction.put_expiring(&family, &change.key, value, expires_at)
            }
            ChangeKind::Delete => transaction.delete(&family, &change.key),
            ChangeKind::SingleDelete => transaction.single_delete(&family, &change.key),
            ChangeKind::DeleteRange(other) => {
                match arrange(&order_of(&family), &change.key, other) {
                    Some((start, end)) => transaction.delete_range(&family, &start, &end),
                    None => transaction.delete(&family, &change.key),
                }
            }
        }
    }

    fn get(
        &mut self,
        from: From,
        family: usize,
        keys: &[Vec<u8>],
        kind: ReadKind,
    ) -> Result<Answer> {
        let family = self.family(family)?;
        let values = match (from, keys) {
            (From::Newest, [key]) => {
                let value = self.db.get(&family, key)?;
                // What the buffer holds before makes no difference.
                let mut held = key.clone();
                let is_there = self.db.get_into(&family, key, &mut held)?;
                vec![same(value, is_there.then_some(held))]
            }
            (From::Newest, keys) => self.db.multi_get(&family, keys)?,
            (From::Snapshot(slot), [key]) => vec![self.snapshot(slot).get(&family, key)?],
            (From::Snapshot(slot), keys) => self.snapshot(slot).multi_get(&family, keys)?,
            (From::Transaction(slot), [key]) => vec![match kind {
                ReadKind::Tracked => {
                    let transaction = self.transaction(slot);
                    let value = transaction.get(&family, key)?;
                    let looked = transaction.get_with(&family, key, <[u8]>::to_vec)?;
                    same(value, looked)
                }
                ReadKind::Untracked => {
                    let transaction = self.transaction(slot);
                    let value = transaction.get_untracked(&family, key)?;
                    let looked = transaction.get_untracked_with(&family, key, <[u8]>::to_vec)?;
                    same(value, looked)
                }
                ReadKind::ForUpdate => {
                    let held = self.transactions[slot].as_mut();
                    let (transaction, _) = held.expect("the naive database has it");
                    transaction.get_for_update(&family, key)?
                }
            }],
            (From::Transaction(slot), keys) => self.transaction(slot).multi_get(&family, keys)?,
        };
        let bytes = |value: Option<kingtide::Value>| value.map(|value| value.to_vec());
        Ok(Answer::Values(values.into_iter().map(bytes).collect()))
    }

    fn contains(&self, from: From, family: usize, key: &[u8]) -> Result<Answer> {
        let family = self.family(family)?;
        let found = match from {
            From::Newest => self.db.contains(&family, key)?,
            From::Snapshot(slot) => self.snapshot(slot).contains(&family, key)?,
            From::Transaction(slot) => self.transaction(slot).contains(&family, key)?,
        };
        Ok(Answer::Found(found))
    }

    fn iter(&self, from: From, family: &ColumnFamily, bounds: &Bounds) -> Result<Iter> {
        let (lower, upper) = arrange_bounds(&order_of(family), bounds);
        let options = IterOptions {
            lower,
            upper,
            ..IterOptions::default()
        };
        match from {
            From::Newest => self.db.iter(family, options),
            From::Snapshot(slot) => self.snapshot(slot).iter(family, options),
            From::Transaction(slot) => self.transaction(slot).iter(family, options),
        }
    }

    fn move_iter(&mut self, slot: usize, moves: &[Move]) -> Result<Answer> {
        let held = self.iters[slot].as_mut();
        let (iter, comparator) = held.expect("the naive database has it");
        let mut positions = Vec::with_capacity(moves.len());
        for step in moves {
            let is_valid = match step {
                Move::First => iter.seek_to_first()?,
                Move::Last => iter.seek_to_last()?,
                Move::Seek(key) => iter.seek(key)?,
                Move::SeekForPrev(key) => iter.seek_for_prev(key)?,
                // An iterator that stands nowhere has no neighbours.
                Move::Next => iter.is_valid() && iter.next()?,
                Move::Prev => iter.is_valid() && iter.prev()?,
            };
            positions.push(match is_valid {
                true => Some(entry(iter, comparator)?),
                false => None,
            });
        }
        Ok(Answer::Positions(positions))
    }

    fn transact(&mut self, number: u64, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Begin(slot, level, snapshot) => {
                let options = self.transaction_options(number, *level);
                let transaction = match snapshot {
                    Some(snapshot) => self.db.begin_at(self.snapshot(*snapshot), options)?,
                    None => self.db.begin_with(options)?,
                };
                self.transactions[*slot] = Some((transaction, 0));
                Ok(())
            }
            Operation::Buffer(slot, change) => {
                let mut held = self.take(*slot);
                let outcome = self.apply(&mut held.0, change);
                self.transactions[*slot] = Some(held);
                outcome
            }
            Operation::Save(slot) => {
                let mut held = self.take(*slot);
                held.1 += 1;
                let outcome = held.0.savepoint(&format!("s{}", held.1));
                self.transactions[*slot] = Some(held);
                outcome
            }
            Operation::Restore(slot) => {
                let mut held = self.take(*slot);
                let outcome = held.0.rollback_to(&format!("s{}", held.1));
                held.1 -= 1;
                self.transactions[*slot] = Some(held);
                outcome
            }
            Operation::Commit(slot) => self.take(*slot).0.commit().map(drop),
            Operation::Rollback(slot) => self.take(*slot).0.rollback(),
            Operation::Prepare(slot, xid) => self.take(*slot).0.prepare(xid),
            operation => unreachable!("{operation:?} is none of a transaction"),
        }
    }

    fn take(&mut self, slot: usize) -> Held {
        let held = self.transactions[slot].take();
        held.expect("the naive database has it")
    }

    fn end_prepared(&self, number: u64, pick: usize, is_commit: bool) -> Result<()> {
        let mut list = self.db.prepared()?;
        let prepared = list.swap_remove(pick % list.len());
        if !is_commit {
            return self.db.rollback_prepared(&prepared.xid);
        }
        match self.configuration.sync(number) {
            Some(sync) => self.db.commit_prepared_with(&prepared.xid, sync)?,
            None => self.db.commit_prepared(&prepared.xid)?,
        };
        Ok(())
    }

    fn bulk_load(&self, family: usize, entries: &[Entry]) -> Result<()> {
        let family = self.family(family)?;
        let order = order_of(&family);
        let mut sorted: Vec<(OrderedKey, &Vec<u8>)> = entries
            .iter()
            .map(|(key, value)| (OrderedKey::new(&order, key), value))
            .collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted.dedup_by(|(later, _), (first, _)| later == first);
        let mut loader = self.db.bulk_load(&family)?;
        for (key, value) in sorted {
            loader.put(&key.bytes, value)?;
        }
        loader.finish().map(drop)
    }

    fn reopen(&mut self) -> Result<Dump> {
        self.close()?;
        self.db = Db::open(world::DATABASE, self.options.clone())?;
        dump(&self.db)
    }

    fn copy(&mut self, is_bytewise: bool) -> Result<Dump> {
        self.copies += 1;
        let path = format!("/copy{}", self.copies);
        if is_bytewise {
            self.db.backup(&path, &mut |_, _| {})?;
        } else {
            self.db.checkpoint(&path)?;
        }
        let options = Options {
            read_only: true,
            ..self.options.clone()
        };
        let copy = Db::open(&path, options)?;
        let found = dump(&copy)?;
        copy.close()?;
        Ok(found)
    }
}

fn order_of(family: &ColumnFamily) -> KeyOrder {
    key_order(&family.options().comparator)
}

/// Reads all families but the default one.
pub(crate) fn dump(db: &Db) -> Result<Dump> {
    let mut found = Dump::new();
    for name in db.families() {
        if name != DEFAULT_FAMILY {
            let family = db.family(&name)?;
            let mut iter = db.iter(&family, IterOptions::default())?;
            let entries = sweep(&mut iter, &family.options().comparator, false)?;
            found.insert(name, entries);
        }
    }
    Ok(found)
}

fn sweep(iter: &mut Iter, comparator: &str, is_backward: bool) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut is_valid = if is_backward {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    };
    while is_valid {
        entries.push(entry(iter, comparator)?);
        is_valid = if is_backward {
            iter.prev()?
        } else {
            iter.next()?
        };
    }
    Ok(entries)
}

fn entry(iter: &mut Iter, comparator: &str) -> Result<Entry> {
    let key = spelling(comparator, iter.key());
    Ok((key, iter.value()?.to_vec()))
}

/// What an outcome says, and the words of an error.
pub(crate) fn settled(outcome: Result<Answer>) -> (Answer, String) {
    match outcome {
        Ok(answer) => (answer, String::new()),
        Err(error) => (Answer::Refused(error.kind()), words(&error)),
    }
}

fn words(error: &Error) -> String {
    format!(" ({error})")
}

/// A value, which was looked at too.
fn same(value: Option<kingtide::Value>, looked: Option<Vec<u8>>) -> Option<kingtide::Value> {
    assert_eq!(value.as_deref(), looked.as_deref(), "looked at");
    value
}
