//! Reads of a history: newest state, snapshots, transactions, and iterators that stay open.

use kingtide::{Iter, IterOptions, Result, Value};

use super::{
    driver::{Driver, HELD_MAX, HeldIter, HeldSnapshot, key_text},
    walk::{Move, Walk},
};
use crate::{
    model::{Expected, Write},
    violation::{Checked, Violation},
    world,
};

/// Moves of one iterator in a row.
const MOVES_MAX: usize = 30;

impl Driver {
    pub(super) fn get(&mut self) -> Checked {
        let name = self.some_family();
        let key = self.some_key();
        self.note(format!("get {name} {}", key_text(&key)));
        let family = &self.families[&name];
        let (answer, clock) = world::timed(&self.env, || self.db.get(&family.handle, &key));
        let expected = self.model.get(family.number, &key, u64::MAX, clock);
        expected.check(answer?.as_deref(), || {
            format!("get {name} {}", key_text(&key))
        })
    }

    pub(super) fn multi_get(&mut self) -> Checked {
        let name = self.some_family();
        let keys: Vec<Vec<u8>> = (0..self.random.below(12))
            .map(|_| self.some_key())
            .collect();
        self.note(format!("multi_get {name} of {} keys", keys.len()));
        let family = &self.families[&name];
        let (answer, clock) = world::timed(&self.env, || self.db.multi_get(&family.handle, &keys));
        let expected = |key: &Vec<u8>| self.model.get(family.number, key, u64::MAX, clock);
        check_many(&keys, answer, expected)
    }

    pub(super) fn contains(&mut self) -> Checked {
        let name = self.some_family();
        let key = self.some_key();
        self.note(format!("contains {name} {}", key_text(&key)));
        let family = &self.families[&name];
        let (answer, clock) = world::timed(&self.env, || self.db.contains(&family.handle, &key));
        let expected = self.model.get(family.number, &key, u64::MAX, clock);
        check_contains(expected, answer?)
    }

    pub(super) fn iterate(&mut self) -> Checked {
        let name = self.some_family();
        let options = self.some_bounds(&name);
        self.note(format!("iterate {name}, {options:?}"));
        let family = &self.families[&name];
        let (iter, clock) =
            world::timed(&self.env, || self.db.iter(&family.handle, options.clone()));
        let entries = self.model.entries(family.number, u64::MAX, clock, &[]);
        let walk = Walk::new(self.model.order(family.number), entries, &options);
        self.follow(iter?, walk)
    }

    /// Walks: all the way in one direction, or back and forth.
    fn follow(&mut self, mut iter: Iter, mut walk: Walk) -> Checked {
        match self.random.below(4) {
            0 => sweep(&mut iter, &mut walk, &Move::First, &Move::Next),
            1 => sweep(&mut iter, &mut walk, &Move::Last, &Move::Prev),
            _ => {
                for _ in 0..self.random.between(1, MOVES_MAX) {
                    let step = self.some_move(&walk);
                    walk.step(&mut iter, &step)?;
                }
                Ok(())
            }
        }
    }

    fn some_move(&mut self, walk: &Walk) -> Move {
        let kinds = if walk.is_positioned() { 16 } else { 5 };
        match self.random.below(kinds) {
            0 => Move::First,
            1 => Move::Last,
            2 | 3 => Move::Seek(self.some_key()),
            4 => Move::SeekForPrev(self.some_key()),
            5..=10 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn some_bounds(&mut self, name: &str) -> IterOptions {
        let mut options = IterOptions::default();
        if self.random.one_in(3) {
            options.lower = Some(self.some_key());
        }
        if self.random.one_in(3) {
            options.upper = Some(self.some_key());
        }
        if self.families[name].comparator == "memcmp" && self.random.one_in(4) {
            let mut prefix = self.some_key();
            let length = self.random.between(1, prefix.len());
            prefix.truncate(length);
            options.prefix = Some(prefix);
        }
        options
    }

    pub(super) fn read_transaction(&mut self, index: usize, name: &str) -> Checked {
        let key = self.some_key();
        let options = self.some_bounds(name);
        // What walks add to what is remembered is left to other proofs.
        let is_walk = self.random.one_in(4) && !self.transactions[index].remembers(true);
        self.note(format!(
            "transaction {index} reads {name} {}",
            key_text(&key)
        ));
        let family = &self.families[name];
        let held = &self.transactions[index];
        let order = self.model.order(family.number);
        let view = |clock| {
            if held.isolation.has_one_view() {
                (held.commit, held.clock)
            } else {
                (u64::MAX, clock)
            }
        };
        if is_walk {
            let (iter, clock) = world::timed(&self.env, || {
                held.transaction.iter(&family.handle, options.clone())
            });
            let (commit, clock) = view(clock);
            let entries = self
                .model
                .entries(family.number, commit, clock, &held.writes);
            return self.follow(iter?, Walk::new(order, entries, &options));
        }
        let (answer, clock) =
            world::timed(&self.env, || held.transaction.get(&family.handle, &key));
        let (commit, clock) = view(clock);
        let is_own = |write: &&Write| write.family == family.number && write.concerns(&order, &key);
        let own = held.writes.iter().rev().find(is_own);
        let expected = own.map_or_else(
            || self.model.get(family.number, &key, commit, clock),
            |write| write.expected(clock),
        );
        let answer = answer?;
        expected.check(answer.as_deref(), || {
            format!("get {name} {} in a transaction", key_text(&key))
        })?;
        if own.is_none() && held.remembers(answer.is_some()) {
            let family = family.number;
            self.transactions[index].reads.push((family, key));
        }
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self) -> Checked {
        if self.snapshots.len() >= HELD_MAX {
            return Ok(());
        }
        self.note("snapshot");
        self.epoch += 1;
        let name = self
            .random
            .one_in(3)
            .then(|| format!("snapshot {}", self.epoch));
        let (snapshot, clock) = world::timed(&self.env, || match &name {
            Some(name) => self.db.named_snapshot(name),
            None => self.db.snapshot(),
        });
        self.snapshots.push(HeldSnapshot {
            snapshot: snapshot?,
            commit: self.model.last_commit(),
            clock,
            epoch: self.epoch,
        });
        Ok(())
    }

    pub(super) fn drop_snapshot(&mut self) -> Checked {
        if !self.snapshots.is_empty() {
            let index = self.random.below(self.snapshots.len());
            self.snapshots.swap_remove(index);
            self.note("snapshot dropped");
        }
        Ok(())
    }

    pub(super) fn read_snapshot(&mut self) -> Checked {
        if self.snapshots.is_empty() {
            return self.take_snapshot();
        }
        let index = self.random.below(self.snapshots.len());
        let name = self.some_family();
        if self.families[&name].epoch > self.snapshots[index].epoch {
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = (0..self.random.between(1, 8))
            .map(|_| self.some_key())
            .collect();
        let options = self.some_bounds(&name);
        self.note(format!(
            "snapshot {index} reads {name} {}",
            key_text(&keys[0])
        ));
        let choice = self.random.below(4);
        let held = &self.snapshots[index];
        let family = &self.families[&name];
        let expected = |key: &Vec<u8>| self.model.get(family.number, key, held.commit, held.clock);
        match choice {
            0 => {
                let iter = held.snapshot.iter(&family.handle, options.clone())?;
                let entries = self
                    .model
                    .entries(family.number, held.commit, held.clock, &[]);
                let walk = Walk::new(self.model.order(family.number), entries, &options);
                self.follow(iter, walk)
            }
            1 => check_many(
                &keys,
                held.snapshot.multi_get(&family.handle, &keys),
                expected,
            ),
            2 => check_contains(
                expected(&keys[0]),
                held.snapshot.contains(&family.handle, &keys[0])?,
            ),
            _ => {
                let answer = held.snapshot.get(&family.handle, &keys[0])?;
                expected(&keys[0]).check(answer.as_deref(), || {
                    format!("get {name} {} through a snapshot", key_text(&keys[0]))
                })
            }
        }
    }

    pub(super) fn open_iter(&mut self) -> Checked {
        if self.iters.len() >= HELD_MAX {
            let index = self.random.below(self.iters.len());
            self.iters.swap_remove(index);
            return Ok(());
        }
        let name = self.some_family();
        let options = self.some_bounds(&name);
        self.note(format!("open an iterator of {name}, {options:?}"));
        let family = &self.families[&name];
        let (iter, clock) =
            world::timed(&self.env, || self.db.iter(&family.handle, options.clone()));
        let entries = self.model.entries(family.number, u64::MAX, clock, &[]);
        self.iters.push(HeldIter {
            iter: iter?,
            family: family.number,
            walk: Walk::new(self.model.order(family.number), entries, &options),
        });
        Ok(())
    }

    pub(super) fn step_iter(&mut self) -> Checked {
        if self.iters.is_empty() {
            return self.open_iter();
        }
        let index = self.random.below(self.iters.len());
        let mut held = self.iters.swap_remove(index);
        let step = self.some_move(&held.walk);
        self.note(format!("held iterator moves {step:?}"));
        held.walk
            .step(&mut held.iter, &step)
            .map_err(|violation| violation.within("held iterator"))?;
        self.iters.push(held);
        Ok(())
    }
}

fn sweep(iter: &mut Iter, walk: &mut Walk, first: &Move, next: &Move) -> Checked {
    walk.step(iter, first)?;
    while walk.is_positioned() {
        walk.step(iter, next)?;
    }
    Ok(())
}

fn check_many<'a>(
    keys: &'a [Vec<u8>],
    answer: Result<Vec<Option<Value>>>,
    expected: impl Fn(&'a Vec<u8>) -> Expected<'a>,
) -> Checked {
    let answer = answer?;
    if answer.len() != keys.len() {
        return Err(Violation::new(format!(
            "multi_get of {} keys answered {} values",
            keys.len(),
            answer.len()
        )));
    }
    for (key, found) in keys.iter().zip(&answer) {
        expected(key).check(found.as_deref(), || format!("multi_get {}", key_text(key)))?;
    }
    Ok(())
}

fn check_contains(expected: Expected<'_>, found: bool) -> Checked {
    match (expected, found) {
        (Expected::Absent, true) => Err(Violation::new("contains answers true for a missing key")),
        (Expected::Present(_), false) => Err(Violation::new("contains answers false for a key")),
        _ => Ok(()),
    }
}
