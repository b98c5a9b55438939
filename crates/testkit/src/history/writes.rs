//! Writes of a history: single ones, batches, and transactions that stay open over other operations.

use std::{cmp::Ordering, time::Duration};

use kingtide::{ErrorKind, SyncMode, TransactionOptions};
use kingtide_base::SeqNo;
use kingtide_env::Env;

use super::{
    deletes, draw,
    driver::{Driver, HELD_MAX, HeldTransaction, key_text},
};
use crate::{
    model::Write,
    violation::{Checked, Violation, ensure},
    world,
};

/// The keys of a write, for messages.
fn write_text(write: &Write) -> String {
    match &write.end {
        None => key_text(&write.key),
        Some(end) => format!("{} to {}", key_text(&write.key), key_text(end)),
    }
}

impl Driver {
    pub(super) fn put(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 0, false);
        let family = &self.families[&name];
        let outcome = self.db.put(
            &family.handle,
            &write.key,
            write.value.as_deref().unwrap_or_default(),
        );
        self.note(format!("put {name} {}", key_text(&write.key)));
        let writes = [write];
        if self.settle(outcome, &writes)?.is_some() {
            self.committed(&writes, None);
        }
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 1, false);
        let mut transaction = self.db.begin()?;
        let family = &self.families[&name].handle;
        deletes::apply(&mut self.random, &mut transaction, family, &write)?;
        let outcome = transaction.commit();
        self.note(format!("delete {name} {}", write_text(&write)));
        let writes = [write];
        if self.settle(outcome, &writes)?.is_some() {
            self.committed(&writes, None);
        }
        Ok(())
    }

    pub(super) fn put_expiring(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 0, true);
        let value = write.value.as_deref().unwrap_or_default();
        let outcome = self.db.put_expiring(
            &self.families[&name].handle,
            &write.key,
            value,
            write.expires_at,
        );
        self.note(format!(
            "put {name} {} until {}",
            key_text(&write.key),
            write.expires_at
        ));
        let writes = [write];
        if self.settle(outcome, &writes)?.is_some() {
            self.committed(&writes, None);
        }
        Ok(())
    }

    pub(super) fn batch(&mut self) -> Checked {
        let count = self.random.between(1, 20);
        self.write_batch(count)
    }

    pub(super) fn large_batch(&mut self) -> Checked {
        let count = self.random.between(32, 300);
        self.write_batch(count)
    }

    fn write_batch(&mut self, count: usize) -> Checked {
        let options = draw::transaction_options(&mut self.random);
        let sync = options.sync;
        let mut transaction = self.db.begin_with(options)?;
        let names: Vec<String> = (0..self.random.between(1, 3))
            .map(|_| self.some_family())
            .collect();
        let mut writes = Vec::new();
        for _ in 0..count {
            let name = self.random.pick(&names).clone();
            let is_expiring = self.random.one_in(15);
            let write = self.some_write(&name, 4, is_expiring);
            let family = &self.families[&name].handle;
            deletes::apply(&mut self.random, &mut transaction, family, &write)?;
            writes.push(write);
        }
        self.note(format!("batch of {count} to {names:?}, sync {sync:?}"));
        if self.random.one_in(20) {
            transaction.rollback()?;
            return Ok(());
        }
        let outcome = transaction.commit();
        if let Some(sequence) = self.settle(outcome, &writes)? {
            self.check_sequence(sequence)?;
            self.committed(&writes, sync);
        }
        Ok(())
    }

    /// A write of family `name`: a delete once in `delete_one_in` times (0 for never, 1 for always), some of them of a
    /// range.
    pub(super) fn some_write(
        &mut self,
        name: &str,
        delete_one_in: usize,
        is_expiring: bool,
    ) -> Write {
        let is_delete = delete_one_in != 0 && self.random.one_in(delete_one_in);
        let now_seconds = (self.env.unix_micros() / 1_000_000).cast_signed();
        let delay = *self.random.pick(&[-100, 3, 30, 300, 3_000]);
        let mut key = self.some_key();
        let mut end = None;
        if is_delete && self.random.one_in(4) {
            let order = self.model.order(self.families[name].number);
            let other = self.some_key();
            end = match order.compare(&key, &other) {
                Ordering::Less => Some(other),
                Ordering::Equal => None,
                Ordering::Greater => Some(std::mem::replace(&mut key, other)),
            };
        }
        let mut value = (!is_delete).then(|| self.some_value());
        let mut expires_at = 0;
        if let Some(value) = value.as_mut().filter(|_| is_expiring) {
            expires_at = (now_seconds + delay).max(1);
            // Recovery shows values and not their expiry: with an equal value below it, nobody could tell whether this
            // write survived before it expires.
            value.extend_from_slice(
                format!(" until {expires_at}, {}", self.tally.operations).as_bytes(),
            );
        }
        Write {
            family: self.families[name].number,
            key,
            end,
            value,
            expires_at,
        }
    }

    /// Tells the model of an acknowledged commit and raises the floor if the commit was a synced one.
    pub(super) fn committed(&mut self, writes: &[Write], sync: Option<SyncMode>) {
        let commit = self.model.commit(writes);
        if self.is_durable(writes, sync) {
            self.floor = commit;
        }
    }

    /// True when a commit of `writes` in this mode is synced before it is acknowledged.
    pub(super) fn is_durable(&self, writes: &[Write], sync: Option<SyncMode>) -> bool {
        let is_full = |write: &Write| {
            self.families
                .values()
                .any(|family| family.number == write.family && family.sync == SyncMode::Full)
        };
        match sync {
            Some(mode) => mode == SyncMode::Full,
            None => writes.iter().any(is_full),
        }
    }

    pub(super) fn check_sequence(&mut self, sequence: SeqNo) -> Checked {
        let last = std::mem::replace(&mut self.last_sequence, sequence);
        ensure(sequence > last, || {
            format!("a commit has sequence number {sequence}, the one before has {last}")
        })
    }

    pub(super) fn begin(&mut self) -> Checked {
        if self.transactions.len() >= HELD_MAX {
            return Ok(());
        }
        let options = draw::transaction_options(&mut self.random);
        let (isolation, sync) = (options.isolation, options.sync);
        if isolation.has_one_view() && !self.snapshots.is_empty() && self.random.one_in(3) {
            return self.begin_at_snapshot(options);
        }
        self.note(format!("begin {:?}", options.isolation));
        let (transaction, clock) = world::timed(&self.env, || self.db.begin_with(options));
        self.epoch += 1;
        self.transactions.push(HeldTransaction {
            transaction: transaction?,
            isolation,
            sync,
            commit: self.model.last_commit(),
            clock,
            epoch: self.epoch,
            writes: Vec::new(),
            reads: Vec::new(),
        });
        Ok(())
    }

    /// Begins at a snapshot that is held, which others may do as well.
    fn begin_at_snapshot(&mut self, options: TransactionOptions) -> Checked {
        let index = self.random.below(self.snapshots.len());
        self.note(format!("begin {:?} at snapshot {index}", options.isolation));
        let held = &self.snapshots[index];
        let (isolation, sync) = (options.isolation, options.sync);
        self.transactions.push(HeldTransaction {
            transaction: self.db.begin_at(&held.snapshot, options)?,
            isolation,
            sync,
            commit: held.commit,
            clock: held.clock,
            epoch: held.epoch,
            writes: Vec::new(),
            reads: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn step_transaction(&mut self) -> Checked {
        let Some(index) = self.some_transaction() else {
            return self.begin();
        };
        let name = self.some_family();
        if self.families[&name].epoch > self.transactions[index].epoch {
            return Ok(());
        }
        if self.random.one_in(2) {
            return self.read_transaction(index, &name);
        }
        let is_expiring = self.random.one_in(10);
        let write = self.some_write(&name, 4, is_expiring);
        self.note(format!(
            "transaction {index} writes {name} {}",
            write_text(&write)
        ));
        let family = &self.families[&name].handle;
        let held = &mut self.transactions[index];
        deletes::apply(&mut self.random, &mut held.transaction, family, &write)?;
        held.writes.push(write);
        let count = held.transaction.operation_count();
        ensure(count == held.writes.len(), || {
            format!(
                "operation_count answers {count} after {} writes",
                held.writes.len()
            )
        })
    }

    pub(super) fn some_transaction(&mut self) -> Option<usize> {
        let count = self.transactions.len();
        (count > 0).then(|| self.random.below(count))
    }

    pub(super) fn end_transaction(&mut self) -> Checked {
        let Some(index) = self.some_transaction() else {
            return Ok(());
        };
        let mut held = self.transactions.swap_remove(index);
        match self.random.below(6) {
            0 => {
                self.note("transaction dropped");
                return Ok(());
            }
            1 => {
                self.note("transaction rolled back");
                held.transaction.rollback()?;
            }
            2 if self.prepare_held(&mut held)? => {}
            _ => self.commit_transaction(&mut held)?,
        }
        if self.random.one_in(2) {
            let (answer, clock) = world::timed(&self.env, || held.transaction.reset());
            answer?;
            self.epoch += 1;
            held.writes.clear();
            held.reads.clear();
            held.commit = self.model.last_commit();
            held.clock = clock;
            held.epoch = self.epoch;
            self.transactions.push(held);
        }
        Ok(())
    }

    fn commit_transaction(&mut self, held: &mut HeldTransaction) -> Checked {
        let is_behind = |write: &Write| self.model.concerned_at(write) > held.commit;
        let is_stale =
            |(family, key): &(_, Vec<u8>)| self.model.written_at(*family, key) > held.commit;
        let is_conflict = held.isolation.has_one_view()
            && !held.writes.is_empty()
            && (held.writes.iter().any(is_behind) || held.reads.iter().any(is_stale));
        self.note(format!(
            "transaction commits {} writes{}",
            held.writes.len(),
            if is_conflict { ", in conflict" } else { "" }
        ));
        let is_locked = self.is_locked(&held.writes);
        match held.transaction.commit() {
            Ok(_) if is_locked => Err(Violation::new(
                "a transaction wrote what a prepared one has locked",
            )),
            Ok(sequence) => {
                ensure(!is_conflict, || "a lost update was committed".to_owned())?;
                if held.writes.is_empty() {
                    return ensure(sequence == SeqNo::ZERO, || {
                        format!("a commit without writes has sequence number {sequence}")
                    });
                }
                self.check_sequence(sequence)?;
                self.committed(&held.writes, held.sync);
                Ok(())
            }
            Err(error) if is_conflict && error.kind() == ErrorKind::Conflict => {
                self.tally.conflicts += 1;
                Ok(())
            }
            Err(error) if is_locked && error.kind() == ErrorKind::Conflict => {
                self.tally.locked += 1;
                Ok(())
            }
            Err(error) => Err(Violation::from(error).within("commit")),
        }
    }

    pub(super) fn advance_clock(&mut self) -> Checked {
        let seconds = *self.random.pick(&[1, 5, 50, 500]);
        self.note(format!("{seconds} seconds pass"));
        self.env.advance(Duration::from_secs(seconds));
        Ok(())
    }
}
