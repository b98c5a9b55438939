//! One commit, from the transaction's write set to the log and the memtables.
//!
//! 1. Outside every lock: the record is cut into frames and hashed, batches are sorted.
//! 2. Under the commit lock: is there room in the log and in every memtable? If not, the lock is released, room is made,
//!    and the step starts again. Then: sequence number, record into the log, operations into the memtables, completion.
//!    Nothing between the first and the last can fail for want of space, and nothing blocks. The only user code called
//!    is the comparator of a family that has one of its own.
//! 3. Outside again: wait for the sync or for visibility, as the mode asks; then the commit hooks.

use std::{sync::Arc, time::Duration};

use kingtide_base::{
    Lsn, SegmentId, SeqNo,
    planted::{self, Bug},
};
use kingtide_collections::{Account, Full, Memtable, PageSize, PreparedRun};
use kingtide_env::{
    Directory, Env,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    disk::DiskRoom,
    giving_way::GivingWay,
    keeper::KeeperSignal,
    lock_table::LockTable,
    order::{CommitOrder, Completion, LogFailure, OrderState, OrderedLog},
    pace::FlushEarly,
    prepared::PreparedNames,
    stall::Stall,
    validate::{self, Checked, Places, Recheck, Validation},
    write_set::{Section, WriteSet},
};
use crate::{
    budget::MemoryRoom,
    error::{Error, ErrorKind, Result},
    events::Events,
    family::Family,
    memtable::{Memory, MemtableSource},
    wal::{Tail, UnsyncedSegments},
};

/// Runs that a memtable keeps without being merged in the background once somebody walks through it.
pub(crate) const RUNS_KEPT: usize = 8;
/// Runs in a memtable from which on a background merge of them is asked for while only writing goes on.
const RUNS_MAX: usize = 256;
/// A commit of so many operations takes the commit lock once more before its validation, so that what arrived meanwhile, which it
/// looks at under that lock, is as little as can be.
const LONG_COMMIT_OPERATIONS: usize = 32;
/// Small commits between two looks at the number of runs.
const RUN_CHECK_PERIOD: u64 = 1024;

/// The end of the log as the commit lock guards it.
pub(crate) struct CommitLog {
    pub(crate) tail: Tail,
    /// What prepared transactions keep others from writing.
    pub(crate) locks: LockTable,
    /// The largest durable mark that a frame in the log carries.
    pub(super) marked: Lsn,
    pub(super) next_slot: u64,
    /// Commits so far.
    commits: u64,
    /// Set by close: nothing is committed from then on.
    pub(super) is_closed: bool,
    /// Set while the gate in front of the ordered step is closed.
    pub(super) is_gated: bool,
}

impl CommitLog {
    pub(crate) fn new(tail: Tail, next_slot: u64, locks: LockTable) -> Self {
        let marked = tail.position();
        Self {
            tail,
            locks,
            marked,
            next_slot,
            commits: 0,
            is_closed: false,
            is_gated: false,
        }
    }
}

impl OrderState<CommitLog> {
    /// Refuses writing once the log has stopped or the database is closed.
    ///
    /// # Errors
    /// `ReopenRequired`, `Closed`.
    pub(super) fn check_writable(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(reopen_required(failure));
        }
        if self.log.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        Ok(())
    }
}

impl OrderedLog for CommitLog {
    type Sample = UnsyncedSegments;

    fn position(&self) -> Lsn {
        self.tail.position()
    }

    fn sample(&self) -> UnsyncedSegments {
        self.tail.unsynced()
    }

    fn synced(&mut self, sample: &UnsyncedSegments) {
        if let Some(current) = sample.last() {
            self.tail.note_synced(current.id);
        }
    }
}

/// What a commit wants to know done before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// In the kernel.
    Kernel,
    /// In the kernel, and on the device within this time.
    Within(Duration),
    /// On the device.
    Device,
}

impl Durability {
    /// The stricter of two wishes; of two intervals the shorter.
    pub(crate) fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Device, _) | (_, Self::Device) => Self::Device,
            (Self::Within(left), Self::Within(right)) => Self::Within(left.min(right)),
            (Self::Within(interval), Self::Kernel) | (Self::Kernel, Self::Within(interval)) => {
                Self::Within(interval)
            }
            (Self::Kernel, Self::Kernel) => Self::Kernel,
        }
    }
}

/// Told when something happened that background work should look at.
pub(crate) trait Attention: Send + Sync {
    /// A memtable of the family was sealed.
    fn sealed(&self, family: &Arc<Family>);
    /// A memtable of the family has many runs.
    fn many_runs(&self, family: &Arc<Family>);
    /// The family is read, after some time in which it was not: its level 1 may be too full for that.
    fn read_again(&self, family: &Arc<Family>);
}

/// The write path of an open database.
pub(crate) struct Pipeline {
    pub(crate) order: CommitOrder<CommitLog>,
    pub(crate) stall: Stall,
    pub(crate) memory: MemoryRoom,
    pub(crate) memtables: MemtableSource,
    pub(crate) keeper: KeeperSignal,
    pub(crate) prepared: PreparedNames,
    pub(crate) disk: DiskRoom,
    pub(crate) giving_way: GivingWay,
    /// With the commit lock: the gate is open again.
    pub(super) gate_opened: Condvar,
    pub(super) env: Arc<dyn Env>,
    pub(super) log_directory: Arc<dyn Directory>,
    /// Held by whoever makes a blank segment.
    pub(super) blank_maker: Mutex<()>,
    /// Set once any commit asked for durability: blanks are then made durable too.
    pub(super) wants_durability: AtomicBool,
    syncs: AtomicU64,
    attention: std::sync::OnceLock<Arc<dyn Attention>>,
    pub(super) early: std::sync::OnceLock<Arc<dyn FlushEarly>>,
    pub(super) events: std::sync::OnceLock<Arc<Events>>,
}

/// How a pipeline is made.
pub(crate) struct PipelineParts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) log_directory: Arc<dyn Directory>,
    pub(crate) log: CommitLog,
    pub(crate) last: SeqNo,
    pub(crate) memory: MemoryRoom,
    /// How long a writer waits for room.
    pub(crate) wait_max: Duration,
    pub(crate) memtables: MemtableSource,
    pub(crate) prepared: PreparedNames,
}

enum Attempt {
    Done {
        completion: Completion,
        sequence: SeqNo,
        end: Lsn,
        nudge: bool,
        /// Memtables with many entries to be arranged.
        unarranged: Vec<Arc<Memtable>>,
    },
    AtGate,
    NeedsLogRoom,
    NeedsValidation,
    NeedsMemtable(usize, Arc<Memory>),
}

impl Pipeline {
    pub(crate) fn new(parts: PipelineParts) -> Self {
        Self {
            order: CommitOrder::new(parts.log, parts.last),
            stall: Stall::new(parts.wait_max),
            memory: parts.memory,
            memtables: parts.memtables,
            giving_way: GivingWay::default(),
            keeper: KeeperSignal::default(),
            prepared: parts.prepared,
            disk: DiskRoom::new(Arc::clone(&parts.log_directory)),
            gate_opened: Condvar::new(),
            env: parts.env,
            log_directory: parts.log_directory,
            blank_maker: Mutex::new(()),
            wants_durability: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            attention: std::sync::OnceLock::new(),
            early: std::sync::OnceLock::new(),
            events: std::sync::OnceLock::new(),
        }
    }

    /// Sets who is told of sealed memtables; once, at open.
    pub(crate) fn set_attention(&self, attention: Arc<dyn Attention>) {
        // A second call would come from a second open of the same engine, which does not exist.
        let _ = self.attention.set(attention);
    }

    /// Sets who can flush memtables early; once, at open.
    pub(crate) fn set_early_flush(&self, early: Arc<dyn FlushEarly>) {
        // As above.
        let _ = self.early.set(early);
    }

    /// Commits `writes` and answers its sequence number. Commit hooks have been called when it returns.
    ///
    /// # Errors
    /// `DiskFull`, `Busy` (no room in time, or inside a hook of one of the families), `NotFound` (a family was dropped), `ReopenRequired`: nothing was written. `OutcomeUnknown`:
    /// the log failed under this commit.
    /// `Conflict`: `validation` found something that was written since; nothing was written.
    pub(crate) fn commit(
        &self,
        writes: &mut WriteSet,
        durability: Durability,
        validation: Option<Validation<'_>>,
    ) -> Result<SeqNo> {
        if durability != Durability::Kernel {
            // Relaxed: a hint for how blanks are prepared.
            self.wants_durability.store(true, Ordering::Relaxed);
        }
        writes.check_hooks()?;
        self.disk.check(writes)?;
        self.admit(writes)?;
        writes.prepare(self.memory.is_ample(2 * writes.arena_bytes()));
        let packed = writes.frames().memory_bytes();
        let budget = &self.memory.budget;
        let _packed = (packed > 0).then(|| budget.charge(Account::Transactions, packed));
        writes.populate_ahead();
        let mut checked = match validation {
            Some(validation) if validation.is_met_at(self.order.visible()) => None,
            _ => self.check(writes, validation, None)?,
        };
        loop {
            match self.attempt(writes, durability, (checked.as_ref(), validation))? {
                Attempt::NeedsValidation => {
                    checked = self.check(writes, validation, checked.take())?;
                }
                Attempt::Done {
                    completion,
                    sequence,
                    end,
                    nudge,
                    unarranged,
                } => {
                    self.note_commit(writes, sequence, durability, nudge);
                    unarranged.iter().for_each(|table| table.arrange());
                    let outcome = self.order.wait(completion, sequence, end, |segments| {
                        self.sync_segments(segments)
                    });
                    match outcome {
                        Ok(()) => writes.call_hooks(sequence),
                        Err(failure) => {
                            writes.abandon_hooks();
                            return Err(outcome_unknown(&failure));
                        }
                    }
                    if durability != Durability::Device {
                        self.giving_way.behind_commit(writes.op_count());
                    }
                    return Ok(sequence);
                }
                Attempt::AtGate => self.wait_at_gate(),
                Attempt::NeedsLogRoom => self.make_log_room(writes.frames())?,
                Attempt::NeedsMemtable(index, full) => {
                    let (family, bytes, entries) = writes.needs(index);
                    self.rotate(&family, &full, (bytes, entries))?;
                }
            }
        }
    }

    /// Checks a transaction that writes nothing, but whose reads count as writes.
    ///
    /// # Errors
    /// As [`Pipeline::commit`].
    pub(crate) fn validate_reads(&self, validation: Validation<'_>) -> Result<()> {
        self.check(&WriteSet::default(), Some(validation), None)?;
        let state = self.order.lock();
        let held = state.log.locks.blocks_updates(validation.reads, None);
        drop(state);
        held.map_or(Ok(()), |held| Err(held.into_error()))
    }

    pub(super) fn check<'a>(
        &self,
        writes: &WriteSet,
        validation: Option<Validation<'a>>,
        before: Option<Checked<'a>>,
    ) -> Result<Option<Checked<'a>>> {
        let Some(validation) = validation else {
            return Ok(None);
        };
        let places = Places::note(writes, validation);
        let last = if places.is_empty() && writes.op_count() < LONG_COMMIT_OPERATIONS {
            // Saves the lock; the second step then looks at a few commits more.
            self.order.visible()
        } else {
            self.order.lock().last_sequence()
        };
        validate::check(writes, (places, last), validation, before).map(Some)
    }

    /// The ordered step: all or nothing.
    fn attempt(
        &self,
        writes: &mut WriteSet,
        durability: Durability,
        (checked, validation): (Option<&Checked<'_>>, Option<Validation<'_>>),
    ) -> Result<Attempt> {
        // Let go behind the lock, at every way out.
        let _released;
        let mut state = self.giving_way.commit_lock(&self.order, writes.op_count());
        state.check_writable()?;
        if let Some(missing) = lacks_room(&state, writes)? {
            return Ok(missing);
        }
        if let Some(validation) = validation
            && !validation.is_met_at(state.last_sequence())
            && !planted::is(Bug::CheckedTooEarly)
        {
            let outcome = match checked {
                Some(checked) => validate::recheck(writes, checked, validation)?,
                None => Recheck::Stale,
            };
            if outcome == Recheck::Stale {
                return Ok(Attempt::NeedsValidation);
            }
        }
        if let Some(held) = state.log.locks.blocks_commit(writes, validation) {
            drop(state);
            return Err(held.into_error());
        }
        let sequence = state.next_sequence();
        // Before the append: a long record begins here and may end in a later segment.
        let (segment, start) = (state.log.tail.segment(), state.log.tail.position());
        let durable = self.order.durable();
        writes.sections().for_each(Section::pin_spilled);
        let end = match writes.append_to(&mut state.log.tail, sequence, durable) {
            Ok(end) => end,
            Err(error) => return Err(self.append_failed(state, &error.to_string())),
        };
        state.log.marked = durable;
        state.log.commits += 1;
        let Ok(unarranged) = apply(writes, sequence, segment, (start, end)) else {
            return Err(self.append_failed(state, "a memtable refused what it had room for"));
        };
        writes.take_hook_tickets();
        if let Some(prepared) = writes.ends() {
            _released = state.log.locks.end(prepared, end);
        }
        let must_sync = durability == Durability::Device;
        if must_sync {
            state.log.tail.give_up_windows();
        }
        let nudge = state.log.tail.wants_attention();
        let completion = self.order.complete(&mut state, sequence, end, must_sync);
        Ok(Attempt::Done {
            completion,
            sequence,
            end,
            nudge,
            unarranged,
        })
    }

    pub(super) fn append_failed(
        &self,
        mut state: kingtide_env::sync::MutexGuard<'_, OrderState<CommitLog>>,
        message: &str,
    ) -> Error {
        state.set_failure(message);
        drop(state);
        outcome_unknown(&self.order.stop(message))
    }

    fn note_commit(&self, writes: &WriteSet, sequence: SeqNo, durability: Durability, nudge: bool) {
        if let Durability::Within(interval) = durability {
            self.keeper.sync_within(interval, self.env.as_ref());
        }
        if nudge || self.keeper.is_idle() {
            self.keeper.nudge();
        }
        for section in writes.sections() {
            if section.ranges().len() > 0 {
                section.family.load().active.table.tidy_ranges();
            }
            // A batch is a run of its own; small commits make one only every few thousand.
            let may_add_run = PreparedRun::is_worth_it(&section.family.order, section.op_count())
                || sequence.0.is_multiple_of(RUN_CHECK_PERIOD);
            if !may_add_run {
                continue;
            }
            self.note_runs(&section.family, RUNS_MAX);
        }
    }

    /// Somebody reads `family`.
    #[inline]
    pub(crate) fn note_read(&self, family: &Arc<Family>) {
        self.giving_way.note_read();
        if family.read.note()
            && let Some(attention) = self.attention.get()
        {
            attention.read_again(family);
        }
    }

    /// Somebody walks through the memtable of `family`: its runs are merged in the background, if they are many for that.
    pub(crate) fn note_walk(&self, family: &Arc<Family>) {
        self.note_read(family);
        self.note_runs(family, RUNS_KEPT + 1);
    }

    fn note_runs(&self, family: &Arc<Family>, many: usize) {
        if family.load().active.table.run_count() >= many
            && let Some(attention) = self.attention.get()
        {
            attention.many_runs(family);
        }
    }

    /// Makes the log durable up to everything appended so far, and leaves a mark of it in the log.
    ///
    /// # Errors
    /// `ReopenRequired` with the failure when the log has stopped, `Io` when this sync fails.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let position = self.order.lock().log.tail.position();
        self.sync_through(position)?;
        self.write_mark();
        Ok(())
    }

    /// Makes the log durable up to `position`.
    ///
    /// # Errors
    /// As [`Pipeline::sync_log`].
    pub(crate) fn sync_through(&self, position: Lsn) -> Result<()> {
        self.order
            .sync_through(position, |segments| self.sync_segments(segments))
            .map_err(|failure| reopen_required(&failure))
    }

    pub(super) fn sync_segments(&self, segments: &UnsyncedSegments) -> Result<()> {
        // Relaxed: a statistic.
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let begun = self.env.monotonic_nanos();
        let skipped = if planted::is(Bug::AcknowledgedWithoutSync) {
            segments.len()
        } else if planted::is(Bug::OldSegmentNotSynced) {
            segments.len().saturating_sub(1)
        } else {
            0
        };
        let outcome = segments[skipped..]
            .iter()
            .try_for_each(|segment| segment.make_durable());
        let nanos = self.env.monotonic_nanos().saturating_sub(begun);
        self.order.note_sync_duration(nanos);
        if self.is_watched() {
            self.tell_sync(begun, &outcome);
        }
        Ok(outcome?)
    }

    /// Writes how far the log is durable into the log, if no frame says so yet. A failure stops the log.
    pub(crate) fn write_mark(&self) {
        let mut state = self.order.lock();
        let durable = self.order.durable();
        if state.failure().is_some() || state.log.marked >= durable {
            return;
        }
        let sequence = state.last_sequence();
        match state.log.tail.append_mark(sequence, durable) {
            Ok(written) => {
                if written {
                    state.log.marked = durable;
                }
            }
            Err(error) => {
                let _ = self.append_failed(state, &error.to_string());
            }
        }
    }

    /// Seals the memtable `full` of `family`, unless someone else did, and puts an empty one with room for `needed`
    /// bytes and entries in its place.
    ///
    /// # Errors
    /// `Busy` or the flush's error when sealed memtables already take all the room they may.
    pub(crate) fn rotate(
        &self,
        family: &Arc<Family>,
        full: &Arc<Memory>,
        needed: (usize, usize),
    ) -> Result<()> {
        let is_wanted = || !family.is_dropped() && Arc::ptr_eq(&family.load().active, full);
        let is_full = || is_wanted() && !self.may_seal(family);
        loop {
            // Beside each other: in a queue, each would wait as long as is allowed, behind the one before.
            let stalled = self.note_stall(family, is_full());
            let outcome = self.stall.wait(self.env.as_ref(), is_full, || {
                "memtables fill faster than they are flushed: try again later".to_owned()
            });
            self.note_stall_end(family, stalled);
            outcome?;
            // One at a time: a second memtable made in vain would cost as much memory as the first.
            let _one_at_a_time = family.rotating.lock();
            if !is_wanted() {
                return Ok(());
            }
            if self.may_seal(family) {
                self.replace_active(family, full, needed);
                return Ok(());
            }
        }
    }

    /// As [`Pipeline::rotate`], but leaves everything as it is where that would have to wait: for background threads,
    /// which flushes and a close depend on.
    pub(crate) fn try_rotate(&self, family: &Arc<Family>, full: &Arc<Memory>) {
        let Some(_one_at_a_time) = family.rotating.try_lock() else {
            return;
        };
        if self.may_seal(family) {
            self.replace_active(family, full, (0, 0));
        }
    }

    /// Puts an empty memtable in the place of `full`, if that is still the active one. An empty one is dropped, others
    /// are sealed.
    pub(super) fn replace_active(
        &self,
        family: &Arc<Family>,
        full: &Arc<Memory>,
        needed: (usize, usize),
    ) {
        let buffer_bytes = family.options().write_buffer_bytes;
        // Huge pages take up memory ahead of need.
        let size = match self.memory.is_ample(buffer_bytes) {
            true => full.pages_of_next(),
            false => PageSize::Small,
        };
        let fresh = self
            .memtables
            .make_in(size, &family.order, buffer_bytes, needed);
        let is_sealed = {
            let _commit_lock = self.order.lock();
            if family.is_dropped() || !Arc::ptr_eq(&family.load().active, full) {
                return;
            }
            family.update(|current| {
                if full.table.is_empty() {
                    current.with_active(fresh)
                } else {
                    self.stall.add();
                    current.sealed_with(fresh)
                }
            });
            !full.table.is_empty()
        };
        if is_sealed {
            self.note_sealed(family, full);
        }
        if is_sealed && let Some(attention) = self.attention.get() {
            attention.sealed(family);
        }
    }

    /// Syncs, and commits, so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        // Relaxed: a statistic.
        let syncs = self.syncs.load(Ordering::Relaxed);
        (syncs, self.order.lock().log.commits)
    }
}

/// Puts the operations of the record from `start` to `end` into the memtables; answers those in which many entries are to
/// be arranged.
fn apply(
    writes: &mut WriteSet,
    sequence: SeqNo,
    segment: SegmentId,
    (start, end): (Lsn, Lsn),
) -> std::result::Result<Vec<Arc<Memtable>>, Full> {
    let mut unarranged = Vec::new();
    for section in writes.sections_mut() {
        let current = section.family.load();
        let run = section.run.take();
        let table = &current.active.table;
        table.insert(sequence, section.ops(), run)?;
        table.delete_ranges(sequence, section.ranges())?;
        section.note_applied(&current.active, segment, (start, end));
        if table.is_unarranged() {
            unarranged.push(Arc::clone(table));
        }
    }
    Ok(unarranged)
}

/// What must be made before `writes` fit into the log and the memtables.
///
/// # Errors
/// `NotFound` when a family was dropped.
fn lacks_room(state: &OrderState<CommitLog>, writes: &WriteSet) -> Result<Option<Attempt>> {
    if state.log.is_gated {
        return Ok(Some(Attempt::AtGate));
    }
    if !state.log.tail.has_room(writes.frames()) {
        return Ok(Some(Attempt::NeedsLogRoom));
    }
    for (index, section) in writes.sections().enumerate() {
        if section.family.is_dropped() {
            return Err(dropped(&section.family));
        }
        let current = section.family.load();
        if !current
            .active
            .table
            .fits(section.arena_bytes, section.op_count())
        {
            let full = Arc::clone(&current.active);
            return Ok(Some(Attempt::NeedsMemtable(index, full)));
        }
    }
    Ok(None)
}

pub(super) fn outcome_unknown(failure: &LogFailure) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "the log could not be made durable ({}): the commit is wholly there or wholly absent after the next open",
            failure.0
        ),
    )
}

/// The error of every write after the log has stopped.
pub(crate) fn reopen_required(failure: &LogFailure) -> Error {
    Error::new(
        ErrorKind::ReopenRequired,
        format!(
            "writing stopped after a failure ({}): close and reopen the database",
            failure.0
        ),
    )
}

pub(super) fn dropped(family: &Family) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("column family {:?} was dropped", family.name()),
    )
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
