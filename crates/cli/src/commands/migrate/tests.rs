//! Goal: what an interruption left is gone on with and not copied again, and a copy that is not the source is told. Method:
//! Kingtide's own C library is the source's library; the first batch is stored by hand, and the rest by the command.

use kingtide::Options;
use tempfile::TempDir;

use super::*;

// A batch is 1000 entries: several of them, and a part of one.
const ENTRIES: u32 = 2500;
const EXPIRES_AT: i64 = 4_000_000_000;

/// The C library, which is built with these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.with_file_name("libkingtide_capi.so")
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    format!("value {number}").into_bytes()
}

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        world.with_source(|db| {
            let options = FamilyOptions {
                compression: Compression::Zstd,
                comparator: "reverse_memcmp".into(),
                ..FamilyOptions::default()
            };
            let ships = db.create_family("ships", options).expect("new");
            for number in 0..ENTRIES {
                let expires_at = if number % 10 == 0 { EXPIRES_AT } else { 0 };
                db.put_expiring(&ships, &key(number), &value(number), expires_at)
                    .expect("healthy");
            }
            db.create_family("empty", FamilyOptions::default())
                .expect("new");
        });
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with_source(&self, work: impl FnOnce(&Db)) {
        let db = Db::open(self.path("source"), Options::default()).expect("free");
        work(&db);
        db.close().expect("healthy");
    }

    fn args(&self) -> MigrateArgs {
        MigrateArgs {
            from: self.path("source"),
            lib: Some(library()),
            to: Some(self.path("target")),
            ttl: Vec::new(),
        }
    }

    fn source(&self) -> ForeignDatabase {
        ForeignDatabase::open(Some(&library()), &self.path("source")).expect("whole")
    }

    fn target(&self) -> Db {
        Db::open(self.path("target"), Options::default()).expect("free")
    }

    /// Leaves what an interruption after the first entries leaves.
    fn interrupt_after(&self, count: usize) {
        let (source, target, args) = (self.source(), self.target(), self.args());
        let marks = marks_of(&target).expect("a new target");
        let mut copy = FamilyCopy::begin(&source, &target, &marks, "ships", &args).expect("there");
        let mut batch = Batch::new();
        let mut take = |entry: ForeignEntry<'_>| {
            batch.push((entry.key.to_vec(), entry.value.to_vec(), entry.expires_at));
            Ok(batch.len() < count)
        };
        source
            .scan::<Failure>("ships", None, &mut take)
            .expect("whole");
        copy.store(&mut batch, false).expect("healthy");
        target.close().expect("healthy");
    }

    fn migrate(&self) -> Result<Totals> {
        let (source, target) = (self.source(), self.target());
        let names = chosen(&source, None)?;
        let mut output = Output::new(false, true);
        let totals = migrate(&source, &target, &names, &self.args(), &mut output);
        target.close().expect("healthy");
        totals
    }
}

fn check_target(db: &Db) {
    assert_eq!(db.families(), ["empty", "ships"], "the marks are gone");
    let ships = db.family("ships").expect("copied");
    let options = ships.options();
    assert_eq!(options.compression, Compression::Zstd);
    assert_eq!(options.comparator, "reverse_memcmp");
    let mut iter = db.iter(&ships, IterOptions::default()).expect("open");
    let mut is_valid = iter.seek_to_first().expect("whole");
    for number in (0..ENTRIES).rev() {
        assert!(is_valid, "{number}");
        assert_eq!(iter.key(), key(number));
        assert_eq!(iter.value().expect("whole"), value(number));
        let expires_at = (number % 10 == 0).then_some(EXPIRES_AT);
        assert_eq!(iter.expires_at(), expires_at, "{number}");
        is_valid = iter.next().expect("whole");
    }
    assert!(!is_valid);
}

#[test]
fn families_settings_entries_and_expiry_are_copied() {
    let world = World::new();
    let totals = world.migrate().expect("a copy");
    assert_eq!(totals.entries, u64::from(ENTRIES));
    check_target(&world.target());
}

#[test]
fn an_interrupted_copy_goes_on_behind_its_mark() {
    for count in [1, 10, ENTRIES as usize] {
        let world = World::new();
        world.interrupt_after(count);
        let totals = world.migrate().expect("a copy");
        assert_eq!(totals.entries, u64::from(ENTRIES), "{count}");
        check_target(&world.target());
    }
}

#[test]
fn a_source_that_changed_after_the_interruption_is_told() {
    // The family is ordered backwards: the first entries that are copied have the largest keys.
    let changes: [fn(&Db, &ColumnFamily); 3] = [
        |db, ships| db.put(ships, &key(ENTRIES - 1), b"other").expect("healthy"),
        |db, ships| db.delete(ships, &key(ENTRIES - 2)).expect("healthy"),
        |db, ships| {
            db.put(ships, b"key 02499 and more", b"new")
                .expect("healthy")
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let world = World::new();
        world.interrupt_after(10);
        world.with_source(|db| change(db, &db.family("ships").expect("there")));
        let failure = world.migrate().expect_err("not the same");
        assert!(failure.message().contains("differ"), "{index}: {failure:?}");
        let target = world.target();
        assert!(target.family(MARKS).is_ok(), "{index}: it is not finished");
    }
}

#[test]
fn a_mark_is_read_as_it_was_written() {
    for mark in [
        Mark::default(),
        Mark {
            last_key: Some(vec![0, 255]),
            is_complete: true,
            entries: 7,
            bytes: u64::MAX,
            expires_at: Some(1_900_000_000),
        },
    ] {
        let read = Mark::decode(&mark.encode()).expect("whole");
        assert_eq!(format!("{read:?}"), format!("{mark:?}"));
    }
    for wrong in [&b""[..], b"{}", b"{\"last_key\":\"0\"}", b"[1]"] {
        assert!(Mark::decode(wrong).is_none(), "{wrong:?}");
    }
}
