use std::cell::Cell;

use kingtide_base::EntryKind;
use kingtide_collections::MemtableOp;
use kingtide_format::Op;

use super::*;
use crate::{
    family::testing::{family, small},
    memtable::MemtableSource,
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
        .insert(SeqNo(sequence), [op].into_iter(), None)
        .expect("there is room");
}

fn seal(family: &Family) {
    let active = MemtableSource::new(0).make(&family.order, 64 << 10, 0, 0);
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

const NOT_IN_TABLES: &TableLookup<'static> = &|_, _, _, _| Ok(None);

fn at(snapshot: u64) -> Validation<'static> {
    Validation {
        snapshot: SeqNo(snapshot),
        in_tables: NOT_IN_TABLES,
    }
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
        let in_tables: &TableLookup<'_> = &|family, version, (key, hash), newer_than| {
            asked.set(asked.get() + 1);
            assert_eq!(newer_than, SeqNo(snapshot));
            assert_eq!(hash, family.order.hash(key));
            assert!(version.is_empty());
            Ok((family.id == second).then_some(SeqNo(5)))
        };
        let validation = Validation {
            snapshot: SeqNo(snapshot),
            in_tables,
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
    let in_tables: &TableLookup<'_> = &|_, _, _, _| Err(Error::new(ErrorKind::Corruption, "bad"));
    let validation = Validation {
        snapshot: SeqNo(1),
        in_tables,
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
