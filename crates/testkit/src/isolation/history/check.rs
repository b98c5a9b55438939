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
//! 4. A conflict has a cause: between the earliest possible view and the end of the commit, something was committed that
//!    the level protects the transaction from. Transactions that wrote nothing, or below repeatable read, have none.
//!
//! Uncommitted and intermediate values are no version of any key, so reading one leaves no view.

use kingtide::IsolationLevel;

use super::{
    record::{Ending, Key, Log, Number, Operation, Part, Record, Span, Window},
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
            Operation::Read { span, parts } => {
                text.push_str(&format!("\n  read {span:?}"));
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
    text.push_str(&format!(
        "\n  ended {:?}: {:?}\n",
        record.end, record.ending
    ));
    text
}

/// A key that was read from others, and what was found.
type Found = (Key, Option<Number>);

/// The checker with memory that is used again for every transaction.
struct Check<'a> {
    log: &'a Log,
    versions: &'a Versions,
    own: Vec<(Key, Option<Number>)>,
    read: Vec<Found>,
}

impl<'a> Check<'a> {
    const fn new(log: &'a Log, versions: &'a Versions) -> Self {
        Self {
            log,
            versions,
            own: Vec::new(),
            read: Vec::new(),
        }
    }

    fn transaction(&mut self, record: &Record) -> Checked {
        self.own.clear();
        self.read.clear();
        let mut view = self.moments(&record.begin);
        for operation in self.log.operations_of(record) {
            match operation {
                Operation::Write(key, number) => {
                    self.own.retain(|own| own.0 != *key);
                    self.own.push((*key, *number));
                }
                Operation::Read { span, parts } => {
                    let mut fresh = self.moments(span);
                    let moments = if record.level.has_one_view() {
                        &mut view
                    } else {
                        &mut fresh
                    };
                    for part in &self.log.parts[parts.clone()] {
                        self.part(part, moments)?;
                    }
                }
            }
        }
        match record.ending {
            Ending::RolledBack => Ok(()),
            Ending::Committed(0) => ensure(self.own.is_empty(), || {
                "a commit that wrote has no sequence number".to_owned()
            }),
            Ending::Committed(sequence) => self.commit(record.level, sequence, view),
            Ending::Conflict => self.conflict(record, &view),
        }
    }

    /// The views that something taken at `span` may have.
    fn moments(&self, span: &Span) -> Moments {
        Moments::between(span.floor, self.versions.ceiling(span.to))
    }

    fn part(&mut self, part: &Part, moments: &mut Moments) -> Checked {
        match part {
            Part::Point(key, number) => self.key(*key, *number, moments),
            Part::Range(keys, items) => {
                let mut items = self.log.items[items.clone()].iter().peekable();
                for key in keys.clone() {
                    let number = items.next_if(|item| item.0 == key).map(|item| item.1);
                    self.key(key, number, moments)?;
                }
                ensure(items.peek().is_none(), || {
                    format!("the scan of {keys:?} found keys beyond, or not in order")
                })
            }
        }
    }

    fn key(&mut self, key: Key, number: Option<Number>, moments: &mut Moments) -> Checked {
        if let Some((_, own)) = self.own.iter().find(|own| own.0 == key) {
            return ensure(number == *own, || {
                format!("its own write {own:?} of key {key} is read as {number:?}")
            });
        }
        self.read.push((key, number));
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
        ensure(!self.own.is_empty(), || {
            "a commit that wrote nothing has a sequence number".to_owned()
        })?;
        if !level.has_one_view() {
            return Ok(());
        }
        view.cut(sequence - 1);
        let Some(latest) = view.last() else {
            return Err(Violation::new("it committed before what it saw"));
        };
        for (key, _) in &self.own {
            self.unchanged(*key, latest, sequence, "written by both")?;
        }
        if level == IsolationLevel::RepeatableRead {
            for (key, _) in self.read.iter().filter(|read| read.1.is_some()) {
                self.unchanged(*key, latest, sequence, "found and then changed")?;
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

    /// Checks that nobody wrote `key` after `view` and before `sequence`.
    fn unchanged(&self, key: Key, view: u64, sequence: u64, what: &str) -> Checked {
        let written = self.versions.written_at(key, sequence - 1);
        ensure(written <= view, || {
            format!("key {key} was {what}: by commit {written}, after the view {view}")
        })
    }

    fn conflict(&self, record: &Record, view: &Moments) -> Checked {
        let level = record.level;
        ensure(!self.own.is_empty(), || {
            "a conflict of a transaction that only read".to_owned()
        })?;
        ensure(level.has_one_view(), || {
            "a conflict without a check".to_owned()
        })?;
        let earliest = view.first().unwrap_or(record.begin.floor);
        let until = self.versions.ceiling(record.end.to);
        let is_changed = |key: Key| self.versions.written_at(key, until) > earliest;
        let reads = || self.read.iter();
        let has_cause = self.own.iter().any(|own| is_changed(own.0))
            || match level {
                IsolationLevel::RepeatableRead => {
                    reads().any(|read| read.1.is_some() && is_changed(read.0))
                }
                IsolationLevel::Serializable => reads().any(|read| is_changed(read.0)),
                _ => false,
            };
        ensure(has_cause, || {
            format!(
                "a conflict without a cause: views from {earliest}, nothing changed until {until}"
            )
        })
    }
}
