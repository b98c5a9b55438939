//! The alphabet: what a sequence is made of, what comes before it, and what is looked at behind it.
//!
//! Families `f0` and `f1` are there from the beginning, with entries in a table and in memtables, in and out of the
//! value log, and a transaction that is prepared. A letter is a few operations; those of one place in a sequence have
//! names of their own where the database wants them.

use kingtide::IsolationLevel;

use crate::metamorphic::{Change, ChangeKind, From, Operation, ReadKind};

/// A letter: its name, and what it does at a place in a sequence.
pub(super) type Letter = (&'static str, fn(usize) -> Vec<Operation>);

/// The alphabet.
pub(super) const LETTERS: [Letter; 31] = [
    ("put", |at| vec![write(vec![put(0, "k1", at)])]),
    ("put-other", |at| vec![write(vec![put(1, "k1", at)])]),
    ("put-new", |at| vec![write(vec![put(0, "k3", at)])]),
    ("put-long", |at| vec![write(vec![put_long(0, "k1", at)])]),
    ("put-expired", |_| {
        let kind = ChangeKind::Put(b"over".to_vec(), Some(-1));
        vec![write(vec![change(0, "k1", kind)])]
    }),
    ("delete", |_| {
        vec![write(vec![change(0, "k1", ChangeKind::Delete)])]
    }),
    ("single-delete", |_| {
        vec![write(vec![change(0, "k2", ChangeKind::SingleDelete)])]
    }),
    ("delete-range", |_| {
        let kind = ChangeKind::DeleteRange(b"k3".to_vec());
        vec![write(vec![change(0, "k1", kind)])]
    }),
    ("transaction", |at| {
        let gone = change(1, "k2", ChangeKind::Delete);
        vec![write(vec![put(0, "k2", at), put_long(1, "k1", at), gone])]
    }),
    ("conflict", |at| {
        vec![
            Operation::Begin(0, IsolationLevel::Snapshot, None),
            Operation::Buffer(0, put(0, "k2", at)),
            write(vec![put(0, "k2", at + 10)]),
            Operation::Commit(0),
        ]
    }),
    ("begin", |at| {
        vec![
            Operation::Begin(1, IsolationLevel::Serializable, None),
            Operation::Get(From::Transaction(1), 0, keys(), ReadKind::Tracked),
            Operation::Buffer(1, put(1, "k3", at)),
        ]
    }),
    ("commit", |_| vec![Operation::Commit(1)]),
    ("prepare", |at| {
        vec![
            Operation::Begin(2, IsolationLevel::RepeatableRead, None),
            Operation::Buffer(2, put(0, "p", at)),
            Operation::Buffer(2, put_long(1, "p", at)),
            Operation::Prepare(2, format!("p{at}").into_bytes()),
        ]
    }),
    ("commit-prepared", |_| vec![Operation::EndPrepared(0, true)]),
    ("roll-back-prepared", |_| {
        vec![Operation::EndPrepared(0, false)]
    }),
    ("flush", |_| vec![Operation::Flush(0, false)]),
    ("flush-other", |_| vec![Operation::Flush(1, false)]),
    ("compact", |_| vec![Operation::Compact(0)]),
    ("compact-range", |_| {
        let bounds = (Some(b"k1".to_vec()), Some(b"k2".to_vec()));
        vec![Operation::CompactRange(0, bounds)]
    }),
    ("rest", |_| vec![Operation::Rest]),
    ("sync", |_| vec![Operation::SyncWal]),
    ("reopen", |_| vec![Operation::Reopen]),
    ("create", |_| vec![Operation::Create(2, "reverse_memcmp")]),
    ("drop", |_| vec![Operation::Drop(1)]),
    ("rename", |_| vec![Operation::Rename(1, 2)]),
    ("clone", |_| vec![Operation::Clone(1, 3)]),
    ("bulk-load", |at| {
        let entry = |key: &str| (key.as_bytes().to_vec(), value(at, 40));
        vec![Operation::BulkLoad(1, vec![entry("k1"), entry("k4")])]
    }),
    ("checkpoint", |_| vec![Operation::Copy(false)]),
    ("backup", |_| vec![Operation::Copy(true)]),
    ("snapshot", |_| vec![Operation::Snapshot(0)]),
    ("settings", |_| vec![Operation::ChangeSettings(0)]),
];

/// What comes before every sequence.
pub(super) fn opening() -> Vec<Operation> {
    vec![
        Operation::Create(0, "memcmp"),
        Operation::Create(1, "memcmp"),
        write(vec![put(0, "k1", 20), put(0, "k2", 20), put(1, "k1", 20)]),
        Operation::Flush(0, false),
        write(vec![put_long(0, "k1", 21), put(1, "k2", 21)]),
        Operation::Begin(2, IsolationLevel::ReadCommitted, None),
        Operation::Buffer(2, put(0, "q", 22)),
        Operation::Prepare(2, b"q".to_vec()),
    ]
}

/// What is read behind every sequence.
pub(super) fn ending() -> Vec<Operation> {
    let mut reads = vec![
        Operation::Get(From::Newest, 0, keys(), ReadKind::Tracked),
        Operation::Get(From::Snapshot(0), 0, keys(), ReadKind::Tracked),
        Operation::Scan(From::Snapshot(0), 1, (None, None), false),
        Operation::ListPrepared,
    ];
    let scans = (0..4).map(|family| Operation::Scan(From::Newest, family, (None, None), true));
    reads.extend(scans);
    reads
}

fn keys() -> Vec<Vec<u8>> {
    ["k1", "k2", "k3"].map(|key| key.as_bytes().to_vec()).into()
}

fn write(changes: Vec<Change>) -> Operation {
    Operation::Write(changes, IsolationLevel::ReadCommitted)
}

fn change(family: usize, key: &str, kind: ChangeKind) -> Change {
    Change {
        family,
        key: key.as_bytes().to_vec(),
        kind,
    }
}

/// A short value, another one at each place.
fn put(family: usize, key: &str, at: usize) -> Change {
    change(family, key, ChangeKind::Put(value(at, 12), None))
}

/// A value for the value log.
fn put_long(family: usize, key: &str, at: usize) -> Change {
    change(family, key, ChangeKind::Put(value(at, 300), None))
}

fn value(at: usize, bytes: usize) -> Vec<u8> {
    let mut value = format!("value {at} ").repeat(bytes / 8 + 1).into_bytes();
    value.truncate(bytes);
    value
}
