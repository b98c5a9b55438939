//! Two-phase commit in histories.
//!
//! A history knows which transactions are prepared, what they write, and which were ended since the last opening. After
//! a power cut the log ends somewhere, and that shows in the list of what is prepared: every prepare was synced, so a
//! transaction is in the list, or its outcome has survived. An outcome of which the list says that it was lost bounds
//! the commits that may be there.

use std::collections::BTreeMap;

use kingtide::{ErrorKind, SyncMode};
use kingtide_base::KeyOrder;

use super::{
    deletes, draw,
    driver::{Driver, HeldTransaction},
};
use crate::{
    model::Write,
    violation::{Checked, Violation, ensure},
};

/// Prepared transactions at a time.
const PREPARED_MAX: usize = 4;

/// How a prepared transaction ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// By this commit.
    Committed(u64),
    /// After the commit `after`.
    RolledBack { after: u64, is_durable: bool },
}

struct Ended {
    writes: Vec<Write>,
    outcome: Outcome,
}

/// What a history knows of prepared transactions.
#[derive(Default)]
pub(super) struct Waiting {
    /// What each will write, by xid.
    open: BTreeMap<Vec<u8>, Vec<Write>>,
    /// Those whose outcome was acknowledged since the opening.
    ended: BTreeMap<Vec<u8>, Ended>,
    named: u64,
}

/// True when two writes to one family may not be made by two transactions while one of them is prepared.
fn overlap(left: &Write, right: &Write, order: &KeyOrder) -> bool {
    match (&left.end, &right.end) {
        (None, _) => right.concerns(order, &left.key),
        (_, None) => left.concerns(order, &right.key),
        (Some(left_end), Some(right_end)) => {
            order.compare(&left.key, right_end).is_lt()
                && order.compare(&right.key, left_end).is_lt()
        }
    }
}

impl Driver {
    /// True when a prepared transaction has locked something that `writes` write.
    pub(super) fn is_locked(&self, writes: &[Write]) -> bool {
        let mut held = self.waiting.open.values().flatten();
        held.any(|held| {
            let order = self.model.order(held.family);
            writes
                .iter()
                .any(|write| write.family == held.family && overlap(write, held, &order))
        })
    }

    /// Checks what the commit of `writes` answered against the locks; `None` when these refused it.
    pub(super) fn settle<T>(
        &mut self,
        outcome: kingtide::Result<T>,
        writes: &[Write],
    ) -> Checked<Option<T>> {
        match (outcome, self.is_locked(writes)) {
            (Ok(answer), false) => Ok(Some(answer)),
            (Ok(_), true) => Err(Violation::new(
                "a commit wrote what a prepared transaction has locked",
            )),
            (Err(error), true) if error.kind() == ErrorKind::Conflict => {
                self.note("  refused: locked by a prepared transaction");
                self.tally.locked += 1;
                Ok(None)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// True when a prepared transaction writes to the family `name`, so that it may not be dropped.
    pub(super) fn is_in_use(&self, name: &str) -> bool {
        let number = self.families[name].number;
        let mut writes = self.waiting.open.values().flatten();
        writes.any(|write| write.family == number)
    }

    fn new_xid(&mut self) -> Vec<u8> {
        self.waiting.named += 1;
        format!("xid {}", self.waiting.named).into_bytes()
    }

    /// Prepares a transaction of its own.
    pub(super) fn prepare(&mut self) -> Checked {
        if self.waiting.open.len() >= PREPARED_MAX {
            return self.end_prepared();
        }
        let options = draw::transaction_options(&mut self.random);
        let mut transaction = self.db.begin_with(options)?;
        let mut writes = Vec::new();
        for _ in 0..self.random.between(0, 5) {
            let name = self.some_family();
            let write = self.some_write(&name, 4, false);
            let family = &self.families[&name].handle;
            deletes::apply(&mut self.random, &mut transaction, family, &write)?;
            writes.push(write);
        }
        let xid = self.new_xid();
        let outcome = transaction.prepare(&xid);
        self.prepared(xid, outcome, writes)
    }

    /// Prepares a transaction that was held, if what it read does not count: the model does not know read locks.
    pub(super) fn prepare_held(&mut self, held: &mut HeldTransaction) -> Checked<bool> {
        let remembers_reads = matches!(
            held.isolation,
            kingtide::IsolationLevel::RepeatableRead | kingtide::IsolationLevel::Serializable
        );
        if remembers_reads || self.waiting.open.len() >= PREPARED_MAX {
            return Ok(false);
        }
        let is_behind = |write: &Write| self.model.concerned_at(write) > held.commit;
        let is_conflict = held.isolation.has_one_view() && held.writes.iter().any(is_behind);
        let xid = self.new_xid();
        let outcome = held.transaction.prepare(&xid);
        match outcome {
            Err(error) if is_conflict && error.kind() == ErrorKind::Conflict => {
                self.note("transaction refused at its prepare, in conflict");
                self.tally.conflicts += 1;
            }
            Ok(()) if is_conflict => {
                return Err(Violation::new("a lost update was prepared"));
            }
            outcome => {
                let writes = std::mem::take(&mut held.writes);
                self.prepared(xid, outcome, writes)?;
            }
        }
        Ok(true)
    }

    fn prepared(
        &mut self,
        xid: Vec<u8>,
        outcome: kingtide::Result<()>,
        writes: Vec<Write>,
    ) -> Checked {
        let count = writes.len();
        self.note(format!(
            "prepare \"{}\", {count} writes",
            xid.escape_ascii()
        ));
        if self.settle(outcome, &writes)?.is_none() {
            return Ok(());
        }
        // It synced the log, and everything before it.
        self.floor = self.model.last_commit();
        self.tally.prepared += 1;
        self.waiting.open.insert(xid, writes);
        self.check_prepared()
    }

    /// Ends a prepared transaction one way or the other.
    pub(super) fn end_prepared(&mut self) -> Checked {
        let names: Vec<&Vec<u8>> = self.waiting.open.keys().collect();
        if names.is_empty() {
            return self.prepare();
        }
        let xid = (*self.random.pick(&names)).clone();
        let writes = self.waiting.open.remove(&xid).unwrap_or_default();
        let outcome = if self.random.one_in(3) {
            self.note(format!("roll back \"{}\"", xid.escape_ascii()));
            self.db.rollback_prepared(&xid)?;
            Outcome::RolledBack {
                after: self.model.last_commit(),
                is_durable: self.is_durable(&writes, None),
            }
        } else {
            let sync = match self.random.one_in(2) {
                true => Some(draw::sync_mode(&mut self.random)),
                false => None,
            };
            self.note(format!("commit \"{}\", sync {sync:?}", xid.escape_ascii()));
            self.commit_prepared(&xid, &writes, sync)?
        };
        let again = self.db.commit_prepared(&xid);
        ensure(
            again.is_err_and(|error| error.kind() == ErrorKind::NotFound),
            || "a prepared transaction was ended twice".to_owned(),
        )?;
        self.waiting.ended.insert(xid, Ended { writes, outcome });
        self.check_prepared()
    }

    fn commit_prepared(
        &mut self,
        xid: &[u8],
        writes: &[Write],
        sync: Option<SyncMode>,
    ) -> Checked<Outcome> {
        let sequence = match sync {
            Some(sync) => self.db.commit_prepared_with(xid, sync)?,
            None => self.db.commit_prepared(xid)?,
        };
        if writes.is_empty() {
            return Ok(Outcome::RolledBack {
                after: self.model.last_commit(),
                is_durable: sync == Some(SyncMode::Full),
            });
        }
        self.check_sequence(sequence)?;
        self.committed(writes, sync);
        Ok(Outcome::Committed(self.model.last_commit()))
    }

    /// The list of prepared transactions agrees.
    fn check_prepared(&self) -> Checked {
        let found: Vec<(Vec<u8>, usize)> = self
            .db
            .prepared()?
            .into_iter()
            .map(|prepared| (prepared.xid, prepared.operation_count))
            .collect();
        let expected: Vec<(Vec<u8>, usize)> = self
            .waiting
            .open
            .iter()
            .map(|(xid, writes)| (xid.clone(), writes.len()))
            .collect();
        ensure(found == expected, || {
            format!("prepared are {found:?}, expected {expected:?}")
        })
    }

    /// After an opening: which outcomes have survived. Commits that cannot be there, because the list says so, are
    /// forgotten by the model.
    pub(super) fn find_prepared(&mut self) -> Checked {
        let mut ceiling = u64::MAX;
        for found in self.db.prepared()? {
            let Some(ended) = self.waiting.ended.remove(&found.xid) else {
                continue;
            };
            let text = found.xid.escape_ascii().to_string();
            match ended.outcome {
                Outcome::Committed(commit) => {
                    ensure(commit > self.floor, || {
                        format!(
                            "commit {commit} of \"{text}\" is lost, {} was promised",
                            self.floor
                        )
                    })?;
                    ceiling = ceiling.min(commit - 1);
                }
                Outcome::RolledBack { after, is_durable } => {
                    ensure(!is_durable && after >= self.floor, || {
                        format!("\"{text}\" was rolled back for good and is prepared again")
                    })?;
                }
            }
            self.waiting.open.insert(found.xid, ended.writes);
        }
        self.model.forget_behind(ceiling);
        self.check_prepared()
    }

    /// After an opening of which it is known that `kept` commits are there.
    pub(super) fn settle_prepared(&mut self, kept: u64) -> Checked {
        for (xid, ended) in std::mem::take(&mut self.waiting.ended) {
            if let Outcome::Committed(commit) = ended.outcome {
                ensure(commit <= kept, || {
                    format!(
                        "\"{}\" is neither prepared nor committed: {commit} commits were made, {kept} are there",
                        xid.escape_ascii()
                    )
                })?;
            }
        }
        Ok(())
    }
}
