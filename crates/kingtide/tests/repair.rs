//! Repair: damages of every kind to every file of a small database. `proof repair` damages every byte.

use std::sync::Arc;

use kingtide::{
    Db, ErrorKind, FamilyOptions, ManifestFound, Options, RepairOptions, SyncMode, repair,
};
use kingtide_env::{Env, MemoryEnv, OpenMode};
use kingtide_testkit::repair::check_all;

const SOURCE: &str = "/db";
const TARGET: &str = "/repaired";

fn options(env: &MemoryEnv) -> Options {
    Options {
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    }
}

fn into(env: &MemoryEnv) -> RepairOptions {
    RepairOptions {
        into: Some(TARGET.into()),
        env: Some(Arc::new(env.clone())),
        ..RepairOptions::default()
    }
}

/// Goal: what is whole comes back, what is not is told, nothing is invented.
// Promise: 5.
#[test]
fn repair_brings_back_what_is_whole_and_tells_the_rest() {
    let tally = check_all(997).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(tally.repairs > 50 && tally.with_losses > 20 && tally.without_manifest > 0);
}

/// Goal: refusals are clear and leave nothing. Method: an open database, a taken target, a directory that is not there.
#[test]
fn what_cannot_be_repaired_is_refused() {
    let env = MemoryEnv::new(1);
    let refused = |env| {
        repair(SOURCE, &into(env), &mut |_, _| {})
            .unwrap_err()
            .kind()
    };
    assert_eq!(refused(&env), ErrorKind::NotFound);
    let db = Db::open(SOURCE, options(&env)).unwrap();
    assert_eq!(refused(&env), ErrorKind::Locked);
    db.close().unwrap();
    env.write_file("/repaired/file", b"taken").unwrap();
    assert_eq!(refused(&env), ErrorKind::AlreadyExists);
    let nowhere = RepairOptions {
        into: Some("/".into()),
        ..into(&env)
    };
    let error = repair(SOURCE, &nowhere, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// Goal: settings, prepared transactions and expiries come along; a dry run writes nothing.
#[test]
fn settings_and_prepared_transactions_come_along() {
    let env = MemoryEnv::new(1);
    let db = Db::open(SOURCE, options(&env)).unwrap();
    let family = db
        .create_family(
            "f",
            FamilyOptions {
                min_levels: 3,
                disk_free_bytes_min: 0,
                ..FamilyOptions::default()
            },
        )
        .unwrap();
    db.put(&family, b"k", b"v").unwrap();
    db.put_expiring(&family, b"gone", b"v", 1).unwrap();
    let mut transaction = db.begin().unwrap();
    transaction.put(&family, b"p", b"prepared").unwrap();
    transaction.prepare(b"x").unwrap();
    let found = env.kill();
    drop(transaction);
    db.close().unwrap();

    let dry = RepairOptions {
        into: None,
        ..into(&found)
    };
    let report = repair(SOURCE, &dry, &mut |_, _| {}).unwrap();
    assert!(report.is_whole());
    assert!(found.open_directory(TARGET.as_ref(), false).is_err());
    let report = repair(SOURCE, &into(&found), &mut |_, _| {}).unwrap();
    assert_eq!(report.prepared, [b"x".to_vec()]);
    assert_eq!(report.families[0].entries, 1);
    let db = Db::open(TARGET, options(&found)).unwrap();
    let family = db.family("f").unwrap();
    assert_eq!(family.options().min_levels, 3);
    assert!(db.get(&family, b"gone").unwrap().is_none());
    db.commit_prepared(b"x").unwrap();
    assert_eq!(db.get(&family, b"p").unwrap().unwrap(), b"prepared");
    db.close().unwrap();
}

/// Goal: records behind a hole are used only on demand. Method: a hole in the middle of three synced commits.
#[test]
fn records_behind_a_hole_are_used_on_demand() {
    let env = MemoryEnv::new(1);
    let db = Db::open(SOURCE, options(&env)).unwrap();
    let settings = FamilyOptions {
        sync: SyncMode::Full,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", settings).unwrap();
    for (key, value) in [
        (b"a", b"first-value!"),
        (b"b", b"second-value"),
        (b"c", b"third-value!"),
    ] {
        db.put(&family, key, value).unwrap();
    }
    let found = env.kill();
    db.close().unwrap();
    let path = found
        .paths()
        .into_iter()
        .find(|path| path.extension().is_some_and(|kind| kind == "wal"))
        .unwrap();
    let bytes = found.read_file(&path).unwrap();
    let hit = bytes
        .windows(12)
        .position(|window| window == b"second-value")
        .unwrap();
    assert!(found.corrupt(&path, hit as u64, |byte| *byte ^= 1));
    assert_eq!(
        Db::open(SOURCE, options(&found)).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    for (log_after_holes, keys) in [(false, 1), (true, 2)] {
        let target = format!("{TARGET}-{keys}");
        let options_of = RepairOptions {
            into: Some(target.clone().into()),
            log_after_holes,
            ..into(&found)
        };
        let report = repair(SOURCE, &options_of, &mut |_, _| {}).unwrap();
        assert_eq!(report.log_records_behind_holes, 1);
        assert_eq!(report.losses.len(), 1);
        assert_eq!(report.families[0].entries, keys);
        let db = Db::open(&target, options(&found)).unwrap();
        let family = db.family("f").unwrap();
        assert_eq!(db.get(&family, b"c").unwrap().is_some(), log_after_holes);
        db.close().unwrap();
    }
}

/// Goal: what was never in a table has no name without a manifest, but is brought back.
#[test]
fn without_a_manifest_families_of_the_log_get_names() {
    let env = MemoryEnv::new(1);
    let db = Db::open(SOURCE, options(&env)).unwrap();
    let settings = FamilyOptions {
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", settings.clone()).unwrap();
    db.put(&family, b"k", b"v").unwrap();
    db.flush(&family).unwrap();
    db.rename_family("f", "renamed").unwrap();
    let other = db.create_family("other", settings).unwrap();
    db.put(&other, b"k", b"in the log").unwrap();
    let found = env.kill();
    db.close().unwrap();
    let root = found.open_directory(SOURCE.as_ref(), false).unwrap();
    for entry in root.list().unwrap() {
        if entry.name.starts_with("MANIFEST") {
            assert!(root.open(&entry.name, OpenMode::Read).is_ok());
            root.remove(&entry.name).unwrap();
        }
    }
    let report = repair(SOURCE, &into(&found), &mut |_, _| {}).unwrap();
    assert_eq!(report.manifest, ManifestFound::Lost);
    let db = Db::open(TARGET, options(&found)).unwrap();
    assert_eq!(db.families().len(), 2);
    assert_eq!(
        db.get(&db.family("f").unwrap(), b"k").unwrap().unwrap(),
        b"v"
    );
    let lost = db
        .families()
        .into_iter()
        .find(|name| name.starts_with("lost-"))
        .unwrap();
    let lost = db.family(&lost).unwrap();
    assert_eq!(db.get(&lost, b"k").unwrap().unwrap(), b"in the log");
    db.close().unwrap();
}

/// Goal: a manifest that was cut off, even between two batches, costs nothing. Method: every length; the database opens
/// with everything in it or is refused and repaired.
#[test]
fn a_manifest_that_was_cut_off_costs_nothing() {
    let env = MemoryEnv::new(1);
    let db = Db::open(SOURCE, options(&env)).unwrap();
    let settings = FamilyOptions {
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    for name in ["f", "g"] {
        let family = db.create_family(name, settings.clone()).unwrap();
        db.put(&family, b"a", b"in a table").unwrap();
        db.flush(&family).unwrap();
        db.put(&family, b"b", b"in the log").unwrap();
    }
    let found = env.kill();
    db.close().unwrap();
    let is_manifest = |path: &std::path::PathBuf| path.to_string_lossy().contains("MANIFEST");
    let path = found.paths().into_iter().find(is_manifest).unwrap();
    let bytes = found.read_file(&path).unwrap();
    let mut refused = 0;
    for length in 0..bytes.len() {
        let copy = found.crash(kingtide_env::CrashImage::Everything, 1);
        copy.write_file(&path, &bytes[..length]).unwrap();
        let opened = match Db::open(SOURCE, options(&copy)) {
            Ok(db) => db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{length}: {error}");
                refused += 1;
                let report = repair(SOURCE, &into(&copy), &mut |_, _| {}).unwrap();
                assert!(!report.is_whole(), "{length}");
                Db::open(TARGET, options(&copy)).unwrap()
            }
        };
        for name in ["f", "g"] {
            let family = opened
                .family(name)
                .unwrap_or_else(|error| panic!("{length}: {error}"));
            for (key, value) in [(b"a", b"in a table"), (b"b", b"in the log")] {
                let found = opened.get(&family, key).unwrap();
                assert_eq!(found.unwrap(), value, "{length}");
            }
        }
        opened.close().unwrap();
    }
    assert!(refused > 0);
}
