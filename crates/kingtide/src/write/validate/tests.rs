use std::cell::Cell;

use kingtide_base::EntryKind;
use kingtide_collections::MemtableOp;
use kingtide_format::Op;

use super::*;
use crate::{
    error::ErrorKind,
    family::testing::{family, small},
    memtable::MemtableSource,
    read::newer::Answering,
    version::Version,
};

/// Puts `key` as commit `sequence`.
fn commit(family: &Family, sequence: u64, key: &[u8]) {
    let op = MemtableOp {
        kind: EntryKind::Put,
        expires_at: 0,
        hash: family.order.hash(key).unwrap_or(0),
        key,
        value: b"v",
    };
    family
        .load()
        .active
        .table
        .insert(SeqNo(sequence), (1, |_| op), None)
        .expect("there is room");
}

fn seal(family: &Family) {
    let active = MemtableSource::unbounded().make(&family.order, 64 << 10, 0, 0);
    family.update(|current| current.sealed_with(active));
}

/// Drops the oldest sealed memtable and takes another version, as a flush does.
fn flush(family: &Family) {
    let current = family.load_full();
    let flushed = current.sealed.last().map(Arc::clone);
    let version = Arc::new(Version::empty(family.order.clone()));
    family.update(|current| current.with_version(version, flushed.as_ref()));
}

fn writes(families: &[&Arc<Family>], key: &[u8]) -> WriteSet {
    let mut writes = WriteSet::default();
    for family in families {
        let op = Op {
            kind: EntryKind::Put,
            key,
            value: b"mine",
            expires_at: 0,
        };
        writes.push(family, &op).expect("short");
    }
    writes
}

/// A write set that deletes the range from `lower` to `upper`.
fn range_deletes(family: &Arc<Family>, lower: &[u8], upper: &[u8]) -> WriteSet {
    let mut writes = WriteSet::default();
    let op = Op {
        kind: EntryKind::RangeDelete,
        key: lower,
        value: upper,
        expires_at: 0,
    };
    writes.push(family, &op).expect("short");
    writes.prepare(false);
    writes
}

fn at(snapshot: u64) -> Validation<'static> {
    Validation {
        snapshot: Some(SeqNo(snapshot)),
        reads: None,
        tables: &Answering(|_: &Family, _: &Version, _: (&[u8], Option<u64>), _| Ok(None)),
    }
}

fn check<'a>(writes: &WriteSet, last: SeqNo, validation: Validation<'a>) -> Result<Checked<'a>> {
    super::check(
        writes,
        (Places::note(writes, validation), last),
        validation,
        None,
    )
}

fn is_conflict<T>(outcome: Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == ErrorKind::Conflict)
}

/// Goal: a key written after the snapshot is a conflict, one written before is none. Method: a commit in the active
/// memtable, then in a sealed one, looked at from every snapshot.
#[test]
fn a_later_commit_in_a_memtable_is_a_conflict() {
    for order in ["memcmp", "case_insensitive"] {
        let family = family(1, small(order));
        commit(&family, 3, b"other");
        commit(&family, 5, b"key");
        commit(&family, 7, b"other");
        for is_sealed in [false, true] {
            if is_sealed {
                seal(&family);
            }
            let mine = writes(&[&family], b"key");
            for snapshot in 0..9 {
                let outcome = check(&mine, SeqNo(7), at(snapshot));
                assert_eq!(
                    is_conflict(outcome),
                    snapshot < 5,
                    "{order}, sealed {is_sealed}, {snapshot}"
                );
            }
            assert!(check(&writes(&[&family], b"absent"), SeqNo(7), at(0)).is_ok());
        }
    }
    let family = family(1, small("case_insensitive"));
    commit(&family, 5, b"Key");
    assert!(is_conflict(check(
        &writes(&[&family], b"kEY"),
        SeqNo(5),
        at(4)
    )));
}

/// Goal: the same for tables, which are asked with the family's version and snapshot. Method: a lookup that knows one
/// key in one family.
#[test]
fn a_later_commit_in_a_table_is_a_conflict() {
    let families = [family(1, small("memcmp")), family(2, small("memcmp"))];
    let second = families[1].id;
    let asked = Cell::new(0);
    for (snapshot, is_expected) in [(4, true), (5, false), (6, false)] {
        let tables = Answering(
            |family: &Family, version: &Version, (key, hash): (&[u8], _), newer_than| {
                asked.set(asked.get() + 1);
                assert_eq!(newer_than, SeqNo(snapshot));
                assert_eq!(hash, family.order.hash(key));
                assert!(version.is_empty());
                Ok((family.id == second).then_some(SeqNo(5)))
            },
        );
        let validation = Validation {
            snapshot: Some(SeqNo(snapshot)),
            reads: None,
            tables: &tables,
        };
        let mine = writes(&[&families[0], &families[1]], b"key");
        assert_eq!(is_conflict(check(&mine, SeqNo(9), validation)), is_expected);
    }
    assert_eq!(asked.get(), 6, "both families are asked each time");
}

/// Goal: what a table answers with an error is not taken for the absence of a conflict.
#[test]
fn an_error_of_a_table_is_passed_on() {
    let family = family(1, small("memcmp"));
    let tables = Answering(|_: &Family, _: &Version, _: (&[u8], Option<u64>), _| {
        Err(Error::new(ErrorKind::Corruption, "bad"))
    });
    let validation = Validation {
        snapshot: Some(SeqNo(1)),
        reads: None,
        tables: &tables,
    };
    let outcome = check(&writes(&[&family], b"key"), SeqNo(1), validation);
    assert!(outcome.is_err_and(|error| error.kind() == ErrorKind::Corruption));
}

/// Goal: a commit between the two steps is found by the second. Method: a commit, in the memtable that was looked at
/// and in one sealed since.
#[test]
fn a_commit_between_the_steps_is_a_conflict() {
    for is_sealed in [false, true] {
        let family = family(1, small("memcmp"));
        commit(&family, 2, b"key");
        let mine = writes(&[&family], b"key");
        let checked = check(&mine, SeqNo(2), at(2)).expect("nothing newer");
        commit(&family, 3, b"other");
        let outcome = recheck(&mine, &checked, at(2)).expect("another key");
        assert_eq!(outcome, Recheck::Clean);
        commit(&family, 4, b"key");
        if is_sealed {
            seal(&family);
        }
        assert!(is_conflict(recheck(&mine, &checked, at(2))));
    }
}

/// Goal: when tables changed between the steps, the first is asked for again, for any of the families; then it is
/// clean. Method: the memtable with the conflicting commit is flushed between the steps.
#[test]
fn a_flush_between_the_steps_is_stale() {
    let families = [family(1, small("memcmp")), family(2, small("memcmp"))];
    let mine = writes(&[&families[0], &families[1]], b"key");
    let checked = check(&mine, SeqNo(1), at(1)).expect("nothing there");
    commit(&families[1], 2, b"key");
    seal(&families[1]);
    flush(&families[1]);
    assert!(
        families[1].load().sealed.is_empty(),
        "the commit is in no memtable any more"
    );
    let outcome = recheck(&mine, &checked, at(1)).expect("no conflict in memtables");
    assert_eq!(outcome, Recheck::Stale);
    let again = check(&mine, SeqNo(2), at(2)).expect("the tables of the test know nothing");
    assert_eq!(
        recheck(&mine, &again, at(2)).expect("no conflict"),
        Recheck::Clean
    );
}

fn reads() -> ReadSet {
    let mut reads = ReadSet::default();
    reads.set_limit(1 << 20, 0);
    reads
}

fn reading(snapshot: Option<u64>, reads: &ReadSet) -> Validation<'_> {
    Validation {
        snapshot: snapshot.map(SeqNo),
        reads: Some(reads),
        ..at(0)
    }
}

fn access<T>(outcome: Result<T>) -> Option<ConflictAccess> {
    outcome
        .err()
        .and_then(|error| error.conflict().map(|conflict| conflict.access))
}

/// Goal: keys and ranges that were read conflict with later commits and only with those, in both steps. Method: one
/// commit before or after the snapshot, before or between the steps, in the active memtable or a sealed one.
#[test]
fn what_was_read_conflicts_with_later_commits() {
    use std::ops::Bound::{Excluded, Included};
    type Read = fn(&mut ReadSet, &Arc<Family>) -> Result<()>;
    let cases: [(Read, _); 3] = [
        (
            |reads, family| reads.add_point(family, b"key"),
            ConflictAccess::Read,
        ),
        (
            |reads, family| reads.add_update(family, b"key", SeqNo(5)),
            ConflictAccess::Update,
        ),
        (
            |reads, family| {
                let range = KeyRange {
                    lower: Included(b"a"),
                    upper: Excluded(b"m"),
                };
                reads.add_range(family, range)
            },
            ConflictAccess::Range,
        ),
    ];
    for (read, expected) in cases {
        for (key, sequence) in [(&b"key"[..], 5), (b"key", 6), (b"nobody's", 6)] {
            for (is_between, is_sealed) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let family = family(1, small("memcmp"));
                let mut reads = reads();
                read(&mut reads, &family).expect("fits");
                let validation = reading(Some(5), &reads);
                commit(&family, 4, b"key");
                let none = WriteSet::default();
                let mut checked = None;
                if is_between {
                    checked = Some(check(&none, SeqNo(4), validation).expect("nothing newer"));
                }
                commit(&family, sequence, key);
                if is_sealed {
                    seal(&family);
                }
                let outcome = match checked {
                    Some(checked) => recheck(&none, &checked, validation).map(drop),
                    None => check(&none, SeqNo(sequence), validation).map(drop),
                };
                let is_conflict = sequence > 5 && key == b"key";
                assert_eq!(
                    access(outcome),
                    is_conflict.then_some(expected),
                    "{expected:?} {sequence} between {is_between} sealed {is_sealed}"
                );
            }
        }
    }
}

/// Goal: without a view for all reads, only reads for update are checked, each against what it saw.
#[test]
fn without_one_view_only_updates_are_checked() {
    let family = family(1, small("memcmp"));
    commit(&family, 3, b"key");
    let mut reads = reads();
    reads.add_point(&family, b"key").expect("fits");
    reads.add_update(&family, b"key", SeqNo(3)).expect("fits");
    let mine = writes(&[&family], b"key");
    let validation = reading(None, &reads);
    let checked = check(&mine, SeqNo(3), validation).expect("it saw the newest");
    commit(&family, 4, b"key");
    let outcome = recheck(&mine, &checked, validation);
    assert_eq!(access(outcome), Some(ConflictAccess::Update));
    reads.clear();
    reads.set_limit(1 << 20, 0);
    reads.add_point(&family, b"key").expect("fits");
    check(&mine, SeqNo(4), reading(None, &reads)).expect("plain reads do not count");
}

/// How often the second step sends back to the first one, when 5000 entries of another key arrive each time.
fn returns_with_much_arriving(
    family: &Arc<Family>,
    writes: &WriteSet,
    validation: Validation<'_>,
) -> usize {
    let mut checked = check(writes, SeqNo(0), validation).expect("empty");
    let mut sequence = 0;
    let mut returns = 0;
    let mut arrive = || {
        for _ in 0..5000 {
            sequence += 1;
            commit(family, sequence, b"other");
        }
        SeqNo(sequence)
    };
    loop {
        let last = arrive();
        if recheck(writes, &checked, validation).expect("other keys") == Recheck::Clean {
            return returns;
        }
        returns += 1;
        let again = (Places::note(writes, validation), last);
        checked = super::check(writes, again, validation, Some(checked)).expect("other keys");
    }
}

/// Goal: when much has arrived, it is looked at outside the lock, but not for ever. Method: a range that was read, and one
/// that is deleted.
#[test]
fn much_that_arrived_is_looked_at_outside_the_lock() {
    let mut options = small("memcmp");
    options.write_buffer_bytes = 64 << 20;
    let read = family(1, options.clone());
    let mut reads = reads();
    let range = KeyRange {
        lower: std::ops::Bound::Included(b"a"),
        upper: std::ops::Bound::Included(b"b"),
    };
    reads.add_range(&read, range).expect("fits");
    let validation = reading(Some(0), &reads);
    let returns = returns_with_much_arriving(&read, &WriteSet::default(), validation);
    assert_eq!(returns, RETURNS_MAX);

    let deleted = family(2, options);
    let writes = range_deletes(&deleted, b"a", b"b");
    let returns = returns_with_much_arriving(&deleted, &writes, at(0));
    assert_eq!(returns, RETURNS_MAX);
}

/// A small generator of numbers; its seed is printed with every failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Goal: validation answers a conflict exactly when a commit after the snapshot, before or between the steps, touches a
/// read. Method: random commits, seals and reads, few and many, under several orders, against a list of commits.
// Promise: serializable.
#[test]
fn validation_of_reads_agrees_with_a_list() {
    let mut conflicts = 0;
    for seed in 0..600 {
        let mut random = Random(seed);
        let order = ["memcmp", "reverse_memcmp", "case_insensitive"][random.below(3) as usize];
        let family = family(1, small(order));
        let key = |number: u64| [b'k', number as u8];
        let mut commits: Vec<(u64, u64)> = Vec::new();
        let mut sequence = 0;
        let mut write = |random: &mut Random, count: u64| {
            for _ in 0..count {
                sequence += 1;
                let number = random.below(200);
                commit(&family, sequence, &key(number));
                commits.push((sequence, number));
                if random.below(12) == 0 {
                    seal(&family);
                }
            }
            sequence
        };
        let count = random.below(60);
        let snapshot = write(&mut random, count);
        let mut reads = reads();
        let points: Vec<u64> = (0..random.below(30)).map(|_| random.below(200)).collect();
        let ranges: Vec<(u64, u64)> = (0..random.below(4))
            .map(|_| (random.below(200), random.below(200)))
            .collect();
        for point in &points {
            reads.add_point(&family, &key(*point)).expect("fits");
        }
        for (lower, upper) in &ranges {
            let (lower, upper) = (key(*lower), key(*upper));
            let range = KeyRange {
                lower: std::ops::Bound::Included(&lower),
                upper: std::ops::Bound::Excluded(&upper),
            };
            reads.add_range(&family, range).expect("fits");
        }
        let count = random.below(6);
        let last = write(&mut random, count);
        let validation = reading(Some(snapshot), &reads);
        let none = WriteSet::default();
        let first = check(&none, SeqNo(last), validation);
        let count = random.below(6);
        let end = write(&mut random, count);
        let second = first
            .as_ref()
            .ok()
            .map(|checked| recheck(&none, checked, validation));
        let compare = |left: u64, right: u64| family.order.compare(&key(left), &key(right));
        let touches = |number: u64| {
            points.iter().any(|point| compare(*point, number).is_eq())
                || ranges.iter().any(|(lower, upper)| {
                    compare(*lower, number).is_le() && compare(number, *upper).is_lt()
                })
        };
        let expected = |through: u64| {
            commits.iter().any(|(sequence, number)| {
                (snapshot + 1..=through).contains(sequence) && touches(*number)
            })
        };
        assert_eq!(is_conflict(first), expected(last), "seed {seed}, step 1");
        if let Some(second) = second {
            assert_eq!(is_conflict(second), expected(end), "seed {seed}, step 2");
        }
        conflicts += u64::from(expected(end));
    }
    assert!((100..500).contains(&conflicts), "{conflicts} conflicts");
}

/// Deletes the range from `start` to `end` (empty: no end) as commit `sequence`.
fn delete_range(family: &Family, sequence: u64, start: &[u8], end: &[u8]) {
    family
        .load()
        .active
        .table
        .delete_ranges(SeqNo(sequence), [(start, end)].into_iter())
        .expect("there is room");
}

/// Goal: what arrives between the steps conflicts with a range delete when it touches the range, and a range delete that
/// arrives conflicts with what it touches. Method: every commit on its own, with and without a new memtable.
#[test]
fn range_deletes_are_looked_at_between_the_steps() {
    type Commit = fn(&Family);
    let commits: [(Commit, bool, bool); 6] = [
        (|family| commit(family, 3, b"f"), false, false),
        (|family| commit(family, 3, b"g"), true, true),
        (|family| commit(family, 3, b"k"), false, false),
        (|family| delete_range(family, 3, b"a", b"g"), false, false),
        (|family| delete_range(family, 3, b"a", b"h"), true, true),
        (|family| delete_range(family, 3, b"j", b""), true, false),
    ];
    for (index, (commit_other, meets_range, meets_key)) in commits.into_iter().enumerate() {
        for is_sealed in [false, true] {
            let family = family(1, small("memcmp"));
            commit(&family, 2, b"h");
            let ranges = range_deletes(&family, b"g", b"k");
            let key = writes(&[&family], b"g");
            let checked_ranges = check(&ranges, SeqNo(2), at(2)).expect("nothing newer");
            let checked_key = check(&key, SeqNo(2), at(2)).expect("nothing newer");
            if is_sealed {
                seal(&family);
            }
            commit_other(&family);
            let outcome = recheck(&ranges, &checked_ranges, at(2));
            assert_eq!(is_conflict(outcome), meets_range, "commit {index}");
            let outcome = recheck(&key, &checked_key, at(2));
            assert_eq!(is_conflict(outcome), meets_key, "commit {index}");
            // Step 1 alone, after the fact, says the same.
            let outcome = check(&ranges, SeqNo(3), at(2));
            assert_eq!(is_conflict(outcome), meets_range, "commit {index}");
        }
    }
}
