//! Tables whose short values resemble each other from block to block, through the life of a database.

use std::{collections::BTreeMap, fs, path::Path};

use kingtide::{
    ColumnFamily, Compression, Db, FamilyOptions, IterOptions, Options, RepairOptions, SyncMode,
    repair,
};
use kingtide_testkit::Random;

const KEYS: usize = 20_000;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(path: &Path) -> Db {
    Db::open(path, Options::default()).expect("the database opens")
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn klog_bytes(path: &Path) -> u64 {
    fs::read_dir(path.join("klog"))
        .expect("it is there")
        .map(|entry| entry.expect("readable").metadata().expect("there").len())
        .sum()
}

/// Everything that is in memory goes to tables, and all that is due is done.
fn settle(db: &Db, family: &ColumnFamily) {
    db.flush(family).expect("a flush");
    db.wait_idle().expect("background work goes well");
}

/// `db` shows `content` and nothing else, to iterators in both directions and by key.
fn assert_shows(db: &Db, family: &ColumnFamily, content: &Content) {
    let mut iter = db.iter(family, IterOptions::default()).expect("open");
    let mut is_valid = iter.seek_to_first().expect("readable");
    for (key, value) in content {
        assert!(is_valid && iter.key() == key, "{}", key.escape_ascii());
        assert_eq!(iter.value().expect("readable"), value);
        is_valid = iter.next().expect("readable");
    }
    assert!(!is_valid);
    is_valid = iter.seek_to_last().expect("readable");
    for (key, value) in content.iter().rev() {
        assert!(is_valid && iter.key() == key, "{}", key.escape_ascii());
        assert_eq!(iter.value().expect("readable"), value);
        is_valid = iter.prev().expect("readable");
    }
    assert!(!is_valid);
    let mut random = Random::new(6);
    for _ in 0..2000 {
        let key = key(random.between(0, KEYS + 100));
        let found = db.get(family, &key).expect("readable");
        assert_eq!(found.as_deref(), content.get(&key).map(Vec::as_slice));
    }
}

/// Goal: short values that resemble each other take much less room than each compressed with its neighbours, and stay what they are
/// when they are overwritten, deleted, merged, seen from a snapshot, reopened, copied and repaired. Method: values made of a few
/// phrases that nothing compresses by themselves, in transactions, and a map beside them.
#[test]
fn short_values_that_resemble_each_other_share_dictionaries() {
    let mut random = Random::new(5);
    let phrases: Vec<_> = (0..50).map(|_| random.bytes(80)).collect();
    for compression in [Compression::Lz4, Compression::Lz4Fast] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("db");
        let db = open(&path);
        let options = FamilyOptions {
            compression,
            write_buffer_bytes: 2 << 20,
            sync: SyncMode::None,
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        };
        let family = db.create_family("f", options).expect("a new name");
        let mut content = Content::new();
        let mut write = |content: &mut Content, numbers: &mut dyn Iterator<Item = usize>| {
            let mut transaction = db.begin().expect("open");
            for number in numbers {
                let mut value = phrases[random.between(0, phrases.len() - 1)].clone();
                value.extend_from_slice(&random.bytes(4));
                transaction
                    .put(&family, &key(number), &value)
                    .expect("a put");
                content.insert(key(number), value);
            }
            transaction.commit().expect("a commit");
        };
        for start in (0..KEYS).step_by(500) {
            write(&mut content, &mut (start..start + 500));
        }
        settle(&db, &family);
        let bytes = klog_bytes(&path);
        assert!(bytes < KEYS as u64 * 40, "{bytes} bytes for values of 84");
        assert_shows(&db, &family, &content);

        let snapshot = db.snapshot().expect("open");
        let before = content.clone();
        write(&mut content, &mut (0..KEYS).step_by(3));
        db.delete_range(&family, &key(4000), &key(5000))
            .expect("a delete");
        content.retain(|found, _| !(key(4000)..key(5000)).contains(found));
        for number in (0..KEYS).step_by(11) {
            db.delete(&family, &key(number)).expect("a delete");
            content.remove(&key(number));
        }
        settle(&db, &family);
        assert_shows(&db, &family, &content);
        for number in (0..KEYS).step_by(101) {
            let found = snapshot.get(&family, &key(number)).expect("readable");
            assert_eq!(
                found.as_deref(),
                before.get(&key(number)).map(Vec::as_slice)
            );
        }
        drop(snapshot);
        db.compact(&family).expect("a merge");
        settle(&db, &family);
        assert_shows(&db, &family, &content);
        let report = db.verify(&mut |_, _| ()).expect("open");
        assert!(report.damages.is_empty(), "{report:?}");
        db.checkpoint(directory.path().join("copy"))
            .expect("a checkpoint");
        db.close().expect("closes");

        let options = RepairOptions {
            into: Some(directory.path().join("repaired")),
            ..RepairOptions::default()
        };
        let report = repair(&path, &options, &mut |_, _| {}).expect("it is whole");
        assert!(report.is_whole(), "{report:?}");
        for name in ["db", "copy", "repaired"] {
            let db = open(&directory.path().join(name));
            assert_shows(&db, &db.family("f").expect("it was made"), &content);
            db.close().expect("closes");
        }
    }
}
