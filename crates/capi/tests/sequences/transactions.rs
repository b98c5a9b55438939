//! Transactions, iterators, snapshots, two phases.

use std::{ffi::c_int, ptr};

use super::{
    bindings::{Handle, IterOptions, TxnOptions, c},
    model::{Change, Entries, FamilyNumber},
    session::{
        Kind, Life, OpenIterator, OpenSnapshot, OpenTransaction, Session, bytes_at, code, entry_of,
        free, last_message, name,
    },
};

/// Seconds since 1970 far from now.
const FAR: i64 = 1 << 40;

impl Session<'_> {
    /// Begins a transaction in a free slot, in one of the ways; a slot in use is reset, which works when it is finished.
    pub fn begin(&mut self) {
        let slot = self.transaction_slot();
        let level = c_int::from(self.input.byte() % 7) - 1;
        let is_level = (0..=4).contains(&level);
        if self.transactions[slot].is_some() {
            self.reset(slot, level);
            return;
        }
        let way = self.input.byte();
        let (mut txn, mut life) = (ptr::null_mut(), Life::Active);
        let mut model = self.model.begin(level);
        let answer = match way % 8 {
            0 => {
                model.level = 1;
                c!(tidesdb_txn_begin(self.db, &raw mut txn))
            }
            1..=4 => c!(tidesdb_txn_begin_with_isolation(
                self.db,
                level,
                &raw mut txn
            )),
            _ => {
                let mut options = TxnOptions::ZERO;
                options.set_word(0, 40);
                options.set_int(8, level);
                options.set_int(12, c_int::from(way >> 4) % 4 - 1);
                options.set_word(16, 1000);
                if way & 8 != 0 {
                    options.set_word(24, if way & 16 == 0 { 1 } else { u64::MAX });
                    life = Life::Doubtful;
                }
                let snapshot = self
                    .snapshots
                    .last()
                    .filter(|_| way & 32 != 0 && level >= 2);
                if let Some(snapshot) = snapshot {
                    options.set_word(32, snapshot.handle.addr() as u64);
                    model.view = snapshot.state.clone();
                }
                c!(kt_txn_begin(self.db, &raw const options, &raw mut txn))
            }
        };
        let what = format!("slot {slot}: begin in way {way} at level {level}");
        if way.is_multiple_of(8) || is_level {
            // A sync mode of an interval may be refused.
            self.check(&what, answer, &[code::SUCCESS, code::INVALID_ARGS]);
        } else {
            self.check(&what, answer, &[code::INVALID_ARGS]);
        }
        if answer != 0 {
            assert!(txn.is_null(), "a handle of a failure");
            return;
        }
        self.transactions_made += 1;
        self.transactions[slot] = Some(OpenTransaction {
            handle: txn,
            model,
            life,
            number: self.transactions_made,
        });
    }

    fn reset(&mut self, slot: usize, level: c_int) {
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let answer = c!(tidesdb_txn_reset(open.handle, level));
        let allowed: &[c_int] = match open.life {
            Life::Active => &[code::INVALID_ARGS],
            Life::Doubtful | Life::Aborted => &[code::SUCCESS, code::INVALID_ARGS],
            _ if (0..=4).contains(&level) => &[code::SUCCESS],
            _ => &[code::INVALID_ARGS],
        };
        self.check(
            &format!("slot {slot}: reset to level {level}"),
            answer,
            allowed,
        );
        if answer == 0 {
            self.end_iterators(open.number);
            self.transactions_made += 1;
            // An abort that came late may have been meant for the next life.
            let is_doubtful = self.aborts.iter().any(|(_, number)| *number == open.number);
            open.number = self.transactions_made;
            open.life = if is_doubtful {
                Life::Doubtful
            } else {
                Life::Active
            };
            open.model = self.model.begin(level);
        }
        self.transactions[slot] = Some(open);
    }

    fn end_iterators(&mut self, transaction: u64) {
        for open in self.iterators.iter_mut().flatten() {
            open.is_ended |= open.transaction == transaction;
        }
    }

    /// Does a write, and notes it in the model when it succeeds.
    fn write(&mut self, what: &str, change: Change, call: impl FnOnce(Handle, Handle) -> c_int) {
        let slot = self.transaction_slot();
        let Some((cf, family)) = self.family() else {
            return;
        };
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let answer = call(open.handle, cf);
        let allowed = open.life.answers();
        self.check(
            &format!("slot {slot}: {what} in family {family}"),
            answer,
            &allowed,
        );
        if answer == 0 {
            open.model.touched.insert(family);
            open.model.writes.push((family, change));
        }
        self.transactions[slot] = Some(open);
    }

    /// A put, also of what expired long ago, and of a value that is null.
    pub fn put(&mut self) {
        let (key, value) = (self.input.key(), self.input.value());
        let ttl = match self.input.byte() {
            0..=3 => 1,
            4..=15 => FAR,
            16..=23 => -1,
            _ => 0,
        };
        let stored = (ttl != 1).then(|| value.clone());
        let what = format!(
            "put {}*{} of {} until {ttl}",
            key[0],
            key.len(),
            value.len()
        );
        self.write(&what, Change::Key(key.clone(), stored), |txn, cf| {
            let place = if value.is_empty() {
                ptr::null()
            } else {
                value.as_ptr()
            };
            c!(tidesdb_txn_put(
                txn,
                cf,
                key.as_ptr(),
                key.len(),
                place,
                value.len(),
                ttl
            ))
        });
    }

    /// A delete of either kind.
    pub fn delete(&mut self) {
        let key = self.input.key();
        let is_single = self.input.byte() & 1 == 1;
        let what = format!("delete {}*{} single {is_single}", key[0], key.len());
        self.write(&what, Change::Key(key.clone(), None), |txn, cf| {
            if is_single {
                c!(tidesdb_txn_single_delete(txn, cf, key.as_ptr(), key.len()))
            } else {
                c!(tidesdb_txn_delete(txn, cf, key.as_ptr(), key.len()))
            }
        });
    }

    /// A delete of a range or of a prefix.
    pub fn delete_many(&mut self) {
        let (start, end) = (self.input.key(), self.input.key());
        if self.input.byte() & 1 == 1 {
            let what = format!("delete prefix {}*{}", start[0], start.len());
            self.write(&what, Change::Range(start.clone(), None), |txn, cf| {
                c!(kt_txn_delete_prefix(txn, cf, start.as_ptr(), start.len()))
            });
            return;
        }
        let (start, end) = if start <= end {
            (start, end)
        } else {
            (end, start)
        };
        let change = Change::Range(start.clone(), Some(end.clone()));
        let what = format!(
            "delete {}*{} to {}*{}",
            start[0],
            start.len(),
            end[0],
            end.len()
        );
        self.write(&what, change, |txn, cf| {
            c!(kt_txn_delete_range(
                txn,
                cf,
                start.as_ptr(),
                start.len(),
                end.as_ptr(),
                end.len()
            ))
        });
    }

    /// What a slot sees of a family, if that is known, and what a read may answer besides.
    fn seen(&self, open: &OpenTransaction, family: FamilyNumber) -> Option<Entries> {
        (open.life == Life::Active || open.life == Life::Doubtful)
            .then(|| self.model.seen(&open.model, family))
            .flatten()
    }

    /// A get in any of its ways.
    pub fn get(&mut self) {
        let (slot, key, way) = (
            self.transaction_slot(),
            self.input.key(),
            self.input.byte() % 8,
        );
        let Some((cf, family)) = self.family() else {
            return;
        };
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let (txn, bytes, size) = (open.handle, key.as_ptr(), key.len());
        let (mut value, mut value_size) = (ptr::null_mut(), 0);
        let (place, size_place) = (&raw mut value, &raw mut value_size);
        let answer = match way {
            0 => c!(tidesdb_txn_contains(txn, cf, bytes, size)),
            1 => c!(tidesdb_txn_get_notrack(
                txn, cf, bytes, size, place, size_place
            )),
            2 => c!(kt_txn_get_for_update(
                txn, cf, bytes, size, place, size_place
            )),
            _ => c!(tidesdb_txn_get(txn, cf, bytes, size, place, size_place)),
        };
        let expected = self
            .seen(&open, family)
            .map(|entries| entries.get(&key).cloned());
        let mut allowed = open.life.answers();
        let can_read = allowed.contains(&code::SUCCESS);
        if expected == Some(None) {
            allowed.retain(|answer| *answer != code::SUCCESS);
        }
        if can_read && !matches!(expected, Some(Some(_))) {
            allowed.push(code::NOT_FOUND);
        }
        // A lock that cannot be had is told at once, or by the commit.
        if way == 2 && can_read {
            allowed.push(code::CONFLICT);
        }
        let what = format!(
            "slot {slot}: get {}*{} in way {way} of family {family}",
            key[0],
            key.len()
        );
        self.check(&what, answer, &allowed);
        if can_read {
            open.model.touched.insert(family);
            open.model.has_locks |= way == 2;
        }
        if answer == 0 && way != 0 {
            let found = bytes_at(value, value_size);
            c!(tidesdb_free(value.cast()));
            if let Some(Some(expected)) = &expected {
                assert!(
                    found == *expected,
                    "{what}: {} bytes, expected {}",
                    found.len(),
                    expected.len()
                );
            }
        }
        self.transactions[slot] = Some(open);
    }

    /// Several keys at once, none and the same twice included.
    pub fn multi_get(&mut self) {
        let slot = self.transaction_slot();
        let count = self.input.below(5);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.input.key()).collect();
        let Some((cf, family)) = self.family() else {
            return;
        };
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let places: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let sizes: Vec<usize> = keys.iter().map(Vec::len).collect();
        let mut values = vec![ptr::null_mut(); count];
        let mut value_sizes = vec![0; count];
        let answer = c!(kt_txn_multi_get(
            open.handle,
            cf,
            count,
            places.as_ptr(),
            sizes.as_ptr(),
            values.as_mut_ptr(),
            value_sizes.as_mut_ptr()
        ));
        let mut allowed = open.life.answers();
        if count == 0 {
            allowed.extend([code::SUCCESS, code::INVALID_ARGS]);
        }
        self.check(
            &format!("slot {slot}: multi_get of {count} in {family}"),
            answer,
            &allowed,
        );
        if answer == 0 {
            open.model.touched.insert(family);
            let expected = self.seen(&open, family);
            for (index, key) in keys.iter().enumerate() {
                let value = values[index];
                let found = (!value.is_null()).then(|| bytes_at(value, value_sizes[index]));
                c!(tidesdb_free(value.cast()));
                if let Some(expected) = &expected {
                    assert!(
                        found.as_ref() == expected.get(key),
                        "multi_get: key {index} is wrong"
                    );
                }
            }
        }
        self.transactions[slot] = Some(open);
    }

    /// Commits, rolls back or frees.
    pub fn finish_transaction(&mut self) {
        let slot = self.transaction_slot();
        let way = self.input.byte() % 8;
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        match way {
            0 => {
                self.note(format!("slot {slot}: free"));
                free(Kind::Transaction, open.handle);
                self.freed.push((Kind::Transaction, open.handle));
                self.end_iterators(open.number);
                return;
            }
            1 => {
                let answer = c!(tidesdb_txn_rollback(open.handle));
                let is_late = open.life == Life::Finished;
                let expected = if is_late {
                    code::INVALID_ARGS
                } else {
                    code::SUCCESS
                };
                self.check(&format!("slot {slot}: rollback"), answer, &[expected]);
                if !is_late {
                    open.life = Life::RolledBack;
                }
            }
            _ => {
                let answer = c!(tidesdb_txn_commit(open.handle));
                self.check_commit(slot, &mut open, answer);
                if answer == 0 {
                    self.model.apply(&open.model.writes);
                }
            }
        }
        self.transactions[slot] = Some(open);
    }

    /// What a commit or a prepare may answer.
    fn check_commit(&mut self, slot: usize, open: &mut OpenTransaction, answer: c_int) {
        let mut allowed = open.life.answers();
        if matches!(open.life, Life::Active | Life::Doubtful) {
            let dead = |family: &FamilyNumber| !self.model.lives(*family);
            if self.model.must_conflict(&open.model) || open.model.written().iter().any(dead) {
                allowed.retain(|answer| *answer != code::SUCCESS);
            }
            if self.model.may_conflict(&open.model) {
                allowed.push(code::CONFLICT);
            }
            if open.model.touched.iter().any(dead) {
                allowed.push(code::NOT_FOUND);
            }
            open.life = if answer == 0 {
                Life::Finished
            } else {
                Life::RolledBack
            };
        } else if answer == code::INVALID_ARGS && open.life == Life::Aborted {
            open.life = Life::RolledBack;
        }
        self.check(&format!("slot {slot}: commit or prepare"), answer, &allowed);
        if answer == code::CONFLICT {
            let (mut family, mut key, mut size) = (ptr::null(), ptr::null(), 0);
            let is_known = c!(kt_last_conflict(
                &raw mut family,
                &raw mut key,
                &raw mut size
            ));
            assert!(is_known == 0 || !family.is_null() && !bytes_at(key, size).is_empty());
        }
    }

    /// Makes, goes back to or releases a savepoint.
    pub fn savepoint(&mut self) {
        let (slot, way) = (self.transaction_slot(), self.input.byte() % 4);
        let label = ["a", "b"][self.input.below(2)];
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let (txn, c_label) = (open.handle, name(label));
        let found = open
            .model
            .savepoints
            .iter()
            .position(|(name, _)| name == label);
        let mut allowed = open.life.answers();
        if way > 1 && found.is_none() && allowed.contains(&code::SUCCESS) {
            allowed = vec![code::INVALID_ARGS, code::NOT_FOUND];
        }
        let answer = match way {
            0 | 1 => c!(tidesdb_txn_savepoint(txn, c_label.as_ptr())),
            2 => c!(tidesdb_txn_rollback_to_savepoint(txn, c_label.as_ptr())),
            _ => c!(tidesdb_txn_release_savepoint(txn, c_label.as_ptr())),
        };
        self.check(
            &format!("slot {slot}: savepoint {label} in way {way}"),
            answer,
            &allowed,
        );
        let model = &mut open.model;
        match (answer, way, found) {
            (0, 0 | 1, _) => {
                model.savepoints.retain(|(name, _)| name != label);
                model
                    .savepoints
                    .push((label.to_owned(), model.writes.len()));
            }
            (0, 2, Some(index)) => {
                model.writes.truncate(model.savepoints[index].1);
                model.savepoints.truncate(index);
            }
            (0, _, Some(index)) => {
                model.savepoints.remove(index);
            }
            _ => {}
        }
        self.transactions[slot] = Some(open);
    }

    /// Prepares a transaction.
    pub fn prepare(&mut self) {
        let (slot, byte) = (self.transaction_slot(), self.input.byte());
        let xid = vec![byte; usize::from(byte % 4) + 1];
        let Some(mut open) = self.transactions[slot].take() else {
            return;
        };
        let before = open.life;
        let answer = c!(kt_txn_prepare(open.handle, xid.as_ptr(), xid.len()));
        let is_waiting = self.model.prepared.contains_key(&xid);
        let is_used =
            self.model.used_xids.contains(&xid) && before.answers().contains(&code::SUCCESS);
        if answer == code::EXISTS || is_waiting && answer == 0 {
            // The names of those that ended are known as long as the log tells them.
            let allowed: &[c_int] = if is_used { &[code::EXISTS] } else { &[] };
            self.check(&format!("slot {slot}: prepare, used name"), answer, allowed);
        } else {
            self.check_commit(slot, &mut open, answer);
        }
        if answer == 0 {
            self.model.used_xids.insert(xid.clone());
            self.model.prepared.insert(xid, open.model.writes.clone());
        }
        self.transactions[slot] = Some(open);
    }

    /// Commits or rolls back what is prepared, or lists it.
    pub fn end_prepared(&mut self) {
        let (way, byte) = (self.input.byte() % 3, self.input.byte());
        let xid = vec![byte; usize::from(byte % 4) + 1];
        if way == 0 {
            self.list_prepared();
            return;
        }
        let chosen = self
            .model
            .prepared
            .keys()
            .nth(usize::from(byte) % self.model.prepared.len().max(1));
        let xid = chosen.cloned().unwrap_or(xid);
        let writes = self.model.prepared.remove(&xid);
        let answer = if way == 1 {
            c!(kt_commit_prepared(self.db, xid.as_ptr(), xid.len()))
        } else {
            c!(kt_rollback_prepared(self.db, xid.as_ptr(), xid.len()))
        };
        let allowed: &[c_int] = match &writes {
            None => &[code::NOT_FOUND],
            Some(_) => &[code::SUCCESS],
        };
        self.check(&format!("end prepared in way {way}"), answer, allowed);
        if let Some(writes) = writes.filter(|_| way == 1) {
            self.model.apply(&writes);
        }
    }

    /// All that was prepared is listed, also after a reopening.
    pub fn list_prepared(&mut self) {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        let answer = c!(kt_recover_prepared(self.db, &raw mut list, &raw mut count));
        self.check("list prepared", answer, &[code::SUCCESS]);
        assert_eq!(count, self.model.prepared.len(), "prepared transactions");
        c!(kt_free_prepared(list, count));
    }

    /// Makes what a transaction is aborted with, aborts, or frees it.
    pub fn abort(&mut self) {
        let (slot, way) = (self.transaction_slot(), self.input.byte() % 4);
        if way < 2 {
            if let Some(open) = &self.transactions[slot] {
                let (txn, number, mut abort) = (open.handle, open.number, ptr::null_mut());
                let answer = c!(kt_txn_abort_handle(txn, &raw mut abort));
                self.check(
                    &format!("slot {slot}: abort handle"),
                    answer,
                    &[code::SUCCESS],
                );
                self.aborts.push((abort, number));
            }
        } else if let Some((abort, number)) = self.aborts.pop() {
            if way == 2 {
                let answer = c!(kt_abort(abort));
                self.check(
                    &format!("abort transaction {number}"),
                    answer,
                    &[code::SUCCESS],
                );
                self.note_abort(number);
            }
            free(Kind::Abort, abort);
            self.freed.push((Kind::Abort, abort));
        }
    }

    fn note_abort(&mut self, number: u64) {
        for open in self.transactions.iter_mut().flatten() {
            // It may be another life of the transaction that the handle was made for.
            open.life = match open.life {
                Life::Active if open.number == number => Life::Aborted,
                Life::Active => Life::Doubtful,
                other => other,
            };
        }
        for open in self.iterators.iter_mut().flatten() {
            open.entries = None;
        }
    }

    /// Makes a snapshot, finds one or frees one.
    pub fn snapshot(&mut self) {
        let way = self.input.byte() % 4;
        let label = (way != 0).then(|| name(["old", "older"][self.input.below(2)]));
        let label_place = label.as_ref().map_or(ptr::null(), |label| label.as_ptr());
        let same = self
            .snapshots
            .iter()
            .find(|open| label.is_some() && open.name == label);
        let known = same.map(|open| open.state.clone());
        let mut snapshot = ptr::null_mut();
        if way == 3 {
            if let Some(open) = self.snapshots.pop() {
                self.note("free a snapshot".to_owned());
                free(Kind::Snapshot, open.handle);
                self.freed.push((Kind::Snapshot, open.handle));
            }
            return;
        }
        if self.snapshots.len() >= 4 {
            return;
        }
        let (answer, state) = if way == 2 {
            let answer = c!(kt_snapshot_find(self.db, label_place, &raw mut snapshot));
            let expected = if known.is_some() {
                code::SUCCESS
            } else {
                code::NOT_FOUND
            };
            // A transaction may keep the snapshot alive that it began at.
            let allowed = if known.is_some() {
                vec![expected]
            } else {
                vec![expected, code::SUCCESS]
            };
            self.check("find a snapshot", answer, &allowed);
            (answer, known)
        } else {
            let answer = c!(kt_snapshot_create(self.db, label_place, &raw mut snapshot));
            let is_taken = label.is_some() && known.is_some();
            let allowed: &[c_int] = if is_taken {
                &[code::EXISTS]
            } else {
                &[code::SUCCESS, code::EXISTS]
            };
            self.check("make a snapshot", answer, allowed);
            (answer, Some(self.model.committed.clone()))
        };
        if answer == 0 {
            let sequence = c!(kt_snapshot_sequence(snapshot));
            self.note(format!("its sequence: {sequence}"));
            match state {
                Some(state) => self.snapshots.push(OpenSnapshot {
                    handle: snapshot,
                    state,
                    name: label,
                }),
                None => free(Kind::Snapshot, snapshot),
            }
        }
    }

    /// Opens an iterator, with bounds or without.
    pub fn open_iterator(&mut self) {
        let (slot, place) = (self.transaction_slot(), self.input.below(3));
        let way = self.input.byte() % 4;
        let (lower, upper) = (self.input.key(), self.input.key());
        let Some((cf, family)) = self.family() else {
            return;
        };
        let Some(open) = &mut self.transactions[slot] else {
            return;
        };
        let (txn, number) = (open.handle, open.number);
        open.model.touched.insert(family);
        let mut allowed = open.life.answers();
        let mut options = IterOptions::ZERO;
        options.set_word(0, 56);
        let mut iter = ptr::null_mut();
        let fields = [(way & 1 != 0, 8, &lower), (way & 2 != 0, 24, &upper)];
        for (_, offset, key) in fields.iter().filter(|(is_set, ..)| *is_set) {
            options.set_word(*offset, key.as_ptr().addr() as u64);
            options.set_word(offset + 8, key.len() as u64);
        }
        let answer = if way == 0 {
            c!(tidesdb_iter_new(txn, cf, &raw mut iter))
        } else {
            c!(kt_iter_new(txn, cf, &raw const options, &raw mut iter))
        };
        if way == 3 && lower > upper {
            allowed = vec![code::SUCCESS, code::INVALID_ARGS];
        }
        self.check(
            &format!("slot {slot}: iterator in place {place}, bounds {way}"),
            answer,
            &allowed,
        );
        if answer != 0 {
            return;
        }
        let seen = self.transactions[slot]
            .as_ref()
            .and_then(|open| self.seen(open, family));
        let is_inside =
            |key: &Vec<u8>| (way & 1 == 0 || *key >= lower) && (way & 2 == 0 || *key < upper);
        let entries = seen.map(|seen| seen.into_iter().filter(|(key, _)| is_inside(key)).collect());
        let made = OpenIterator {
            handle: iter,
            entries,
            position: None,
            transaction: number,
            is_ended: false,
        };
        if let Some(before) = self.iterators[place].replace(made) {
            free(Kind::Iterator, before.handle);
            self.freed.push((Kind::Iterator, before.handle));
        }
    }

    /// Moves an iterator and looks where it is.
    pub fn move_iterator(&mut self) {
        let (place, way, key) = (self.input.below(3), self.input.byte() % 6, self.input.key());
        let Some(mut open) = self.iterators[place].take() else {
            return;
        };
        let iter = open.handle;
        let answer = match way {
            0 => c!(tidesdb_iter_seek(iter, key.as_ptr(), key.len())),
            1 => c!(tidesdb_iter_seek_for_prev(iter, key.as_ptr(), key.len())),
            2 => c!(tidesdb_iter_seek_to_first(iter)),
            3 => c!(tidesdb_iter_seek_to_last(iter)),
            4 => c!(tidesdb_iter_next(iter)),
            _ => c!(tidesdb_iter_prev(iter)),
        };
        let what = format!("iterator {place}: way {way} {}*{}", key[0], key.len());
        if open.is_ended {
            self.check(&what, answer, &[code::INVALID_ARGS]);
            assert_eq!(c!(tidesdb_iter_valid(iter)), 0);
        } else if let Some(entries) = &open.entries {
            let was_valid = open.position.is_some();
            open.position = target(entries, open.position, way, &key);
            let found = if open.position.is_some() {
                code::SUCCESS
            } else {
                code::NOT_FOUND
            };
            if way >= 4 && !was_valid {
                self.check(&what, answer, &[code::INVALID_ARGS, code::NOT_FOUND]);
            } else {
                self.check(&what, answer, &[found]);
            }
            let is_valid = c!(tidesdb_iter_valid(iter)) == 1;
            assert_eq!(is_valid, open.position.is_some(), "{what}: valid");
            if let Some(index) = open.position {
                assert!(entry_of(iter) == entries[index], "{what}: another entry");
            }
            self.look_under(iter, is_valid);
        } else {
            self.check(
                &what,
                answer,
                &[code::SUCCESS, code::NOT_FOUND, code::INVALID_ARGS],
            );
        }
        self.iterators[place] = Some(open);
    }

    fn look_under(&mut self, iter: Handle, is_valid: bool) {
        let (mut ttl, mut bytes, mut size) = (0, ptr::null_mut(), 0);
        let expected = if is_valid {
            code::SUCCESS
        } else {
            code::INVALID_ARGS
        };
        let answer = c!(kt_iter_expires_at(iter, &raw mut ttl));
        self.check("expires at", answer, &[expected]);
        assert!([0, FAR].contains(&ttl), "expires at {ttl}");
        let answer = c!(tidesdb_iter_key(iter, &raw mut bytes, &raw mut size));
        self.check("key", answer, &[expected]);
        let answer = c!(tidesdb_iter_value(iter, &raw mut bytes, &raw mut size));
        assert_eq!(
            answer == 0,
            is_valid,
            "a value under no entry: {}",
            last_message()
        );
    }

    /// Frees an iterator.
    pub fn free_something(&mut self) {
        let place = self.input.below(3);
        if let Some(open) = self.iterators[place].take() {
            self.note(format!("free iterator {place}"));
            free(Kind::Iterator, open.handle);
            self.freed.push((Kind::Iterator, open.handle));
        }
    }
}

/// Where a move leads.
fn target(
    entries: &[(Vec<u8>, Vec<u8>)],
    from: Option<usize>,
    way: u8,
    key: &Vec<u8>,
) -> Option<usize> {
    match way {
        0 => entries.iter().position(|(other, _)| other >= key),
        1 => entries.iter().rposition(|(other, _)| other <= key),
        2 => (!entries.is_empty()).then_some(0),
        3 => entries.len().checked_sub(1),
        4 => from
            .map(|index| index + 1)
            .filter(|index| *index < entries.len()),
        _ => from.and_then(|index| index.checked_sub(1)),
    }
}
