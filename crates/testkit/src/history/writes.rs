//! Writes of a history: single ones, batches, and transactions that stay open over other operations.

use std::time::Duration;

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

impl Driver {
    pub(super) fn put(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 0, false);
        let family = &self.families[&name];
        self.db.put(
            &family.handle,
            &write.key,
            write.value.as_deref().unwrap_or_default(),
        )?;
        self.note(format!("put {name} {}", key_text(&write.key)));
        self.committed(&[write], None);
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 1, false);
        let mut transaction = self.db.begin()?;
        let family = &self.families[&name].handle;
        deletes::delete(&mut self.random, &mut transaction, family, &write.key)?;
        transaction.commit()?;
        self.note(format!("delete {name} {}", key_text(&write.key)));
        self.committed(&[write], None);
        Ok(())
    }

    pub(super) fn put_expiring(&mut self) -> Checked {
        let name = self.some_family();
        let write = self.some_write(&name, 0, true);
        let value = write.value.as_deref().unwrap_or_default();
        self.db.put_expiring(
            &self.families[&name].handle,
            &write.key,
            value,
            write.expires_at,
        )?;
        self.note(format!(
            "put {name} {} until {}",
            key_text(&write.key),
            write.expires_at
        ));
        self.committed(&[write], None);
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
            match &write.value {
                None => deletes::delete(&mut self.random, &mut transaction, family, &write.key)?,
                Some(value) if write.expires_at == 0 => {
                    transaction.put(family, &write.key, value)?
                }
                Some(value) => {
                    transaction.put_expiring(family, &write.key, value, write.expires_at)?;
                }
            }
            writes.push(write);
        }
        self.note(format!("batch of {count} to {names:?}, sync {sync:?}"));
        if self.random.one_in(20) {
            transaction.rollback()?;
            return Ok(());
        }
        let sequence = transaction.commit()?;
        self.check_sequence(sequence)?;
        self.committed(&writes, sync);
        Ok(())
    }

    /// A write of family `name`: a delete once in `delete_one_in` times (0 for never, 1 for always).
    fn some_write(&mut self, name: &str, delete_one_in: usize, is_expiring: bool) -> Write {
        let is_delete = delete_one_in != 0 && self.random.one_in(delete_one_in);
        let now_seconds = (self.env.unix_micros() / 1_000_000).cast_signed();
        let delay = *self.random.pick(&[-100, 3, 30, 300, 3_000]);
        Write {
            family: self.families[name].number,
            key: self.some_key(),
            value: (!is_delete).then(|| self.some_value()),
            expires_at: if is_expiring && !is_delete {
                (now_seconds + delay).max(1)
            } else {
                0
            },
        }
    }

    /// Tells the model of an acknowledged commit and raises the floor if the commit was a synced one.
    fn committed(&mut self, writes: &[Write], sync: Option<SyncMode>) {
        let commit = self.model.commit(writes);
        let is_full = |write: &Write| {
            self.families
                .values()
                .any(|family| family.number == write.family && family.sync == SyncMode::Full)
        };
        let is_durable = match sync {
            Some(mode) => mode == SyncMode::Full,
            None => writes.iter().any(is_full),
        };
        if is_durable {
            self.floor = commit;
        }
    }

    fn check_sequence(&mut self, sequence: SeqNo) -> Checked {
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
        let is_snapshot = options.isolation.has_one_view();
        let sync = options.sync;
        if is_snapshot && !self.snapshots.is_empty() && self.random.one_in(3) {
            return self.begin_at_snapshot(options);
        }
        self.note(format!("begin {:?}", options.isolation));
        let (transaction, clock) = world::timed(&self.env, || self.db.begin_with(options));
        self.epoch += 1;
        self.transactions.push(HeldTransaction {
            transaction: transaction?,
            is_snapshot,
            sync,
            commit: self.model.last_commit(),
            clock,
            epoch: self.epoch,
            writes: Vec::new(),
        });
        Ok(())
    }

    /// Begins at a snapshot that is held, which others may do as well.
    fn begin_at_snapshot(&mut self, options: TransactionOptions) -> Checked {
        let index = self.random.below(self.snapshots.len());
        self.note(format!("begin {:?} at snapshot {index}", options.isolation));
        let held = &self.snapshots[index];
        let sync = options.sync;
        self.transactions.push(HeldTransaction {
            transaction: self.db.begin_at(&held.snapshot, options)?,
            is_snapshot: true,
            sync,
            commit: held.commit,
            clock: held.clock,
            epoch: held.epoch,
            writes: Vec::new(),
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
            key_text(&write.key)
        ));
        let family = &self.families[&name].handle;
        let held = &mut self.transactions[index];
        match &write.value {
            None => deletes::delete(&mut self.random, &mut held.transaction, family, &write.key)?,
            Some(value) => {
                held.transaction
                    .put_expiring(family, &write.key, value, write.expires_at)?
            }
        }
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
            _ => self.commit_transaction(&mut held)?,
        }
        if self.random.one_in(2) {
            let (answer, clock) = world::timed(&self.env, || held.transaction.reset());
            answer?;
            self.epoch += 1;
            held.writes.clear();
            held.commit = self.model.last_commit();
            held.clock = clock;
            held.epoch = self.epoch;
            self.transactions.push(held);
        }
        Ok(())
    }

    fn commit_transaction(&mut self, held: &mut HeldTransaction) -> Checked {
        let is_behind =
            |write: &Write| self.model.written_at(write.family, &write.key) > held.commit;
        let is_conflict = held.is_snapshot && held.writes.iter().any(is_behind);
        self.note(format!(
            "transaction commits {} writes{}",
            held.writes.len(),
            if is_conflict { ", in conflict" } else { "" }
        ));
        match held.transaction.commit() {
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
