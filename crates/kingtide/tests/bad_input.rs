//! Wrong calls, wrong files, wrong moments: each gets its own kind of error, and none makes the database panic.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{fs, path::Path, sync::Arc};

use kingtide::{
    ColumnFamily, Compression, Db, ErrorKind, FamilyOptions, IsolationLevel, IterOptions, Options,
    Result, SyncMode, TransactionOptions,
};
use kingtide_base::limits::{FAMILY_NAME_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use kingtide_env::{FaultyEnv, MemoryEnv, Operation, Rule, Times};
use kingtide_testkit::{
    Random,
    damage::Specimen,
    order::SHORT_FIRST,
    world::{self, DATABASE},
};

fn open(env: &MemoryEnv) -> Db {
    Db::open(DATABASE, world::options(env)).unwrap()
}

fn with_family() -> (Db, ColumnFamily) {
    let db = open(&MemoryEnv::new(1));
    let family = db
        .create_family(
            "f",
            FamilyOptions {
                sync: SyncMode::None,
                ..FamilyOptions::default()
            },
        )
        .unwrap();
    (db, family)
}

#[track_caller]
fn refused<T>(answer: Result<T>, kind: ErrorKind) {
    match answer {
        Ok(_) => panic!("the call was accepted, expected {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

// Promise: limits.
#[test]
fn keys_and_values_have_limits() {
    let (db, family) = with_family();
    refused(db.put(&family, b"", b"v"), ErrorKind::InvalidArgument);
    refused(db.delete(&family, b""), ErrorKind::InvalidArgument);
    let largest = vec![7; KEY_BYTES_MAX];
    db.put(&family, &largest, b"v").unwrap();
    assert_eq!(&*db.get(&family, &largest).unwrap().unwrap(), b"v");
    let larger = vec![7; KEY_BYTES_MAX + 1];
    refused(db.put(&family, &larger, b"v"), ErrorKind::TooLarge);
    refused(db.delete(&family, &larger), ErrorKind::TooLarge);
    let value = vec![0; VALUE_BYTES_MAX + 1];
    refused(db.put(&family, b"k", &value), ErrorKind::TooLarge);
    drop(value);
    db.put(&family, b"empty", b"").unwrap();
    assert_eq!(&*db.get(&family, b"empty").unwrap().unwrap(), b"");
    let mut transaction = db.begin().unwrap();
    refused(
        transaction.put(&family, b"", b"v"),
        ErrorKind::InvalidArgument,
    );
    refused(transaction.put(&family, &larger, b"v"), ErrorKind::TooLarge);
    transaction.put(&family, b"fine", b"v").unwrap();
    assert_eq!(
        transaction.operation_count(),
        1,
        "refused operations do not count"
    );
    transaction.commit().unwrap();
    assert!(db.contains(&family, b"fine").unwrap());
    db.close().unwrap();
}

#[test]
fn reads_of_impossible_keys_find_nothing_or_say_why() {
    let (db, family) = with_family();
    let larger = vec![7; KEY_BYTES_MAX + 1];
    for key in [&b""[..], &larger] {
        match db.get(&family, key) {
            Ok(found) => assert!(found.is_none()),
            Err(error) => assert!(matches!(
                error.kind(),
                ErrorKind::InvalidArgument | ErrorKind::TooLarge
            )),
        }
    }
    assert!(db.multi_get::<&[u8]>(&family, &[]).unwrap().is_empty());
    db.close().unwrap();
}

// Promise: limits.
#[test]
fn names_of_families_are_checked() {
    let (db, _family) = with_family();
    let longest = "n".repeat(FAMILY_NAME_BYTES_MAX);
    db.create_family(&longest, FamilyOptions::default())
        .unwrap();
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "/",
        "a\\b",
        "a\0b",
        "../../etc",
        "line\nbreak",
    ] {
        refused(
            db.create_family(name, FamilyOptions::default()),
            ErrorKind::InvalidArgument,
        );
        refused(db.rename_family("f", name), ErrorKind::InvalidArgument);
        refused(db.clone_family("f", name), ErrorKind::InvalidArgument);
    }
    let longer = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    refused(
        db.create_family(&longer, FamilyOptions::default()),
        ErrorKind::TooLarge,
    );
    refused(
        db.create_family("f", FamilyOptions::default()),
        ErrorKind::AlreadyExists,
    );
    refused(db.rename_family("f", &longest), ErrorKind::AlreadyExists);
    refused(db.clone_family("f", &longest), ErrorKind::AlreadyExists);
    refused(db.rename_family("missing", "other"), ErrorKind::NotFound);
    refused(db.clone_family("missing", "other"), ErrorKind::NotFound);
    refused(db.drop_family("missing"), ErrorKind::NotFound);
    refused(db.family("missing"), ErrorKind::NotFound);
    db.close().unwrap();
}

// Promise: limits.
#[test]
fn settings_of_families_are_checked() {
    let (db, _family) = with_family();
    let wrong: [fn(&mut FamilyOptions); 9] = [
        |options| options.level_size_ratio = 1,
        |options| options.level_size_ratio = 1001,
        |options| options.min_levels = 0,
        |options| options.min_levels = 17,
        |options| options.bloom_false_positive_rate = 0.0,
        |options| options.bloom_false_positive_rate = f64::NAN,
        |options| options.l1_file_count_trigger = 0,
        |options| options.tombstone_density_trigger = 1.5,
        |options| options.write_buffer_bytes = 0,
    ];
    for (number, spoil) in wrong.into_iter().enumerate() {
        let mut options = FamilyOptions::default();
        spoil(&mut options);
        let answer = db.create_family(&format!("wrong{number}"), options);
        refused(answer, ErrorKind::InvalidArgument);
    }
    let unknown = FamilyOptions {
        comparator: "nobody knows".to_owned(),
        ..FamilyOptions::default()
    };
    let error = db.create_family("unknown", unknown).map(drop).unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::ComparatorMissing | ErrorKind::InvalidArgument
    ));
    db.close().unwrap();
}

#[test]
fn a_family_whose_order_is_not_registered_is_not_opened_with_another() {
    let env = MemoryEnv::new(2);
    let db = open(&env);
    let options = FamilyOptions {
        comparator: SHORT_FIRST.to_owned(),
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", options).unwrap();
    db.put(&family, b"k", b"v").unwrap();
    db.close().unwrap();
    let mut settings = world::options(&env);
    settings.comparators.clear();
    match Db::open(DATABASE, settings) {
        Ok(db) => refused(db.family("f"), ErrorKind::ComparatorMissing),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ComparatorMissing),
    }
    let db = open(&env);
    assert!(db.contains(&db.family("f").unwrap(), b"k").unwrap());
    db.close().unwrap();
}

#[test]
fn missing_directories_and_files_in_their_place_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let settings = Options {
        create_if_missing: false,
        ..Options::default()
    };
    refused(Db::open(&missing, settings.clone()), ErrorKind::NotFound);
    assert!(!missing.exists(), "a refused opening leaves nothing behind");
    let read_only = Options {
        read_only: true,
        ..Options::default()
    };
    refused(Db::open(&missing, read_only.clone()), ErrorKind::NotFound);
    assert!(!missing.exists());
    let file = directory.path().join("file");
    fs::write(&file, b"not a directory").unwrap();
    for settings in [settings.clone(), read_only, Options::default()] {
        let error = Db::open(&file, settings).map(drop).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Io | ErrorKind::InvalidArgument | ErrorKind::NotFound
            ),
            "{error}"
        );
    }
    assert_eq!(fs::read(&file).unwrap(), b"not a directory");
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(Db::open(&empty, settings), ErrorKind::NotFound);
    let nested = directory.path().join("a/b/c");
    Db::open(&nested, Options::default())
        .unwrap()
        .close()
        .unwrap();
}

// Promise: 9.
#[test]
fn a_directory_is_opened_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    refused(Db::open(&path, Options::default()), ErrorKind::Locked);
    db.close().unwrap();
    Db::open(&path, Options::default())
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn files_of_others_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    let family = db.open_family("f", FamilyOptions::default()).unwrap();
    db.put(&family, b"k", b"v").unwrap();
    db.flush(&family).unwrap();
    db.close().unwrap();
    let strangers = ["notes.txt", "klog/readme", "vlog/x.klog.bak", "wal/.hidden"];
    let write = |name: &&str| {
        let stranger: &Path = &path.join(name);
        if stranger.parent().is_some_and(Path::is_dir) {
            fs::write(stranger, b"mine").unwrap();
        }
        stranger.to_owned()
    };
    let written: Vec<_> = strangers
        .iter()
        .map(write)
        .filter(|stranger| stranger.exists())
        .collect();
    assert!(!written.is_empty());
    let db = Db::open(&path, Options::default()).unwrap();
    let family = db.family("f").unwrap();
    assert!(db.contains(&family, b"k").unwrap());
    db.compact(&family).unwrap();
    db.close().unwrap();
    for stranger in written {
        assert_eq!(
            fs::read(&stranger).unwrap(),
            b"mine",
            "{}",
            stranger.display()
        );
    }
}

// Promise: 5, input.
#[test]
fn foreign_bytes_in_any_file_are_errors() {
    let specimen = Specimen::build().unwrap();
    let mut random = Random::new(3);
    for (path, bytes) in specimen.files() {
        // A log that holds no whole record is the log of a crash, so only the other files can tell.
        if path.extension().is_some_and(|extension| extension == "wal") || bytes == 0 {
            continue;
        }
        for content in [
            random.bytes(bytes),
            random.bytes(10),
            vec![0; bytes],
            vec![0xff; bytes],
        ] {
            specimen
                .check_replaced(&path, &content)
                .unwrap_or_else(|violation| panic!("{violation}"));
        }
    }
}

#[test]
fn iterators_say_when_they_are_nowhere() {
    let (db, family) = with_family();
    for key in [b"a", b"b", b"c"] {
        db.put(&family, key, b"v").unwrap();
    }
    let mut iter = db.iter(&family, IterOptions::default()).unwrap();
    assert!(!iter.is_valid());
    assert!(iter.key().is_empty());
    refused(iter.next(), ErrorKind::InvalidArgument);
    refused(iter.prev(), ErrorKind::InvalidArgument);
    assert!(iter.value().is_err());
    assert!(iter.seek_to_last().unwrap());
    assert!(!iter.next().unwrap());
    refused(iter.next(), ErrorKind::InvalidArgument);
    assert!(iter.seek_to_first().unwrap());
    assert!(!iter.prev().unwrap());
    assert!(!iter.seek(b"d").unwrap());
    assert!(!iter.seek_for_prev(b"A").unwrap());
    let bounds = |lower: &str, upper: &str| IterOptions {
        lower: Some(lower.into()),
        upper: Some(upper.into()),
        prefix: None,
    };
    let mut nothing = db.iter(&family, bounds("c", "b")).unwrap();
    assert!(!nothing.seek_to_first().unwrap());
    assert!(!nothing.seek_to_last().unwrap());
    assert!(!nothing.seek(b"b").unwrap());
    let mut middle = db.iter(&family, bounds("b", "c")).unwrap();
    assert!(middle.seek(b"a").unwrap());
    assert_eq!(middle.key(), b"b");
    assert!(!middle.next().unwrap());
    db.close().unwrap();
}

#[test]
fn prefixes_need_byte_order() {
    let (db, _family) = with_family();
    let options = FamilyOptions {
        comparator: "reverse_memcmp".to_owned(),
        ..FamilyOptions::default()
    };
    let family = db.create_family("reverse", options).unwrap();
    let prefix = IterOptions {
        prefix: Some(b"a".to_vec()),
        ..IterOptions::default()
    };
    refused(db.iter(&family, prefix), ErrorKind::InvalidArgument);
    db.close().unwrap();
}

#[test]
fn an_iterator_outlives_its_transaction() {
    let (db, family) = with_family();
    db.put(&family, b"a", b"1").unwrap();
    for end in 0..3 {
        let mut transaction = db.begin().unwrap();
        transaction.put(&family, b"b", b"2").unwrap();
        let mut iter = transaction.iter(&family, IterOptions::default()).unwrap();
        match end {
            0 => drop(transaction),
            1 => transaction.rollback().unwrap(),
            _ => {
                transaction
                    .reset()
                    .or_else(|_| transaction.rollback())
                    .unwrap();
            }
        }
        db.flush(&family).unwrap();
        assert!(iter.seek_to_first().unwrap());
        assert_eq!(
            (iter.key().to_vec(), iter.value().unwrap().to_vec()),
            (b"a".to_vec(), b"1".to_vec())
        );
        assert!(iter.next().unwrap());
        assert_eq!(
            (iter.key().to_vec(), iter.value().unwrap().to_vec()),
            (b"b".to_vec(), b"2".to_vec())
        );
        assert!(!iter.next().unwrap());
    }
    db.close().unwrap();
}

#[test]
fn a_transaction_that_is_dropped_leaves_nothing() {
    let (db, family) = with_family();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"k", b"v").unwrap();
    drop(transaction);
    assert!(!db.contains(&family, b"k").unwrap());
    db.close().unwrap();
}

#[test]
fn a_finished_transaction_takes_nothing_more() {
    let (db, family) = with_family();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"k", b"v").unwrap();
    transaction.commit().unwrap();
    refused(transaction.put(&family, b"k", b"w"), ErrorKind::Closed);
    refused(transaction.delete(&family, b"k"), ErrorKind::Closed);
    refused(transaction.get(&family, b"k"), ErrorKind::Closed);
    refused(
        transaction.iter(&family, IterOptions::default()),
        ErrorKind::Closed,
    );
    refused(transaction.commit(), ErrorKind::Closed);
    transaction.reset().unwrap();
    transaction.put(&family, b"k", b"x").unwrap();
    transaction.commit().unwrap();
    assert_eq!(&*db.get(&family, b"k").unwrap().unwrap(), b"x");
    db.close().unwrap();
}

// Promise: input.
#[test]
fn handles_end_with_their_family_and_their_database() {
    let (db, family) = with_family();
    let (other, foreign) = with_family();
    refused(db.put(&foreign, b"k", b"v"), ErrorKind::InvalidArgument);
    refused(other.get(&family, b"k"), ErrorKind::InvalidArgument);
    other.close().unwrap();
    let mut transaction = db.begin().unwrap();
    refused(
        transaction.put(&foreign, b"k", b"v"),
        ErrorKind::InvalidArgument,
    );
    db.drop_family("f").unwrap();
    refused(db.put(&family, b"k", b"v"), ErrorKind::NotFound);
    refused(db.get(&family, b"k"), ErrorKind::NotFound);
    refused(
        db.iter(&family, IterOptions::default()),
        ErrorKind::NotFound,
    );
    refused(db.flush(&family), ErrorKind::NotFound);
    drop(transaction);
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    db.put(&family, b"k", b"v").unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut open_transaction = db.begin().unwrap();
    open_transaction.put(&family, b"late", b"v").unwrap();
    let clone = db.clone();
    db.close().unwrap();
    refused(clone.put(&family, b"k", b"v"), ErrorKind::Closed);
    refused(clone.get(&family, b"k"), ErrorKind::Closed);
    refused(clone.begin(), ErrorKind::Closed);
    refused(clone.snapshot(), ErrorKind::Closed);
    refused(
        clone.create_family("g", FamilyOptions::default()),
        ErrorKind::Closed,
    );
    refused(clone.sync_wal(), ErrorKind::Closed);
    refused(snapshot.get(&family, b"k"), ErrorKind::Closed);
    refused(open_transaction.commit(), ErrorKind::Closed);
}

// Promise: 5.
#[test]
fn reads_that_fail_say_so_and_do_not_find_nothing() {
    let env = MemoryEnv::new(4);
    let faulty = FaultyEnv::new(Arc::new(env.clone()));
    let settings = Options {
        env: Some(Arc::new(faulty.clone())),
        block_cache_bytes: 0,
        ..Options::default()
    };
    let db = Db::open(DATABASE, settings).unwrap();
    let options = FamilyOptions {
        compression: Compression::None,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", options).unwrap();
    for number in 0..50 {
        db.put(&family, format!("k{number}").as_bytes(), &[7; 300])
            .unwrap();
    }
    db.flush(&family).unwrap();
    faulty.fail(Rule {
        operation: Operation::Read,
        name_contains: ".klog".to_owned(),
        nth: 1,
        error: std::io::ErrorKind::Other,
        times: Times::Forever,
    });
    refused(db.get(&family, b"k7"), ErrorKind::Io);
    faulty.clear();
    assert!(
        db.contains(&family, b"k7").unwrap(),
        "an error of one read does not stay"
    );
    let _ = db.close();
}

// Promise: conflict.
#[test]
fn a_conflict_leaves_nothing_and_can_be_tried_again() {
    let (db, family) = with_family();
    let options = TransactionOptions {
        isolation: IsolationLevel::Snapshot,
        ..TransactionOptions::default()
    };
    let mut transaction = db.begin_with(options).unwrap();
    transaction.put(&family, b"a", b"mine").unwrap();
    transaction.put(&family, b"b", b"mine").unwrap();
    db.put(&family, b"a", b"theirs").unwrap();
    refused(transaction.commit(), ErrorKind::Conflict);
    assert_eq!(&*db.get(&family, b"a").unwrap().unwrap(), b"theirs");
    assert!(!db.contains(&family, b"b").unwrap());
    transaction.reset().unwrap();
    transaction.put(&family, b"a", b"mine").unwrap();
    transaction.commit().unwrap();
    assert_eq!(&*db.get(&family, b"a").unwrap().unwrap(), b"mine");
    db.close().unwrap();
}
