//! The checker: does what a window recorded agree with the levels of its transactions?
//!
//! The commits are put in the order of their sequence numbers, which must agree with real time. That gives the versions
//! of every key. A transaction is then explained by itself:
//!
//! 1. A *view* is a sequence number. It is at least the largest one acknowledged before the view was taken, and smaller
//!    than any whose commit began after it was taken. Every key read, and every key of a range that was scanned and not
//!    found, leaves only those views at which it held what was read. What remains must not be empty: for each operation
//!    alone below repeatable read, for the whole transaction from there up. The transaction's own writes must be seen
//!    over it.
//! 2. From repeatable read up the first committer wins: no commit between the view and the transaction's own wrote a key
//!    that it writes. At repeatable read, none wrote a key that it found either. The latest of the possible views is
//!    taken: if that one will not do, no other will.
//! 3. At serializable, everything read by a transaction that wrote is the same directly before its own commit. So the
//!    order of commits is a serial order, in which those that only read stand at their view; and real time is kept.
//! 4. At every level, nobody wrote a key that was read for update between the view of that read and the commit. What was
//!    read untracked must fit the view and is not looked at otherwise.
//! 5. A conflict has a cause: between the earliest possible view and the end of the commit, something was committed that
//!    the level protects the transaction from. Transactions that wrote nothing, or below repeatable read, and read nothing for
//!    update, have none. Or else something it touches may have been locked by a transaction that was prepared then.
//!
//! Uncommitted and intermediate values are no version of any key, so reading one leaves no view.

use std::ops::Range;

use kingtide::IsolationLevel;

use super::{
    own::Own,
    record::{Ending, Key, Log, Number, Operation, Part, Record, Role, Span, Window},
    versions::{Moments, Versions},
};
use crate::violation::{Checked, Violation, ensure};

/// Checks every transaction of a window.
///
/// # Errors
/// The first rule that is broken, with the transaction.
pub fn check_window(window: &Window) -> Checked {
    let versions = Versions::of(window)?;
    let mut check = Check::new(&window.log, &versions);
    for record in &window.log.records {
        check
            .transaction(record)
            .map_err(|violation| violation.within(describe(&window.log, record)))?;
    }
    Ok(())
}

/// The transaction as text.
fn describe(log: &Log, record: &Record) -> String {
    let mut text = format!(
        "process {}, {:?}, begun {:?}",
        record.process, record.level, record.begin
    );
    for operation in log.operations_of(record) {
        match operation {
            Operation::Write(key, number) => text.push_str(&format!("\n  write {key} {number:?}")),
            Operation::Clear(keys) => text.push_str(&format!("\n  delete {keys:?}")),
            Operation::Save => text.push_str("\n  savepoint"),
            Operation::Undo => text.push_str("\n  back to the savepoint"),
            Operation::Read { span, parts, role } => {
                text.push_str(&format!("\n  read {role:?} {span:?}"));
                for part in &log.parts[parts.clone()] {
                    match part {
                        Part::Point(key, number) => text.push_str(&format!(" {key}: {number:?}")),
                        Part::Range(keys, items) => {
                            let items = &log.items[items.clone()];
                            text.push_str(&format!(" {keys:?}: {items:?}"));
                        }
                    }
                }
            }
        }
    }
    if let Some(prepared) = &record.prepared {
        text.push_str(&format!("\n  prepared {prepared:?}"));
    }
    text.push_str(&format!(
        "\n  ended {:?}: {:?}\n",
        record.end, record.ending
    ));
    text
}

/// The checker with memory that is used again for every transaction.
struct Check<'a> {
    log: &'a Log,
    versions: &'a Versions,
    own: Own,
    /// Keys read from others that the level may make something of, and what was found.
    read: Vec<(Key, Option<Number>)>,
    /// Ranges scanned, keys that were seen as written by the transaction itself included.
    scanned: Vec<Range<Key>>,
    /// Keys that a scan showed as written by the transaction itself.
    shown_own: Vec<Key>,
    /// Keys read for update, and the views of these reads.
    held: Vec<(Key, Moments)>,
    prepared: Vec<Locked>,
}

/// A transaction that was prepared, and what it may have locked while it was.
struct Locked {
    process: u32,
    /// From the first stamp of the call that prepared it to the last one of the call that ended it.
    stamps: Range<u64>,
    keys: Vec<Key>,
}

impl Locked {
    fn of(log: &Log) -> Vec<Self> {
        let lock = |record: &Record| {
            let stamps = record.prepared?.from..record.end.to;
            let mut keys = Vec::new();
            for operation in log.operations_of(record) {
                match operation {
                    Operation::Write(key, _) => keys.push(*key),
                    Operation::Clear(range) => keys.extend(range.clone()),
                    Operation::Save | Operation::Undo => {}
                    Operation::Read { parts, .. } => {
                        for part in &log.parts[parts.clone()] {
                            match part {
                                Part::Point(key, _) => keys.push(*key),
                                Part::Range(range, _) => keys.extend(range.clone()),
                            }
                        }
                    }
                }
            }
            Some(Self {
                process: record.process,
                stamps,
                keys,
            })
        };
        log.records.iter().filter_map(lock).collect()
    }

    /// True when a call of another process at that time may have met the locks of `key`.
    fn meets(&self, record: &Record, key: Key) -> bool {
        self.process != record.process
            && self.stamps.start < record.end.to
            && record.end.from < self.stamps.end
            && self.keys.contains(&key)
    }
}

impl<'a> Check<'a> {
    fn new(log: &'a Log, versions: &'a Versions) -> Self {
        Self {
            log,
            versions,
            own: Own::default(),
            read: Vec::new(),
            scanned: Vec::new(),
            shown_own: Vec::new(),
            held: Vec::new(),
            prepared: Locked::of(log),
        }
    }

    fn transaction(&mut self, record: &Record) -> Checked {
        self.own.clear();
        self.read.clear();
        self.scanned.clear();
        self.shown_own.clear();
        self.held.clear();
        let mut view = self.moments(&record.begin);
        for operation in self.log.operations_of(record) {
            let Operation::Read { span, parts, role } = operation else {
                self.own.apply(operation);
                continue;
            };
            let mut fresh = self.moments(span);
            let has_one_view = record.level.has_one_view();
            let moments = if has_one_view { &mut view } else { &mut fresh };
            for part in &self.log.parts[parts.clone()] {
                self.part(part, *role, moments)?;
            }
            if *role == Role::ForUpdate {
                self.hold(parts.clone(), &fresh);
            }
        }
        if record.level.has_one_view() {
            self.held
                .iter_mut()
                .for_each(|held| held.1.clone_from(&view));
        }
        match record.ending {
            Ending::RolledBack => Ok(()),
            Ending::Committed(0) => {
                ensure(self.own.writes().is_empty(), || {
                    "a commit that wrote has no sequence number".to_owned()
                })?;
                // It looked at what was held before it returned, and saw at least what was acknowledged before.
                self.held_unchanged(record.end.floor)
            }
            Ending::Committed(sequence) => self.commit(record.level, sequence, view),
            Ending::Conflict => self.conflict(record, &view),
        }
    }

    fn hold(&mut self, parts: Range<usize>, view: &Moments) {
        for part in &self.log.parts[parts] {
            if let Part::Point(key, _) = part {
                self.held.push((*key, view.clone()));
            }
        }
    }

    /// The views that something taken at `span` may have.
    fn moments(&self, span: &Span) -> Moments {
        Moments::between(span.floor, self.versions.ceiling(span.to))
    }

    fn part(&mut self, part: &Part, role: Role, moments: &mut Moments) -> Checked {
        match part {
            Part::Point(key, number) => self.key((*key, *number), role, moments),
            Part::Range(keys, items) => {
                self.scanned.push(keys.clone());
                let mut items = self.log.items[items.clone()].iter().peekable();
                for key in keys.clone() {
                    let number = items.next_if(|item| item.0 == key).map(|item| item.1);
                    if number.is_some() && self.own.find(key).is_some() {
                        self.shown_own.push(key);
                    }
                    self.key((key, number), role, moments)?;
                }
                ensure(items.peek().is_none(), || {
                    format!("the scan of {keys:?} found keys beyond, or not in order")
                })
            }
        }
    }

    fn key(
        &mut self,
        (key, number): (Key, Option<Number>),
        role: Role,
        moments: &mut Moments,
    ) -> Checked {
        if let Some(own) = self.own.find(key) {
            return ensure(number == own, || {
                format!("its own write {own:?} of key {key} is read as {number:?}")
            });
        }
        if role == Role::Plain {
            self.read.push((key, number));
        }
        let (first, last) = (moments.first(), moments.last());
        self.versions.keep_where(key, number, moments);
        if moments.last().is_some() {
            return Ok(());
        }
        let near = self.versions.around(key, first.unwrap_or(0));
        Err(Violation::new(format!(
            "no view explains {number:?} under key {key}, of the views from {first:?} to {last:?} that explain the \
             reads before; its versions: {near:?}"
        )))
    }

    fn commit(&self, level: IsolationLevel, sequence: u64, mut view: Moments) -> Checked {
        ensure(!self.own.writes().is_empty(), || {
            "a commit that wrote nothing has a sequence number".to_owned()
        })?;
        self.held_unchanged(sequence - 1)?;
        if !level.has_one_view() {
            return Ok(());
        }
        view.cut(sequence - 1);
        let Some(latest) = view.last() else {
            return Err(Violation::new("it committed before what it saw"));
        };
        for (key, _) in self.own.writes() {
            self.unchanged(*key, latest, sequence - 1, "written by both")?;
        }
        if level == IsolationLevel::RepeatableRead {
            for (key, _) in self.read.iter().filter(|read| read.1.is_some()) {
                self.unchanged(*key, latest, sequence - 1, "found and then changed")?;
            }
        }
        if level == IsolationLevel::Serializable {
            for (key, number) in &self.read {
                let now = self.versions.number_at(*key, sequence - 1);
                ensure(now == *number, || {
                    format!("key {key} was read as {number:?} and holds {now:?} before the commit")
                })?;
            }
        }
        Ok(())
    }

    /// Checks that nobody wrote `key` after `view` and up to `until`.
    fn unchanged(&self, key: Key, view: u64, until: u64, what: &str) -> Checked {
        let written = self.versions.written_at(key, until);
        ensure(written <= view, || {
            format!("key {key} was {what}: by commit {written}, after the view {view}")
        })
    }

    /// Checks that nobody wrote what was read for update, up to `until`.
    fn held_unchanged(&self, until: u64) -> Checked {
        for (key, view) in &self.held {
            let mut view = view.clone();
            view.cut(until);
            let Some(latest) = view.last() else {
                continue;
            };
            self.unchanged(
                *key,
                latest,
                until,
                "read for update and written by another",
            )?;
        }
        Ok(())
    }

    fn conflict(&self, record: &Record, view: &Moments) -> Checked {
        let level = record.level;
        ensure(
            !self.own.writes().is_empty() || !self.held.is_empty(),
            || "a conflict of a transaction that only read".to_owned(),
        )?;
        let earliest = view.first().unwrap_or(record.begin.floor);
        let until = self.versions.ceiling(record.end.to);
        let changed_since = |key: Key, view: u64| self.versions.written_at(key, until) > view;
        let is_held_one =
            |(key, view): &(Key, Moments)| changed_since(*key, view.first().unwrap_or(earliest));
        let is_written_one = || {
            let mut writes = self.own.writes().iter();
            writes.any(|own| changed_since(own.0, earliest))
        };
        let is_read_one = |with_misses: bool| {
            let reads = self.read.iter();
            let mut relevant = reads.filter(|read| with_misses || read.1.is_some());
            relevant.any(|read| changed_since(read.0, earliest))
        };
        // What a scan showed is remembered, and at serializable the range as a whole: what was the transaction's own in it
        // may have been undone since.
        let is_shown_own = || {
            let mut keys = self.shown_own.iter();
            keys.any(|key| changed_since(*key, earliest))
        };
        let is_in_scan = || {
            let mut keys = self.scanned.iter().flat_map(Range::clone);
            keys.any(|key| changed_since(key, earliest))
        };
        let is_locked = |key: Key| self.prepared.iter().any(|lock| lock.meets(record, key));
        let is_any_locked = || {
            self.own.writes().iter().any(|own| is_locked(own.0))
                || self.held.iter().any(|held| is_locked(held.0))
                || self.read.iter().any(|read| is_locked(read.0))
        };
        let has_cause = self.held.iter().any(is_held_one)
            || match level {
                IsolationLevel::RepeatableRead => {
                    is_written_one() || is_read_one(false) || is_shown_own()
                }
                IsolationLevel::Snapshot => is_written_one(),
                IsolationLevel::Serializable => {
                    is_written_one() || is_read_one(true) || is_in_scan()
                }
                _ => false,
            }
            || is_any_locked();
        ensure(has_cause, || {
            format!(
                "a conflict without a cause: views from {earliest}, nothing changed until {until}"
            )
        })
    }
}
