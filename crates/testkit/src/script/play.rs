//! Plays the steps against a database and against plain maps.

use std::collections::BTreeMap;

use kingtide::{Db, SyncMode, Transaction, TransactionOptions};
use kingtide_env::{CrashImage, MemoryEnv};

use super::steps::{Step, StepWrite};
use crate::{
    dump::{Dump, dump},
    order::{OrderedKey, key_order},
    violation::{Checked, Violation, ensure},
    world,
};

/// The content of each family, and the name of its order.
#[derive(Clone, Debug, Default)]
struct State {
    families: BTreeMap<&'static str, (String, BTreeMap<OrderedKey, Vec<u8>>)>,
    prepared: BTreeMap<&'static str, Vec<StepWrite>>,
}

/// Stands for the list of prepared transactions among the families of a [`Dump`].
pub(super) const PREPARED: &str = "(prepared)";

/// Reads all families, and which transactions are prepared.
pub(super) fn dump_all(db: &Db) -> Checked<Dump> {
    let mut found = dump(db)?;
    let entry = |prepared: kingtide::PreparedTransaction| {
        let what = prepared.operation_count.to_string();
        (prepared.xid, what.into_bytes())
    };
    let prepared = db.prepared()?.into_iter().map(entry).collect();
    found.insert(PREPARED.to_owned(), prepared);
    Ok(found)
}

impl State {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create(name, options) => {
                self.families
                    .insert(name, (options.comparator.clone(), BTreeMap::new()));
            }
            Step::Drop(name) => {
                self.families.remove(name);
            }
            Step::Rename(from, to) => {
                if let Some(family) = self.families.remove(from) {
                    self.families.insert(to, family);
                }
            }
            Step::Clone(from, to) => {
                if let Some(family) = self.families.get(from).cloned() {
                    self.families.insert(to, family);
                }
            }
            Step::Commit(writes, _) => self.write(writes),
            Step::Prepare(xid, writes) => {
                self.prepared.insert(xid, writes.clone());
            }
            Step::CommitPrepared(xid, _) => {
                let writes = self.prepared.remove(xid).unwrap_or_default();
                self.write(&writes);
            }
            Step::RollbackPrepared(xid, _) => {
                self.prepared.remove(xid);
            }
            Step::DeleteRange((name, start, end), rewritten, _) => {
                let Some((comparator, entries)) = self.families.get_mut(name) else {
                    return;
                };
                let place = |key: &str| OrderedKey::new(&key_order(comparator), key.as_bytes());
                let (start, end) = (place(start), place(end));
                entries.retain(|key, _| *key < start || *key >= end);
                if let Some(value) = rewritten {
                    entries.insert(start, value.as_bytes().to_vec());
                }
            }
            Step::SyncWal | Step::Flush(_) | Step::Compact(_) | Step::Rest | Step::Reopen => {}
        }
    }

    fn write(&mut self, writes: &[StepWrite]) {
        for (name, key, value) in writes {
            let Some((comparator, entries)) = self.families.get_mut(name) else {
                continue;
            };
            let key = OrderedKey::new(&key_order(comparator), key);
            match value {
                Some(value) => entries.insert(key, value.clone()),
                None => entries.remove(&key),
            };
        }
    }

    fn dump(&self) -> Dump {
        let prepared = self.prepared.iter().map(|(xid, writes)| {
            let what = writes.len().to_string();
            (xid.as_bytes().to_vec(), what.into_bytes())
        });
        let prepared = (PREPARED.to_owned(), prepared.collect());
        self.families
            .iter()
            .map(|(name, (_, entries))| {
                let pairs = entries
                    .iter()
                    .map(|(key, value)| (key.bytes.clone(), value.clone()));
                ((*name).to_owned(), pairs.collect())
            })
            .chain([prepared])
            .collect()
    }
}

/// How far a run came.
#[derive(Debug)]
pub struct Played {
    /// What the database looks like before the first step and after each; one more than the steps that were begun.
    states: Vec<Dump>,
    /// Steps that were acknowledged.
    acknowledged: usize,
    /// Steps that a power cut must not lose.
    floor: usize,
    /// Steps there are.
    total: usize,
    /// What the step that failed answered.
    failure: Option<String>,
}

/// Runs the steps until one fails. The machine is switched off after `calls_max` calls.
///
/// # Errors
/// A violation when the database shows a wrong state at the end of the steps.
pub(super) fn play(env: &MemoryEnv, steps: &[Step], calls_max: u64) -> Checked<Played> {
    let mut state = State::default();
    let mut played = Played {
        states: vec![state.dump()],
        acknowledged: 0,
        floor: 0,
        total: steps.len(),
        failure: None,
    };
    let mut db = match Db::open(world::DATABASE, world::options(env)) {
        Ok(db) => db,
        Err(error) => {
            played.failure = Some(error.to_string());
            return Ok(played);
        }
    };
    for step in steps {
        state.apply(step);
        played.states.push(state.dump());
        if let Err(error) = perform(&mut db, env, step) {
            played.failure = Some(format!("{:?}: {error}", error.kind()));
            break;
        }
        played.acknowledged += 1;
        played.raise_floor(steps, step);
    }
    if played.failure.is_none() {
        played.failure = check_end(&db, env, calls_max, &state)?;
    }
    // Off before the database is let go, so that closing adds no I/O to what the images are made of.
    world::power_off(env);
    let _ = db.close();
    Ok(played)
}

/// Looks at the state after the last step. What a machine answers that was switched off meanwhile says nothing.
fn check_end(db: &Db, env: &MemoryEnv, calls_max: u64, state: &State) -> Checked<Option<String>> {
    match dump_all(db) {
        Ok(found) => ensure(found == state.dump(), || {
            "the history ends in a wrong state".to_owned()
        })
        .map(|()| None),
        Err(error) if env.io_count() >= calls_max => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

fn perform(db: &mut Db, env: &MemoryEnv, step: &Step) -> kingtide::Result<()> {
    match step {
        Step::Create(name, options) => db.create_family(name, options.clone()).map(drop),
        Step::Drop(name) => db.drop_family(name),
        Step::Rename(from, to) => db.rename_family(from, to),
        Step::Clone(from, to) => db.clone_family(from, to).map(drop),
        Step::Commit(writes, sync) => write(db, writes, Some(*sync))?.commit().map(drop),
        Step::Prepare(xid, writes) => write(db, writes, None)?.prepare(xid.as_bytes()),
        Step::CommitPrepared(xid, sync) => db.commit_prepared_with(xid.as_bytes(), *sync).map(drop),
        Step::RollbackPrepared(xid, _) => db.rollback_prepared(xid.as_bytes()),
        Step::DeleteRange((name, start, end), rewritten, sync) => {
            let mut transaction = db.begin_with(TransactionOptions {
                sync: Some(*sync),
                ..TransactionOptions::default()
            })?;
            let family = db.family(name)?;
            transaction.delete_range(&family, start.as_bytes(), end.as_bytes())?;
            if let Some(value) = rewritten {
                transaction.put(&family, start.as_bytes(), value.as_bytes())?;
            }
            transaction.commit().map(drop)
        }
        Step::SyncWal => db.sync_wal(),
        Step::Flush(name) => db.flush(&db.family(name)?),
        Step::Compact(name) => db.compact(&db.family(name)?),
        Step::Rest => db.wait_idle(),
        Step::Reopen => {
            db.close()?;
            *db = Db::open(world::DATABASE, world::options(env))?;
            Ok(())
        }
    }
}

/// A transaction with `writes` in it.
fn write(db: &Db, writes: &[StepWrite], sync: Option<SyncMode>) -> kingtide::Result<Transaction> {
    let mut transaction = db.begin_with(TransactionOptions {
        sync,
        ..TransactionOptions::default()
    })?;
    for (name, key, value) in writes {
        let family = db.family(name)?;
        match value {
            Some(value) => transaction.put(&family, key, value)?,
            // Both kinds of delete come, told by the key so that a replay does the same.
            None if key.last().is_some_and(|byte| byte % 2 == 0) => {
                transaction.single_delete(&family, key)?;
            }
            None => transaction.delete(&family, key)?,
        }
    }
    Ok(transaction)
}

/// What the transaction `xid` of `steps` was prepared with.
pub(super) fn prepared_writes<'s>(steps: &'s [Step], xid: &[u8]) -> &'s [StepWrite] {
    let found = steps.iter().find_map(|step| match step {
        Step::Prepare(name, writes) if name.as_bytes() == xid => Some(writes.as_slice()),
        _ => None,
    });
    found.unwrap_or_default()
}

/// What a step commits; `None` when it is no commit.
fn writes_of<'s>(steps: &'s [Step], step: &'s Step) -> Option<&'s [StepWrite]> {
    match step {
        Step::Commit(writes, _) => Some(writes),
        Step::CommitPrepared(xid, _) => Some(prepared_writes(steps, xid.as_bytes())),
        _ => None,
    }
}

impl Played {
    fn raise_floor(&mut self, steps: &[Step], step: &Step) {
        match step {
            Step::Commit(_, SyncMode::Full)
            | Step::Prepare(..)
            | Step::CommitPrepared(_, SyncMode::Full)
            | Step::RollbackPrepared(_, true)
            | Step::DeleteRange(_, _, SyncMode::Full)
            | Step::Create(..)
            | Step::Drop(_)
            | Step::Rename(..)
            | Step::Clone(..)
            | Step::SyncWal
            | Step::Reopen => self.floor = self.acknowledged,
            Step::Flush(family) => {
                let touches = |step: &Step| match step {
                    Step::DeleteRange((name, ..), ..) => name == family,
                    _ => writes_of(steps, step)
                        .is_some_and(|writes| writes.iter().any(|(name, ..)| name == family)),
                };
                let newest = steps[..self.acknowledged].iter().rposition(touches);
                self.floor = self.floor.max(newest.map_or(0, |index| index + 1));
            }
            Step::Commit(..)
            | Step::CommitPrepared(..)
            | Step::RollbackPrepared(..)
            | Step::DeleteRange(..)
            | Step::Compact(_)
            | Step::Rest => {}
        }
    }

    /// Checks that every step was acknowledged.
    ///
    /// # Errors
    /// A violation with the answer of the step that was not.
    pub fn check_complete(&self) -> Checked {
        match &self.failure {
            None => Ok(()),
            Some(answer) => Err(Violation::new(format!(
                "step {} of {} failed: {answer}",
                self.acknowledged + 1,
                self.total
            ))),
        }
    }

    /// Checks that a step failed only because the machine was switched off after `calls` calls.
    pub(super) fn check_halted(&self, env: &MemoryEnv, calls: u64) -> Checked {
        if env.io_count() >= calls {
            return Ok(());
        }
        self.check_complete()
    }

    /// Checks that a recovered database shows a state that the promises allow.
    pub(super) fn check_state(&self, found: &Dump, image: CrashImage) -> Checked {
        // Nothing that reached the kernel is lost in this image, so it is held to the floor of a kill.
        let floor = match image {
            CrashImage::Everything => self.acknowledged,
            _ => self.floor,
        };
        let matching = self.states.iter().rposition(|state| state == found);
        if matching.is_some_and(|state| state >= floor) {
            return Ok(());
        }
        let nearest = self.describe_difference(found);
        Err(Violation::new(match matching {
            Some(state) => format!(
                "the database shows the state after step {state}; step {floor} was promised, {} acknowledged",
                self.acknowledged
            ),
            None => format!(
                "the database shows no state after a whole step (promised {floor}, acknowledged {}); {nearest}",
                self.acknowledged
            ),
        }))
    }

    fn describe_difference(&self, found: &Dump) -> String {
        let Some(expected) = self.states.get(self.acknowledged) else {
            return String::new();
        };
        let names: Vec<&String> = found.keys().collect();
        let wanted: Vec<&String> = expected.keys().collect();
        if names != wanted {
            return format!("families {names:?}, last acknowledged {wanted:?}");
        }
        let mut text = Vec::new();
        for (name, entries) in expected {
            let others = &found[name];
            let missing = entries
                .iter()
                .filter(|entry| !others.contains(entry))
                .count();
            let extra = others
                .iter()
                .filter(|entry| !entries.contains(entry))
                .count();
            text.push(format!("{name}: {missing} missing, {extra} unexpected"));
        }
        format!("against the last acknowledged step: {}", text.join(", "))
    }
}
