//! Families whose comparator comes after the open: nothing of them is lost, and everything else works meanwhile.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap, sync::Arc};

use kingtide::{
    ColumnFamily, Comparator, ComparatorRef, Db, ErrorKind, FamilyOptions, IterOptions, Options,
    Result, SyncMode,
};
use kingtide_env::{CrashImage, MemoryEnv};

const PATH: &str = "/db";
const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];

type Content = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// Keys by length first, so that byte order would not do.
struct ByLength(&'static str);

impl Comparator for ByLength {
    fn name(&self) -> &str {
        self.0
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.len().cmp(&right.len()).then_with(|| right.cmp(left))
    }
}

fn by_length() -> ComparatorRef {
    Arc::new(ByLength("by_length"))
}

fn options(env: &MemoryEnv) -> Options {
    Options {
        defer_missing_comparators: true,
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    }
}

fn knowing(env: &MemoryEnv) -> Options {
    Options {
        comparators: vec![by_length()],
        ..options(env)
    }
}

fn settings(comparator: &str) -> FamilyOptions {
    FamilyOptions {
        comparator: comparator.to_owned(),
        write_buffer_bytes: 64 << 10,
        value_threshold_bytes: 300,
        disk_free_bytes_min: 0,
        sync: SyncMode::None,
        ..FamilyOptions::default()
    }
}

fn content(db: &Db) -> Content {
    let mut content = Content::new();
    for name in db.families() {
        let family = db.family(&name).unwrap();
        let entries = db.iter(&family, IterOptions::default()).unwrap().entries();
        let entries: Vec<_> = entries.map(Result::unwrap).collect();
        for (key, value) in &entries {
            assert_eq!(db.get(&family, key).unwrap().unwrap(), *value);
        }
        content.insert(name, entries);
    }
    content
}

/// Compares, and names the keys that differ.
#[track_caller]
fn assert_same(found: &Content, expected: &Content, context: &str) {
    for (name, entries) in expected {
        let other = found.get(name).map_or(&[][..], Vec::as_slice);
        let shown = |from: &[(Vec<u8>, Vec<u8>)], without: &[(Vec<u8>, Vec<u8>)]| {
            let mut lines = Vec::new();
            for (key, value) in from.iter().filter(|entry| !without.contains(entry)) {
                lines.push(format!("{} ({} bytes)", key.escape_ascii(), value.len()));
            }
            lines
        };
        let (missing, added) = (shown(entries, other), shown(other, entries));
        assert!(
            missing.is_empty() && added.is_empty(),
            "{context}: family {name} misses {missing:?} and has {added:?}"
        );
    }
    assert!(
        found == expected,
        "{context}: other families or another order"
    );
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:0width$}", width = 1 + number as usize % 5).into_bytes()
}

/// Every kind of operation, over both families in each transaction.
fn write(db: &Db, families: &[ColumnFamily; 2], numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut transaction = db.begin().unwrap();
        for family in families {
            match number % 11 {
                3 => transaction.delete(family, &key(number - 2)).unwrap(),
                5 => {
                    let (left, right) = (key(number - 4), key(number - 1));
                    let order = family.options().comparator;
                    let is_falling = match order.as_str() {
                        "by_length" => by_length().compare(&left, &right).is_gt(),
                        _ => left > right,
                    };
                    let (start, end) = if is_falling {
                        (right, left)
                    } else {
                        (left, right)
                    };
                    transaction.delete_range(family, &start, &end).unwrap();
                }
                7 => transaction.single_delete(family, &key(number - 1)).unwrap(),
                _ => {}
            }
            // Some are packed in the log.
            let long = if number.is_multiple_of(13) { 3000 } else { 0 };
            let value = vec![number as u8; 1 + number as usize % 7 * 80 + long];
            transaction.put(family, &key(number), &value).unwrap();
            let expired = [&b"expired"[..], &key(number)].concat();
            transaction.put_expiring(family, &expired, b"x", 1).unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// A database with tables and with commits that are only in the log; what it holds; its world as a kill leaves it.
fn base(seed: u64) -> (MemoryEnv, Content) {
    let env = MemoryEnv::new(seed);
    let db = Db::open(PATH, knowing(&env)).unwrap();
    let families = ["custom", "plain"].map(|name| {
        let comparator = if name == "custom" {
            "by_length"
        } else {
            "memcmp"
        };
        db.create_family(name, settings(comparator)).unwrap()
    });
    write(&db, &families, 10..120);
    db.flush(&families[0]).unwrap();
    write(&db, &families, 60..400);
    db.sync_wal().unwrap();
    let expected = content(&db);
    assert!(expected["custom"].len() > 50);
    let found = env.kill();
    env.halt_after(0);
    (found, expected)
}

fn power_off(env: &MemoryEnv, db: &Db) {
    env.halt_after(0);
    let _ = db.close();
}

/// Goal: until the comparator comes, calls on the family are refused and all else works; then everything is there.
/// Method: several openings and kills without it, other commits between, registration while a handle is held.
#[test]
fn a_family_waits_for_its_comparator() {
    let (mut env, mut expected) = base(1);
    for round in 0..3_u8 {
        let db = Db::open(PATH, options(&env)).unwrap();
        let custom = db.family("custom").unwrap();
        let missing = ErrorKind::ComparatorMissing;
        assert_eq!(db.get(&custom, b"1").unwrap_err().kind(), missing);
        assert_eq!(db.put(&custom, b"1", b"").unwrap_err().kind(), missing);
        assert_eq!(db.flush(&custom).unwrap_err().kind(), missing);
        assert_eq!(db.compact(&custom).unwrap_err().kind(), missing);
        let iter = db.iter(&custom, IterOptions::default());
        assert_eq!(iter.unwrap_err().kind(), missing);
        assert_eq!(db.drop_family("custom").unwrap_err().kind(), missing);
        assert_eq!(db.rename_family("custom", "c").unwrap_err().kind(), missing);
        assert_eq!(db.clone_family("custom", "c").unwrap_err().kind(), missing);
        let another = db.create_family("another", settings("by_length"));
        assert_eq!(another.unwrap_err().kind(), missing);
        assert_eq!(db.families(), ["custom", "plain"]);
        assert!(db.comparator("by_length").is_none() && db.comparator("memcmp").is_some());
        let plain = db.family("plain").unwrap();
        db.put(&plain, b"round", &[round]).unwrap();
        db.sync_wal().unwrap();
        if round == 1 {
            db.close().unwrap();
        }
        let next = env.kill();
        power_off(&env, &db);
        env = next;
    }
    let db = Db::open(PATH, options(&env)).unwrap();
    let handle = db.family("custom").unwrap();
    db.register_comparator(by_length()).unwrap();
    let plain = expected.get_mut("plain").unwrap();
    plain.push((b"round".to_vec(), vec![2]));
    assert_same(&content(&db), &expected, "");
    db.put(&handle, b"later", b"x").unwrap();
    assert_eq!(
        db.families(),
        ["custom", "plain"],
        "what is kept aside is not shown"
    );
    db.create_family("another", settings("by_length")).unwrap();
    db.drop_family("another").unwrap();
    let again = db.register_comparator(by_length());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let expected = content(&db);
    db.compact(&handle).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().damages.is_empty());
    db.close().unwrap();
    // From now on nothing is pending: without deferring, and with the comparator at the open.
    let plain = Options {
        defer_missing_comparators: false,
        ..knowing(&env)
    };
    assert_same(&content(&Db::open(PATH, plain).unwrap()), &expected, "");
}

/// Goal: an opening that knows the comparator takes in what one without it kept aside, also for reading only.
#[test]
fn what_was_kept_aside_is_taken_in_at_the_next_open() {
    let (env, expected) = base(2);
    Db::open(PATH, options(&env)).unwrap().close().unwrap();
    for round in 0..2 {
        let reader = Options {
            read_only: true,
            ..knowing(&env)
        };
        assert_eq!(
            content(&Db::open(PATH, reader).unwrap()),
            expected,
            "{round}"
        );
        let db = Db::open(PATH, knowing(&env)).unwrap();
        assert_same(&content(&db), &expected, &format!("{round}"));
        db.close().unwrap();
    }
    let refused = Options {
        defer_missing_comparators: false,
        comparators: Vec::new(),
        ..options(&env)
    };
    let error = Db::open(PATH, refused).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ComparatorMissing);
}

/// Goal: a reader defers in memory, and writes nothing. Method: register in it; the count of changing calls.
#[test]
fn a_reader_registers_in_memory() {
    let (env, expected) = base(3);
    for _ in 0..2 {
        let calls = env.io_count();
        let reader = Options {
            read_only: true,
            ..options(&env)
        };
        let db = Db::open(PATH, reader).unwrap();
        let custom = db.family("custom").unwrap();
        assert!(db.get(&custom, b"1").is_err());
        db.register_comparator(by_length()).unwrap();
        assert_same(&content(&db), &expected, "");
        db.close().unwrap();
        assert_eq!(env.io_count(), calls);
        // The second time there is a pending family in the manifest.
        Db::open(PATH, options(&env)).unwrap().close().unwrap();
    }
}

/// Goal: a power cut anywhere between a deferring open and the end of the registration loses nothing. Method: cut after
/// each call, every image, then an opening that knows the comparator.
// Promise: 7.
#[test]
fn a_power_cut_while_deferring_loses_nothing() {
    let (base, expected) = base(4);
    let fresh = || base.crash(CrashImage::Everything, 0);
    let run = |env: &MemoryEnv| -> Result<Db> {
        let db = Db::open(PATH, options(env))?;
        db.register_comparator(by_length())?;
        Ok(db)
    };
    let env = fresh();
    let db = run(&env).unwrap();
    let calls = env.io_count();
    assert_same(&content(&db), &expected, "");
    power_off(&env, &db);
    assert!(calls > 30, "{calls} calls");
    for cut in 0..=calls {
        let env = fresh();
        env.halt_after(cut);
        if let Ok(db) = run(&env) {
            power_off(&env, &db);
        }
        let image = IMAGES[cut as usize % IMAGES.len()];
        let found = env.crash(image, cut);
        let db = Db::open(PATH, knowing(&found)).unwrap();
        assert_same(
            &content(&db),
            &expected,
            &format!("cut {cut} of {calls}, {image:?}"),
        );
        power_off(&found, &db);
    }
}

/// Goal: a copy has everything of a family that waits. Method: copies by writers and readers, before and after the first
/// deferring open; opened with the comparator.
#[test]
fn copies_have_what_was_kept_aside() {
    let (env, expected) = base(5);
    for (number, read_only) in [true, false, true].into_iter().enumerate() {
        let deferring = Options {
            read_only,
            ..options(&env)
        };
        let db = Db::open(PATH, deferring).unwrap();
        db.backup(format!("/backup {number}"), &mut |_, _| {})
            .unwrap();
        db.checkpoint(format!("/checkpoint {number}")).unwrap();
        db.close().unwrap();
        assert!(db.verify(&mut |_, _| {}).unwrap_err().kind() == ErrorKind::Closed);
        for kind in ["backup", "checkpoint"] {
            let copy = Db::open(format!("/{kind} {number}"), knowing(&env)).unwrap();
            assert_same(&content(&copy), &expected, &format!("{kind} {number}"));
        }
    }
}

/// An order with canonical bytes.
struct Folding;

impl Comparator for Folding {
    fn name(&self) -> &str {
        "by_length"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }

    fn canonical<'a>(&self, key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(Cow::Borrowed(key))
    }
}

// Promise: limits.
#[test]
fn names_and_orders_that_cannot_be_are_refused() {
    let (env, expected) = base(6);
    let db = Db::open(PATH, options(&env)).unwrap();
    let long: &'static str = Box::leak("x".repeat(64).into_boxed_str());
    for name in ["", "memcmp", "uint64", long] {
        let refused = db.register_comparator(Arc::new(ByLength(name)));
        assert_eq!(
            refused.unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{name}"
        );
    }
    let refused = db.register_comparator(Arc::new(Folding));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.register_comparator(by_length()).unwrap();
    assert_same(&content(&db), &expected, "");
    db.close().unwrap();
    let closed = db.register_comparator(Arc::new(ByLength("new")));
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
}

/// Goal: locks of prepared transactions are sorted by the order, so it must be there at the open.
#[test]
fn a_prepared_transaction_needs_its_comparator_at_the_open() {
    let (env, expected) = base(7);
    let db = Db::open(PATH, knowing(&env)).unwrap();
    let custom = db.family("custom").unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&custom, b"locked", b"x").unwrap();
    transaction.prepare(b"xid").unwrap();
    db.close().unwrap();
    let error = Db::open(PATH, options(&env)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ComparatorMissing);
    let db = Db::open(PATH, knowing(&env)).unwrap();
    db.rollback_prepared(b"xid").unwrap();
    assert_same(&content(&db), &expected, "");
    db.close().unwrap();
    drop(Db::open(PATH, options(&env)).unwrap());
}

/// Goal: damage in tables whose order is not known is found, by `verify` and by a backup. Method: a byte of each table and
/// value file is changed.
// Promise: 5.
#[test]
fn damage_is_found_without_the_order() {
    let (env, _) = base(8);
    Db::open(PATH, options(&env)).unwrap().close().unwrap();
    let reader = Options {
        read_only: true,
        ..options(&env)
    };
    let db = Db::open(PATH, reader).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().damages.is_empty());
    let files = env.paths();
    let is_data = |path: &&std::path::PathBuf| {
        path.extension()
            .is_some_and(|ending| ending == "klog" || ending == "vlog")
    };
    let mut count = 0;
    for file in files.iter().filter(is_data) {
        assert!(env.corrupt(file, 100, |byte| *byte ^= 1));
        assert_eq!(
            db.verify(&mut |_, _| {}).unwrap().damages.len(),
            1,
            "{file:?}"
        );
        let error = db.backup("/copy", &mut |_, _| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{file:?}");
        assert!(env.corrupt(file, 100, |byte| *byte ^= 1));
        count += 1;
    }
    assert!(count > 4, "{count} files");
}
