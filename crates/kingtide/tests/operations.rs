//! Maintenance on demand: compacting, purging, cancelling, settings that change, statistics, estimates.

use std::{fs, path::Path, sync::Arc, thread};

use kingtide::{
    ColumnFamily, Compression, Db, ErrorKind, FamilyOptions, IterOptions, MemoryPressure, Options,
    SyncMode,
};
use kingtide_env::{CrashImage, MemoryEnv};

/// Small memtables, no syncs.
fn small() -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 64 << 10,
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

fn open(path: &Path) -> Db {
    Db::open(path, Options::default()).expect("the database opens")
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Puts the keys of `numbers`, each with a value of 100 bytes.
fn fill(db: &Db, family: &ColumnFamily, numbers: std::ops::Range<usize>) {
    for number in numbers {
        db.put(family, &key(number), &[number as u8; 100])
            .expect("a put");
    }
}

/// A database with merges that nobody asks for out of the way: only what a test asks for is merged.
fn quiet() -> FamilyOptions {
    FamilyOptions {
        l1_file_count_trigger: 1000,
        l0_queue_stall_threshold: 1000,
        ..small()
    }
}

/// The tables of the family, all levels.
fn tables(db: &Db, family: &ColumnFamily) -> usize {
    let stats = db.family_stats(family).expect("open");
    stats.levels.iter().map(|level| level.files).sum()
}

fn klog_files(path: &Path) -> usize {
    fs::read_dir(path.join("klog"))
        .expect("it is there")
        .count()
}

/// Goal: a part is compacted and the rest left alone. Method: tables that overlap nothing, one range over some.
#[test]
fn compact_range_merges_the_tables_of_the_range_and_no_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", quiet()).expect("a new name");
    for part in 0..4 {
        fill(&db, &family, part * 100..part * 100 + 50);
        db.flush(&family).expect("a flush");
    }
    assert_eq!(tables(&db, &family), 4);
    let read = || db.stats().expect("open").merge_bytes_read;
    let levels = db.family_stats(&family).expect("open").levels;
    let whole: u64 = levels.iter().map(|level| level.bytes).sum();
    let is_about = |bytes: u64| read().abs_diff(bytes) < whole / 20;
    db.compact_range(&family, Some(&key(120)), Some(&key(220)))
        .expect("two tables");
    assert!(is_about(whole / 2), "two of four tables of one size");
    assert_eq!(tables(&db, &family), 3, "the two others became one");
    assert!(!db.is_compacting(&family).expect("open"));
    // Open ends, and both ends between keys.
    db.compact_range(&family, None, Some(&key(60)))
        .expect("the first table");
    assert!(is_about(whole / 4 * 3));
    db.compact_range(&family, Some(&key(301)), None)
        .expect("the last table");
    assert!(is_about(whole));
    assert_eq!(tables(&db, &family), 3);
    for number in (0..4).flat_map(|part| part * 100..part * 100 + 50) {
        assert!(db.contains(&family, &key(number)).expect("readable"));
    }
    db.close().expect("closes");
}

#[test]
fn compact_range_takes_overlapping_tables_along() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", quiet()).expect("a new name");
    // The second table bridges the first and the third, and holds the newest version of a key of each.
    for keys in [[0, 10], [30, 40], [5, 35]] {
        for number in keys {
            db.put(&family, &key(number), b"old").expect("a put");
        }
        if keys == [5, 35] {
            db.put(&family, &key(10), b"new").expect("a put");
            db.delete(&family, &key(30)).expect("a delete");
        }
        db.flush(&family).expect("a flush");
    }
    db.compact_range(&family, Some(&key(0)), Some(&key(1)))
        .expect("all three");
    assert_eq!(tables(&db, &family), 1);
    assert_eq!(
        db.get(&family, &key(10)).expect("readable").expect("there"),
        b"new"
    );
    assert!(!db.contains(&family, &key(30)).expect("readable"));
    let stats = db.family_stats(&family).expect("open");
    assert_eq!((stats.entries, stats.tombstones), (5, 0));
}

#[test]
fn compact_range_checks_its_bounds() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    for (start, end) in [(None, None), (Some(&b""[..]), None), (None, Some(&b""[..]))] {
        let error = db
            .compact_range(&family, start, end)
            .expect_err("bad bounds");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    db.compact_range(&family, Some(b"a"), None)
        .expect("an empty family");
    fill(&db, &family, 0..10);
    db.compact_range(&family, Some(b"zz"), Some(b"zzz"))
        .expect("nothing there");
    db.compact_range(&family, Some(b"z"), Some(b"a"))
        .expect("an empty range");
    db.drop_family("f").expect("it is there");
    let error = db.compact_range(&family, Some(b"a"), None);
    assert_eq!(error.expect_err("gone").kind(), ErrorKind::NotFound);
}

/// Goal: after a purge nothing is going on, and what is dead is gone. Method: overwritten keys in several families while
/// other threads write.
#[test]
fn purge_leaves_nothing_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let families: Vec<_> = ["a", "b", "c"]
        .map(|name| db.create_family(name, small()).expect("a new name"))
        .into();
    thread::scope(|scope| {
        for family in &families {
            scope.spawn(|| {
                for _ in 0..3 {
                    fill(&db, family, 0..1000);
                }
            });
        }
        scope.spawn(|| db.purge().expect("a purge beside writers"));
    });
    for family in &families {
        db.purge_family(family).expect("a purge");
        assert!(!db.is_flushing(family).expect("open"));
        assert!(!db.is_compacting(family).expect("open"));
        let stats = db.family_stats(family).expect("open");
        assert_eq!((stats.memtable_entries, stats.sealed_memtables), (0, 0));
        assert_eq!(stats.entries, 1000, "one version of each key is left");
        assert_eq!(stats.keys_estimate, 1000);
    }
    db.purge().expect("a purge");
    let stats = db.stats().expect("open");
    let queues = [
        stats.flushes_queued,
        stats.flushes_running,
        stats.merges_queued,
    ];
    assert_eq!((queues, stats.merges_running), ([0; 3], 0));
}

#[test]
fn a_flush_in_the_background_is_seen_until_it_is_done() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", quiet()).expect("a new name");
    db.flush_background(&family).expect("nothing to flush");
    assert!(!db.is_flushing(&family).expect("open"));
    fill(&db, &family, 0..100);
    db.flush_background(&family).expect("asked for");
    // True at first, or done already; false only when the table is there.
    while db.is_flushing(&family).expect("open") {
        thread::yield_now();
    }
    let stats = db.family_stats(&family).expect("open");
    assert_eq!((stats.memtable_entries, stats.entries), (0, 100));
    assert_eq!(tables(&db, &family), 1);
}

/// Goal: cancelled merges leave no files and are told; flushes go on; the next opening merges again.
#[test]
fn cancelled_merges_leave_nothing_behind_and_flushes_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", small()).expect("a new name");
    thread::scope(|scope| {
        scope.spawn(|| fill(&db, &family, 0..20_000));
        scope.spawn(|| {
            // Whatever runs at that moment.
            while db.family_stats(&family).expect("open").flushes < 4 {
                thread::yield_now();
            }
            db.cancel_background_work().expect("open for writing");
        });
    });
    fill(&db, &family, 0..5_000);
    db.flush(&family).expect("flushes go on");
    db.wait_idle().expect("nothing fails");
    let before = db.family_stats(&family).expect("open");
    assert!(before.levels[0].files >= 4, "{before:?}");
    assert_eq!(klog_files(directory.path()), tables(&db, &family));
    for outcome in [
        db.compact(&family),
        db.purge(),
        db.compact_range(&family, Some(b"a"), None),
    ] {
        let error = outcome.expect_err("merges were cancelled");
        assert_eq!(error.kind(), ErrorKind::ReopenRequired, "{error}");
    }
    db.put(&family, b"more", b"").expect("writing goes on");
    assert_eq!(
        db.family_stats(&family).expect("open").merges,
        before.merges
    );
    db.close().expect("closes");
    let db = open(directory.path());
    let family = db.family("f").expect("it was made");
    db.compact(&family).expect("another opening");
    assert_eq!(db.estimate_cardinality(&family).expect("open"), 20_001);
}

#[test]
fn close_finishes_merges_when_asked_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        finish_compactions_on_close: true,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).expect("opens");
    let settings = FamilyOptions {
        l1_file_count_trigger: 2,
        ..small()
    };
    let family = db.create_family("f", settings).expect("a new name");
    fill(&db, &family, 0..5_000);
    db.close().expect("closes");
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).expect("opens");
    let stats = db.stats().expect("open");
    assert!(stats.families[0].levels[0].files < 2, "{stats:?}");
    assert_eq!(stats.families[0].entries, 5_000);
}

/// Goal: settings change for what follows, and what cannot change is refused.
#[test]
fn settings_change_while_the_family_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", quiet()).expect("a new name");
    let other = db.family("f").expect("it was made");
    fill(&db, &family, 0..10);
    db.flush(&family).expect("a flush");
    let next = FamilyOptions {
        compression: Compression::Zstd,
        bloom_filter: false,
        value_threshold_bytes: 16,
        sync: SyncMode::Full,
        l1_file_count_trigger: 2,
        ..family.options()
    };
    db.update_family_options(&family, next.clone(), false)
        .expect("all of it may change");
    assert_eq!(other.options(), next);
    let syncs = db.stats().expect("open").log_syncs;
    db.put(&family, b"k", &[7; 100]).expect("a put");
    assert!(db.stats().expect("open").log_syncs > syncs, "the put syncs");
    db.flush(&family).expect("a flush");
    db.wait_idle().expect("merges go well");
    let stats = db.family_stats(&family).expect("open");
    assert_eq!(
        stats.levels[0].files, 0,
        "the new trigger counts: {stats:?}"
    );
    let separated: u64 = stats.levels.iter().map(|level| level.vlog_bytes).sum();
    assert!(separated > 0, "the new threshold counts: {stats:?}");

    let refused = [
        FamilyOptions {
            comparator: "reverse_memcmp".to_owned(),
            ..next.clone()
        },
        FamilyOptions {
            use_btree: true,
            ..next.clone()
        },
        FamilyOptions {
            object_target_file_bytes: 1,
            ..next.clone()
        },
        FamilyOptions {
            level_size_ratio: 1,
            ..next.clone()
        },
    ];
    for options in refused {
        let error = db
            .update_family_options(&family, options, true)
            .expect_err("it cannot change so");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(family.options(), next);
}

/// Goal: settings that are stored count after any crash, others do not. Method: power cuts after each call.
#[test]
fn stored_settings_survive_a_power_cut() {
    let open = |env: &MemoryEnv| {
        let options = Options {
            env: Some(Arc::new(env.clone())),
            ..Options::default()
        };
        Db::open("/db", options).expect("the database opens")
    };
    let env = MemoryEnv::new(1);
    let db = open(&env);
    let first = small();
    let family = db.create_family("f", first.clone()).expect("a new name");
    let with_ratio = |ratio: usize| FamilyOptions {
        level_size_ratio: ratio,
        ..first.clone()
    };
    let found = |seed: u64| {
        let images = [
            CrashImage::NothingUnsynced,
            CrashImage::Everything,
            CrashImage::Random,
        ];
        images.map(|image| {
            let db = open(&env.crash(image, seed));
            let options = db.family("f").expect("it was made").options();
            db.close().expect("closes");
            options.level_size_ratio
        })
    };
    let update = |ratio, persist| db.update_family_options(&family, with_ratio(ratio), persist);
    update(20, false).expect("not stored");
    assert_eq!(found(1), [10; 3]);
    update(30, true).expect("stored");
    assert_eq!(found(2), [30; 3]);
    update(40, false).expect("not stored");
    assert_eq!(family.options().level_size_ratio, 40);
    assert_eq!(found(3), [30; 3]);
    // A clone takes what is in force.
    let clone = db.clone_family("f", "g").expect("a clone");
    assert_eq!(clone.options().level_size_ratio, 40);
}

/// Goal: the numbers add up, and those that are called exact are.
#[test]
fn statistics_add_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let roomy = FamilyOptions {
        write_buffer_bytes: 4 << 20,
        ..quiet()
    };
    let [f, g] = ["f", "g"].map(|name| db.create_family(name, roomy.clone()).expect("a new name"));
    let empty = db.family_stats(&f).expect("open");
    assert_eq!((empty.entries, empty.keys_estimate), (0, 0));
    assert!(!empty.levels.is_empty() && empty.read_amplification >= 1.0);
    assert_eq!(empty.write_amplification(), 0.0);

    fill(&db, &f, 0..1000);
    let mut both = db.begin().expect("open");
    both.put(&f, b"key 123456", b"12").expect("a put");
    both.delete(&g, b"123").expect("a delete");
    both.commit().expect("a commit");
    let stats = db.family_stats(&f).expect("open");
    assert_eq!(stats.user_bytes_written, 1000 * 110 + 12);
    assert_eq!(db.family_stats(&g).expect("open").user_bytes_written, 3);
    assert_eq!((stats.entries, stats.keys_estimate), (1001, 1001));
    assert!((stats.key_bytes_average - 10.0).abs() < 0.1, "{stats:?}");
    assert!((stats.value_bytes_average - 100.0).abs() < 1.0, "{stats:?}");

    db.flush(&f).expect("a flush");
    for number in 0..300 {
        db.delete(&f, &key(number)).expect("a delete");
    }
    assert_eq!(db.family_stats(&f).expect("open").memtable_tombstones, 300);
    db.flush(&f).expect("a flush");
    let stats = db.family_stats(&f).expect("open");
    let tombstones: u64 = stats.levels.iter().map(|level| level.tombstones).sum();
    assert_eq!((stats.tombstones, tombstones), (300, 300));
    assert_eq!((stats.entries, stats.keys_estimate), (1301, 701));
    assert_eq!(db.estimate_cardinality(&f).expect("open"), 701);
    assert_eq!(stats.read_amplification, 2.0);
    assert_eq!(
        (
            stats.tombstone_density_max,
            stats.tombstone_density_max_level
        ),
        (1.0, 1)
    );
    assert!((stats.tombstone_ratio() - 300.0 / 1301.0).abs() < 1e-9);
    assert_eq!(stats.flushes, 2);
    assert!(stats.flush_bytes_written > 0 && stats.merge_bytes_written == 0);
    assert!((stats.key_bytes_average - 10.0).abs() < 0.1, "{stats:?}");

    db.compact(&f).expect("a merge");
    let stats = db.family_stats(&f).expect("open");
    assert_eq!((stats.merges, stats.entries, stats.tombstones), (1, 701, 0));
    assert!(stats.merge_bytes_read > 0 && stats.merge_bytes_written > 0);
    assert!(stats.write_amplification() > 1.0);

    for number in 300..1000 {
        assert!(db.contains(&f, &key(number)).expect("readable"));
    }
    let whole = db.stats().expect("open");
    assert_eq!(whole.user_bytes_written, 1000 * 110 + 300 * 10 + 12 + 3);
    let log_bytes: u64 = whole.families.iter().map(|of| of.log_bytes_written).sum();
    assert!(log_bytes <= whole.log_bytes_written, "{whole:?}");
    assert_eq!(whole.tables, 1);
    assert_eq!(whole.merges, 1);
    assert!(whole.cache.enabled && whole.cache.shards > 0 && whole.cache.entries > 0);
    assert!(whole.cache.hit_rate() > 0.5, "{:?}", whole.cache);
    assert_eq!(whole.memory.pressure, MemoryPressure::Normal);
    assert!(whole.memory.limit_bytes >= 8 << 20);
    assert!(whole.memory.total_bytes() <= whole.memory.limit_bytes);
    assert!(whole.memory.table_bytes > 0 && whole.memory.cache_bytes > 0);
    // What a dropped family did stays counted.
    db.drop_family("f").expect("it is there");
    let after = db.stats().expect("open");
    assert_eq!(after.user_bytes_written, whole.user_bytes_written);
    assert_eq!(after.flushes, whole.flushes);
}

#[test]
fn statistics_of_a_database_without_a_cache() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        block_cache_bytes: 0,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).expect("opens");
    assert_eq!(db.stats().expect("open").cache, Default::default());
}

/// Goal: the cost of ranges is ordered as ranges are, in memtables, tables and both.
#[test]
fn the_cost_of_a_range_grows_with_the_range() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let family = db.create_family("f", quiet()).expect("a new name");
    let cost = |from: usize, to: usize| {
        db.range_cost(&family, &key(from), &key(to))
            .expect("it can be estimated")
    };
    assert_eq!(cost(0, 1_000_000), 0.0);
    for round in 0..3 {
        fill(&db, &family, 0..3_000);
        // A memtable that becomes a table costs less from one call to the next.
        db.wait_idle().expect("flushes go well");
        let (narrow, wide) = (cost(1_000, 1_200), cost(500, 2_500));
        assert!(
            0.0 < narrow && narrow < wide,
            "round {round}: {narrow} {wide}"
        );
        assert_eq!(cost(2_500, 500), wide, "the order does not matter");
        let outside = cost(10_000, 20_000);
        assert!(outside < narrow, "round {round}: {outside}");
        let mut previous = 0.0;
        for end in (1_000..=4_000).step_by(37) {
            let next = cost(1_000, end);
            assert!(
                next >= previous,
                "round {round}: {next} < {previous} at {end}"
            );
            previous = next;
        }
        assert!(previous <= cost(0, 1_000_000));
        if round == 1 {
            db.compact(&family).expect("a merge");
        } else {
            db.flush(&family).expect("a flush");
        }
    }
    let whole: usize = db
        .iter(&family, IterOptions::default())
        .expect("open")
        .entries()
        .count();
    assert_eq!(whole, 3_000);
}

/// Goal: writes leave room on the device, are told so, and go on once there is room. Method: the device of the world in
/// memory becomes fuller than a family allows, and has room again; a family that asks for less goes on meanwhile.
#[test]
fn writes_leave_room_on_the_device() {
    let env = MemoryEnv::new(1);
    let options = Options {
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let modest = FamilyOptions {
        disk_free_bytes_min: 1 << 30,
        ..small()
    };
    let family = db.create_family("f", modest).expect("a new name");
    let other = db.create_family("g", small()).expect("a new name");
    fill(&db, &family, 0..10);
    env.set_capacity(Some(256 << 20));
    // The log grows into a new segment, at which the room is looked at.
    fill(&db, &other, 0..20_000);
    let error = db.put(&family, b"k", b"v").expect_err("too little is left");
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    let stats = db.stats().expect("open");
    assert!(stats.disk_free_bytes.expect("it was looked at") < 1 << 30);
    db.put(&other, b"k", b"v").expect("this one asks for less");
    let lower = FamilyOptions {
        disk_free_bytes_min: 1 << 20,
        ..family.options()
    };
    db.update_family_options(&family, lower, false)
        .expect("it may change");
    db.put(&family, b"k", b"v").expect("less is asked for");
    let higher = FamilyOptions {
        disk_free_bytes_min: 1 << 30,
        ..family.options()
    };
    db.update_family_options(&family, higher, false)
        .expect("it may change");
    db.put(&family, b"k", b"v").expect_err("too little is left");
    env.set_capacity(None);
    db.put(&family, b"k", b"v").expect("there is room again");
    db.close().expect("closes");
}

#[test]
fn the_limit_of_open_files_is_only_raised() {
    let now = kingtide::raise_open_file_limit(0);
    assert!(now > 0);
    assert_eq!(kingtide::raise_open_file_limit(-1), now);
    assert_eq!(kingtide::raise_open_file_limit(1), now);
    // To whatever it is raised, it stays there.
    let raised = kingtide::raise_open_file_limit(now.saturating_add(1));
    assert!(raised >= now);
    assert_eq!(kingtide::raise_open_file_limit(0), raised);
    assert_eq!(
        kingtide::raise_open_file_limit(i64::MAX).max(raised),
        kingtide::raise_open_file_limit(0)
    );
}

/// Bytes of all files below `path`.
fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).expect("a directory");
    let bytes = entries.map(|entry| {
        let entry = entry.expect("it can be listed");
        match entry.file_type().expect("a type").is_dir() {
            true => bytes_below(&entry.path()),
            // A file that was listed may be gone by now.
            false => entry.metadata().map_or(0, |metadata| metadata.len()),
        }
    });
    bytes.sum()
}

/// Goal: a database that was emptied is small, without anybody asking for a compaction. Method: many keys, some with
/// separated values, all deleted; what is left after `wait_idle`, log included.
#[test]
fn an_emptied_database_is_small() {
    assert_small_when_emptied(|db, family| {
        for batch in 0..100 {
            let mut transaction = db.begin().expect("open");
            for number in batch * 1000..(batch + 1) * 1000 {
                transaction.delete(family, &key(number)).expect("a delete");
            }
            transaction.commit().expect("a commit");
        }
    });
    assert_small_when_emptied(|db, family| {
        db.delete_range(family, b"key ", b"key!").expect("a delete");
    });
}

fn assert_small_when_emptied(empty: impl Fn(&Db, &ColumnFamily)) {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path());
    let settings = FamilyOptions {
        write_buffer_bytes: 4 << 20,
        ..small()
    };
    let family = db.create_family("f", settings).expect("a new name");
    for batch in 0..100 {
        let mut transaction = db.begin().expect("open");
        for number in batch * 1000..(batch + 1) * 1000 {
            let bytes = if number % 50 == 0 { 2000 } else { 100 };
            transaction
                .put(&family, &key(number), &vec![number as u8; bytes])
                .expect("a put");
        }
        transaction.commit().expect("a commit");
    }
    empty(&db, &family);
    db.wait_idle().expect("background work goes well");
    let stats = db.family_stats(&family).expect("open");
    assert_eq!((stats.entries, tables(&db, &family)), (0, 0), "{stats:?}");
    let bytes = bytes_below(directory.path());
    assert!(bytes < 2 << 20, "{bytes} bytes are left");
    db.put(&family, b"k", b"v").expect("writing goes on");
    db.close().expect("closes");
    assert!(bytes_below(directory.path()) < 2 << 20);
    let db = open(directory.path());
    let family = db.family("f").expect("it was made");
    assert_eq!(db.estimate_cardinality(&family).expect("open"), 1);
}

/// Goal: shortening the log loses nothing, whenever the power goes. Method: a script that fills, empties, rests and goes
/// on is cut after every change of the disk, in images of what reached it.
#[test]
fn resting_loses_nothing_whenever_the_power_goes() {
    let total = rest_and_go_on(u64::MAX, 0).1;
    let mut rested = 0;
    for cut in (0..total).step_by(3).chain(total.saturating_sub(60)..total) {
        rested += u64::from(rest_and_go_on(cut, cut).0);
    }
    assert!(rested > 0, "no cut came after the rest");
}

/// Runs the script until the machine stops after `cut` changes of the disk, and looks at what is left. Answers whether
/// the rest was over, and how many changes there were.
fn rest_and_go_on(cut: u64, seed: u64) -> (bool, u64) {
    let env = MemoryEnv::new(seed);
    let open = |env: &MemoryEnv| {
        let options = Options {
            env: Some(Arc::new(env.clone())),
            ..Options::default()
        };
        Db::open("/db", options)
    };
    let db = open(&env).expect("the database opens");
    let options = FamilyOptions {
        write_buffer_bytes: 1 << 20,
        sync: SyncMode::Full,
        ..small()
    };
    let family = db.create_family("f", options).expect("a new name");
    let before = env.io_count();
    env.halt_after(before.saturating_add(cut));
    let batch = |number: usize| {
        let mut transaction = db.begin()?;
        for part in 0..400 {
            let key = key(part);
            match number {
                0..6 => transaction.put(&family, &key, &[number as u8; 1000])?,
                _ => transaction.delete(&family, &key)?,
            }
        }
        transaction.put(&family, b"batch", number.to_string().as_bytes())?;
        transaction.commit()
    };
    let mut acknowledged = None;
    let mut has_rested = false;
    for number in 0..12 {
        if number == 9 {
            has_rested = db.flush(&family).is_ok() && db.wait_idle().is_ok();
            if cut == u64::MAX {
                let bytes = db.stats().expect("open").log_bytes;
                assert_eq!(bytes, 1 << 20, "the log begins anew");
            }
        }
        if batch(number).is_err() {
            break;
        }
        acknowledged = Some(number);
    }
    let changes = env.io_count() - before;
    let images = [
        CrashImage::NothingUnsynced,
        CrashImage::Everything,
        CrashImage::Random,
    ];
    for image in images {
        let db = open(&env.crash(image, seed)).expect("it recovers");
        let family = db.family("f").expect("it was made");
        let value = db.get(&family, b"batch").expect("readable");
        let found = value.map(|text| String::from_utf8_lossy(&text).parse().expect("a number"));
        assert!(
            found >= acknowledged,
            "cut {cut}: {found:?} {acknowledged:?}"
        );
        let keys = db
            .iter(&family, IterOptions::default())
            .expect("readable")
            .entries()
            .inspect(|entry| assert!(entry.is_ok(), "cut {cut}: {entry:?}"))
            .count();
        let expected = match found {
            None => 0,
            Some(0..6_usize) => 401,
            Some(_) => 1,
        };
        assert_eq!(keys, expected, "cut {cut}: a batch is there in part");
    }
    (has_rested, changes)
}

/// Goal: an idle database has what it wrote in its block cache, so that reads fetch nothing; what was there before its opening
/// stays on disk until somebody asks for it. Method: blocks that reads had to fetch, of both, in two families that are flushed
/// and merged.
#[test]
fn an_idle_database_caches_what_it_wrote() {
    const KEYS: usize = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let misses_of_reading = |db: &Db, family: &ColumnFamily| {
        let misses = || db.stats().expect("open").cache.misses;
        let before = misses();
        for number in 0..KEYS {
            let value = db.get(family, &key(number)).expect("readable");
            assert_eq!(value.as_deref(), Some(&[number as u8; 100][..]));
        }
        misses() - before
    };
    let db = open(directory.path());
    for name in ["f", "g"] {
        let family = db.create_family(name, small()).expect("a new name");
        fill(&db, &family, 0..KEYS);
        db.flush(&family).expect("a flush");
    }
    db.wait_idle().expect("healthy");
    for name in ["f", "g"] {
        let family = db.family(name).expect("it is there");
        assert_eq!(misses_of_reading(&db, &family), 0, "{name}");
    }
    db.close().expect("closes");

    let db = open(directory.path());
    db.wait_idle().expect("healthy");
    assert_eq!(db.stats().expect("open").cache.entries, 0);
    let family = db.family("f").expect("it is there");
    assert!(misses_of_reading(&db, &family) > 0);
    db.close().expect("closes");
}
