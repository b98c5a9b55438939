//! The checker is shown histories with one thing wrong, for every rule, and must say so; and right ones, and must not.
//!
//! A [`Story`] plays the recorder: calls in the order of real time, with whatever answers the test wants.

use std::ops::Range;

use kingtide::IsolationLevel::{
    self, ReadCommitted, ReadUncommitted, RepeatableRead, Serializable, Snapshot,
};

use super::{
    check::check_window,
    independent::anomalies,
    own::Own,
    record::{Ending, Key, Log, Number, Operation, Part, Record, Role, Span, Window},
};
use crate::isolation::LEVELS;

/// The sequence number of the state at the beginning, in which key `k` holds `k + 1`.
const BEFORE: u64 = 10;
const KEYS: usize = 4;
const X: Key = 0;
const Y: Key = 1;
/// Not there in the beginning.
const GAP: Key = 3;

struct Story {
    window: Window,
    stamp: u64,
    acknowledged: u64,
    open: Vec<Log>,
}

/// A transaction of the story.
#[derive(Clone, Copy)]
struct Name(usize);

impl Story {
    fn new() -> Self {
        let state: Vec<_> = (1..KEYS as u64).map(Some).chain([None]).collect();
        Self {
            window: Window {
                before: state.clone(),
                after: state,
                sequence_before: BEFORE,
                log: Log::default(),
            },
            stamp: 1,
            acknowledged: BEFORE,
            open: Vec::new(),
        }
    }

    fn span(&mut self) -> Span {
        self.stamp += 2;
        Span {
            floor: self.acknowledged,
            from: self.stamp - 2,
            to: self.stamp - 1,
        }
    }

    fn begin(&mut self, level: IsolationLevel) -> Name {
        let span = self.span();
        let mut log = Log::default();
        log.records.push(Record {
            process: self.open.len() as u32 + 1,
            level,
            begin: span,
            operations: 0..0,
            prepared: None,
            end: span,
            ending: Ending::RolledBack,
        });
        self.open.push(log);
        Name(self.open.len() - 1)
    }

    fn read(&mut self, name: Name, parts: impl IntoIterator<Item = Part>) {
        self.read_as(name, Role::Plain, parts);
    }

    fn read_as(&mut self, Name(index): Name, role: Role, parts: impl IntoIterator<Item = Part>) {
        let span = self.span();
        let log = &mut self.open[index];
        let start = log.parts.len();
        log.parts.extend(parts);
        let parts = start..log.parts.len();
        log.operations.push(Operation::Read { span, parts, role });
    }

    fn get(&mut self, name: Name, key: Key, number: impl Into<Option<Number>>) {
        self.read(name, [Part::Point(key, number.into())]);
    }

    fn scan(&mut self, name: Name, keys: Range<Key>, found: &[(Key, Number)]) {
        let items = &mut self.open[name.0].items;
        let start = items.len();
        items.extend(found);
        let items = start..items.len();
        self.read(name, [Part::Range(keys, items)]);
    }

    fn write(&mut self, Name(index): Name, key: Key, number: impl Into<Option<Number>>) {
        let write = Operation::Write(key, number.into());
        self.open[index].operations.push(write);
    }

    fn push(&mut self, Name(index): Name, operation: Operation) {
        self.open[index].operations.push(operation);
    }

    fn end(&mut self, Name(index): Name, ending: Ending) {
        let end = self.span();
        let log = &mut self.open[index];
        log.records[0].operations = 0..log.operations.len();
        (log.records[0].end, log.records[0].ending) = (end, ending);
        if let Ending::Committed(sequence) = ending {
            self.acknowledged = self.acknowledged.max(sequence);
        }
    }

    fn prepare(&mut self, Name(index): Name) {
        let span = self.span();
        self.open[index].records[0].prepared = Some(span);
    }

    fn commit(&mut self, name: Name, sequence: u64) {
        self.end(name, Ending::Committed(sequence));
    }

    /// A transaction that only writes, from begin to commit.
    fn set(&mut self, sequence: u64, writes: &[(Key, Option<Number>)]) {
        let name = self.begin(Snapshot);
        for (key, number) in writes {
            self.write(name, *key, *number);
        }
        self.commit(name, sequence);
    }

    /// The window, with the state that its commits leave.
    fn window(mut self) -> Window {
        let mut commits: Vec<(u64, &Log)> = Vec::new();
        for log in &self.open {
            if let Ending::Committed(sequence) = log.records[0].ending {
                commits.push((sequence, log));
            }
        }
        commits.sort_by_key(|commit| commit.0);
        let mut own = Own::default();
        for (_, log) in commits {
            own.clear();
            log.operations
                .iter()
                .for_each(|operation| own.apply(operation));
            for (key, number) in own.writes() {
                self.window.after[usize::from(*key)] = *number;
            }
        }
        for mut log in self.open {
            self.window.log.append(&mut log);
        }
        self.window
    }

    #[track_caller]
    fn must_pass(self) {
        check_window(&self.window()).unwrap_or_else(|violation| panic!("{violation}"));
    }

    #[track_caller]
    fn must_fail(self, why: &str) {
        let violation = check_window(&self.window()).expect_err("the checker must object");
        let text = violation.to_string();
        assert!(text.contains(why), "{text}");
    }
}

/// Checks that the story is right at exactly these levels.
#[track_caller]
fn right_at(levels: &[IsolationLevel], story: impl Fn(IsolationLevel) -> Story) {
    for level in LEVELS {
        let outcome = check_window(&story(level).window());
        assert_eq!(
            outcome.is_ok(),
            levels.contains(&level),
            "{level:?}: {outcome:?}"
        );
    }
}

#[test]
fn transactions_one_after_the_other_are_right_at_every_level() {
    right_at(&LEVELS, |level| {
        let mut story = Story::new();
        let first = story.begin(level);
        story.get(first, X, 1);
        story.scan(first, 0..4, &[(0, 1), (1, 2), (2, 3)]);
        story.write(first, X, 100);
        story.write(first, GAP, 101);
        story.write(first, Y, None);
        story.get(first, X, 100);
        story.commit(first, 11);
        let second = story.begin(level);
        story.scan(second, 0..4, &[(0, 100), (2, 3), (3, 101)]);
        story.commit(second, 0);
        story
    });
}

#[test]
fn a_lost_update_is_found() {
    right_at(&[ReadUncommitted, ReadCommitted], |level| {
        let mut story = Story::new();
        let (first, second) = (story.begin(level), story.begin(level));
        story.get(first, X, 1);
        story.get(second, X, 1);
        story.write(first, X, 100);
        story.write(second, X, 200);
        story.commit(first, 11);
        story.commit(second, 12);
        story
    });
}

#[test]
fn two_blind_writers_of_a_key_are_found() {
    right_at(&[ReadUncommitted, ReadCommitted], |level| {
        let mut story = Story::new();
        let (first, second) = (story.begin(level), story.begin(level));
        story.get(first, Y, 2);
        story.get(second, Y, 2);
        story.write(first, X, 100);
        story.write(second, X, 200);
        story.commit(first, 11);
        story.commit(second, 12);
        // The second one's view is the beginning: a later commit shows that it did not begin after the first.
        story
    });
    // Without reads the views are bounded by real time alone: the second began before the first committed.
    let mut story = Story::new();
    let (first, second) = (story.begin(Snapshot), story.begin(Snapshot));
    story.write(first, X, 100);
    story.write(second, X, 200);
    story.commit(first, 11);
    story.commit(second, 12);
    story.must_fail("written by both");
}

#[test]
fn a_broken_view_is_found() {
    // Two reads of one transaction.
    right_at(&[ReadUncommitted, ReadCommitted], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        story.get(reader, X, 1);
        story.set(11, &[(X, Some(100)), (Y, Some(101))]);
        story.get(reader, Y, 101);
        story.commit(reader, 0);
        story
    });
    // One read of two keys, and one scan: wrong everywhere.
    right_at(&[], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        let writer = story.begin(Snapshot);
        story.write(writer, X, 100);
        story.write(writer, Y, 101);
        story.read(reader, [Part::Point(X, Some(100)), Part::Point(Y, Some(2))]);
        story.commit(writer, 11);
        story.commit(reader, 0);
        story
    });
    right_at(&[], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        let writer = story.begin(Snapshot);
        story.write(writer, X, 100);
        story.write(writer, GAP, 101);
        story.scan(reader, 0..4, &[(0, 100), (1, 2), (2, 3)]);
        story.commit(writer, 11);
        story.commit(reader, 0);
        story
    });
}

#[test]
fn a_read_that_changes_is_found() {
    right_at(&[ReadUncommitted, ReadCommitted], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        story.scan(reader, 2..4, &[(2, 3)]);
        story.set(11, &[(GAP, Some(100))]);
        story.scan(reader, 2..4, &[(2, 3), (3, 100)]);
        story.commit(reader, 0);
        story
    });
}

#[test]
fn a_stale_read_is_found() {
    // The commit was acknowledged before the reader began.
    right_at(&[], |level| {
        let mut story = Story::new();
        story.set(11, &[(X, Some(100))]);
        let reader = story.begin(level);
        story.get(reader, X, 1);
        story.commit(reader, 0);
        story
    });
    // After it began, before it read: right where the view is that of the beginning.
    right_at(&[RepeatableRead, Snapshot, Serializable], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        story.set(11, &[(GAP, Some(100))]);
        story.get(reader, GAP, None);
        story.commit(reader, 0);
        story
    });
}

#[test]
fn a_read_of_the_future_is_found() {
    right_at(&[], |level| {
        let mut story = Story::new();
        let reader = story.begin(level);
        story.get(reader, X, None);
        story.commit(reader, 0);
        story.set(11, &[(X, None)]);
        story
    });
}

#[test]
fn uncommitted_and_intermediate_values_are_found() {
    for ending in [Ending::RolledBack, Ending::Conflict] {
        right_at(&[], |level| {
            let mut story = Story::new();
            let (writer, reader) = (story.begin(Snapshot), story.begin(level));
            story.write(writer, X, 100);
            story.get(reader, X, 100);
            story.set(11, &[(X, Some(50))]);
            story.end(writer, ending);
            story.commit(reader, 0);
            story
        });
    }
    right_at(&[], |level| {
        let mut story = Story::new();
        let (writer, reader) = (story.begin(Snapshot), story.begin(level));
        story.write(writer, X, 100);
        story.write(writer, X, 101);
        story.get(reader, X, 100);
        story.commit(writer, 11);
        story.commit(reader, 0);
        story
    });
}

#[test]
fn own_writes_that_are_not_seen_are_found() {
    let mut story = Story::new();
    let writer = story.begin(ReadCommitted);
    story.write(writer, X, 100);
    story.get(writer, X, 1);
    story.commit(writer, 11);
    story.must_fail("its own write");
    let mut story = Story::new();
    let writer = story.begin(Serializable);
    story.write(writer, X, None);
    story.scan(writer, 0..2, &[(0, 1), (1, 2)]);
    story.commit(writer, 11);
    story.must_fail("its own write");
}

#[test]
fn write_skew_is_found_where_it_is_prevented() {
    right_at(&[ReadUncommitted, ReadCommitted, Snapshot], |level| {
        let mut story = Story::new();
        let (first, second) = (story.begin(level), story.begin(level));
        for name in [first, second] {
            story.read(name, [Part::Point(X, Some(1)), Part::Point(Y, Some(2))]);
        }
        story.write(first, X, 100);
        story.write(second, Y, 200);
        story.commit(first, 11);
        story.commit(second, 12);
        story
    });
}

#[test]
fn predicate_write_skew_is_found_where_it_is_prevented() {
    let others = [ReadUncommitted, ReadCommitted, RepeatableRead, Snapshot];
    // A scan that would find more, and a miss that would find something.
    right_at(&others, |level| {
        let mut story = Story::new();
        let (first, second) = (story.begin(level), story.begin(level));
        story.scan(first, 2..4, &[(2, 3)]);
        story.get(second, X, 1);
        story.write(first, X, 100);
        story.write(second, GAP, 200);
        story.commit(second, 11);
        story.commit(first, 12);
        story
    });
    right_at(&others, |level| {
        let mut story = Story::new();
        let (first, second) = (story.begin(level), story.begin(level));
        story.get(first, GAP, None);
        story.get(second, X, 1);
        story.write(first, X, 100);
        story.write(second, GAP, 200);
        story.commit(second, 11);
        story.commit(first, 12);
        story
    });
}

#[test]
fn an_order_against_real_time_is_found() {
    let mut story = Story::new();
    story.set(12, &[(X, Some(100))]);
    story.set(11, &[(Y, Some(101))]);
    story.must_fail("ordered before");
    let mut story = Story::new();
    let (first, second) = (story.begin(Snapshot), story.begin(Snapshot));
    story.write(first, X, 100);
    story.write(second, Y, 101);
    story.commit(first, 11);
    story.commit(second, 11);
    story.must_fail("given twice");
}

#[test]
fn a_state_that_the_commits_do_not_leave_is_found() {
    let mut story = Story::new();
    story.set(11, &[(X, Some(100))]);
    let mut window = story.window();
    window.after[0] = Some(1);
    let violation = check_window(&window).expect_err("a lost commit");
    assert!(violation.to_string().contains("in the end"), "{violation}");
}

#[test]
fn a_conflict_needs_a_cause() {
    let conflict = |level, touches: bool| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.get(name, Y, 2);
        story.write(name, X, 100);
        story.set(11, &[(if touches { X } else { 2 }, Some(50))]);
        story.end(name, Ending::Conflict);
        story
    };
    right_at(&[RepeatableRead, Snapshot, Serializable], |level| {
        conflict(level, true)
    });
    right_at(&[], |level| conflict(level, false));
    // What was read is a cause only where reads are checked.
    right_at(&[RepeatableRead, Serializable], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.get(name, Y, 2);
        story.write(name, X, 100);
        story.set(11, &[(Y, Some(50))]);
        story.end(name, Ending::Conflict);
        story
    });
    // A transaction that only read has none.
    right_at(&[], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.get(name, X, 1);
        story.set(11, &[(X, Some(50))]);
        story.end(name, Ending::Conflict);
        story
    });
}

/// Serializable remembers a scanned range as a whole, with the keys in it that were the transaction's own; repeatable read
/// what a scan showed.
#[test]
fn what_was_scanned_over_own_writes_is_a_cause() {
    right_at(&[RepeatableRead, Serializable], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.write(name, 2, 200);
        story.push(name, Operation::Save);
        story.write(name, Y, 100);
        story.scan(name, 0..2, &[(0, 1), (1, 100)]);
        story.push(name, Operation::Undo);
        story.set(11, &[(Y, Some(50))]);
        story.end(name, Ending::Conflict);
        story
    });
}

#[test]
fn what_is_prepared_is_a_cause_while_it_lasts() {
    // The other one wrote nothing yet, but may: at every level.
    let story = |level, is_meanwhile: bool, key: Key| {
        let mut story = Story::new();
        let (waiting, name) = (story.begin(level), story.begin(level));
        story.write(waiting, X, 100);
        story.write(name, key, 200);
        story.prepare(waiting);
        if is_meanwhile {
            story.end(name, Ending::Conflict);
        }
        story.end(waiting, Ending::RolledBack);
        if !is_meanwhile {
            story.end(name, Ending::Conflict);
        }
        story
    };
    right_at(&LEVELS, |level| story(level, true, X));
    right_at(&[], |level| story(level, false, X));
    right_at(&[], |level| story(level, true, Y));
}

#[test]
fn a_commit_without_a_place_is_found() {
    let mut story = Story::new();
    let name = story.begin(ReadCommitted);
    story.write(name, X, 100);
    story.end(name, Ending::Committed(0));
    let mut window = story.window();
    window.after = window.before.clone();
    assert!(check_window(&window).is_err());
    let mut story = Story::new();
    let name = story.begin(ReadCommitted);
    story.get(name, X, 1);
    story.commit(name, 11);
    story.must_fail("wrote nothing");
}

#[test]
fn entries_outside_of_a_scan_are_found() {
    let mut story = Story::new();
    let name = story.begin(ReadCommitted);
    story.scan(name, 0..2, &[(0, 1), (1, 2), (2, 3)]);
    story.commit(name, 0);
    story.must_fail("beyond");
}

#[test]
fn what_is_read_for_update_may_not_change() {
    // A write of another one in between, and a commit all the same.
    right_at(&[], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.read_as(name, Role::ForUpdate, [Part::Point(X, Some(1))]);
        story.write(name, Y, 100);
        story.set(11, &[(X, Some(50))]);
        story.commit(name, 12);
        story
    });
    // The same without a write.
    right_at(&[], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.read_as(name, Role::ForUpdate, [Part::Point(GAP, None)]);
        story.set(11, &[(GAP, Some(50))]);
        story.commit(name, 0);
        story
    });
    // The conflict is right, without writes and at every level.
    right_at(&LEVELS, |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.read_as(name, Role::ForUpdate, [Part::Point(X, Some(1))]);
        story.set(11, &[(X, Some(50))]);
        story.end(name, Ending::Conflict);
        story
    });
    // Below repeatable read the view is that of the read: what came before it is no cause.
    right_at(&[RepeatableRead, Snapshot, Serializable], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.set(11, &[(X, Some(50))]);
        let seen = if level.has_one_view() { 1 } else { 50 };
        story.read_as(name, Role::ForUpdate, [Part::Point(X, Some(seen))]);
        story.end(name, Ending::Conflict);
        story
    });
}

#[test]
fn what_is_read_untracked_fits_the_view_and_is_not_protected() {
    right_at(&LEVELS, |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.read_as(name, Role::Untracked, [Part::Point(X, Some(1))]);
        story.write(name, Y, 100);
        story.set(11, &[(X, Some(50))]);
        story.commit(name, 12);
        story
    });
    right_at(&[], |level| {
        let mut story = Story::new();
        story.set(11, &[(X, Some(50))]);
        let name = story.begin(level);
        story.read_as(name, Role::Untracked, [Part::Point(X, Some(1))]);
        story.commit(name, 0);
        story
    });
}

#[test]
fn a_range_delete_writes_all_its_keys() {
    let others = [ReadUncommitted, ReadCommitted];
    right_at(&others, |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.push(name, Operation::Clear(0..4));
        story.set(11, &[(GAP, Some(50))]);
        story.commit(name, 12);
        story
    });
    right_at(&[], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.push(name, Operation::Clear(0..4));
        story.get(name, Y, 2);
        story.commit(name, 11);
        story
    });
}

#[test]
fn what_is_undone_is_not_written() {
    // Neither committed nor seen, while the write before the savepoint is both.
    right_at(&LEVELS, |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.write(name, X, 100);
        story.push(name, Operation::Save);
        story.write(name, X, 101);
        story.write(name, Y, 102);
        story.get(name, X, 101);
        story.push(name, Operation::Undo);
        story.get(name, X, 100);
        story.get(name, Y, 2);
        story.commit(name, 11);
        let reader = story.begin(level);
        story.scan(reader, 0..4, &[(0, 100), (1, 2), (2, 3)]);
        story.commit(reader, 0);
        story
    });
    right_at(&[], |level| {
        let mut story = Story::new();
        let name = story.begin(level);
        story.push(name, Operation::Save);
        story.write(name, Y, 102);
        story.push(name, Operation::Undo);
        story.write(name, X, 100);
        story.commit(name, 11);
        let reader = story.begin(level);
        story.get(reader, Y, 102);
        story.commit(reader, 0);
        story
    });
}

/// The checker by others sees the same: write skew between two transactions, allowed by one model and not by another.
#[test]
fn the_independent_checker_sees_write_skew() {
    let story = || {
        let mut story = Story::new();
        let (first, second) = (story.begin(Snapshot), story.begin(Snapshot));
        for name in [first, second] {
            story.get(name, X, 1);
            story.get(name, Y, 2);
        }
        story.write(first, X, 100);
        story.write(second, Y, 200);
        story.commit(first, 11);
        story.commit(second, 12);
        story.window()
    };
    assert_eq!(anomalies(&story(), &["strong-snapshot-isolation"]), [""; 0]);
    let found = anomalies(&story(), &["strict-serializable"]);
    assert!(
        found.iter().any(|text| text.starts_with("G2-item")),
        "{found:?}"
    );
}

#[test]
fn a_right_story_stays_right_beside_conflicts() {
    let mut story = Story::new();
    let (first, second) = (story.begin(Serializable), story.begin(Serializable));
    story.get(first, X, 1);
    story.get(second, X, 1);
    story.write(first, X, 100);
    story.write(second, X, 200);
    story.commit(first, 11);
    story.end(second, Ending::Conflict);
    story.must_pass();
}
