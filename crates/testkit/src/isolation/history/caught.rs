//! Would a database with the wrong level be caught? Transactions are run at one level and said to be of another.
//!
//! One thread with several open transactions does it, so each of these histories is always the same.

use std::sync::atomic::{AtomicU64, Ordering};

use kingtide::{Db, IsolationLevel};
use kingtide_env::MemoryEnv;

use super::{
    check::check_window,
    client::{Client, Shared},
    independent::anomalies,
    profile::Profile,
    record::Window,
    session::{fill, run_window, state},
};
use crate::{isolation::LEVELS, world};

/// A window of transactions at `level`.
fn record(level: IsolationLevel, is_plain: bool) -> Window {
    let profile = Profile {
        level: Some(level),
        threads: 1,
        slots: 4,
        keys: 8,
        hot_keys: 2,
        operations_max: 5,
        scan_max: 4,
        is_plain,
        is_on_disk: false,
        ..Profile::new(1, None)
    };
    let open = || -> crate::Checked<Window> {
        let db = Db::open(world::DATABASE, world::options(&MemoryEnv::new(1)))?;
        let create = |name| db.create_family(name, profile.family_options());
        let families = [create("left")?, create("right")?];
        let (before, sequence) = fill(&db, &families, &profile)?;
        let shared = Shared {
            db: &db,
            families: &families,
            profile: &profile,
            stamps: AtomicU64::new(1),
            acknowledged: AtomicU64::new(sequence),
            left: AtomicU64::new(3_000),
        };
        let log = run_window(&mut [Client::new(&shared, 0, 1)])?;
        assert_eq!(shared.left.load(Ordering::SeqCst), 0);
        let after = state(&db, &families, &profile)?;
        db.close()?;
        Ok(Window {
            before,
            sequence_before: sequence,
            log,
            after,
        })
    };
    open().unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn a_level_that_is_another_one_is_caught() {
    for ran in LEVELS {
        let mut window = record(ran, false);
        for claimed in LEVELS {
            for record in &mut window.log.records {
                record.level = claimed;
            }
            // The two weakest levels are the same.
            let is_same = ran == claimed || !(ran.has_one_view() || claimed.has_one_view());
            let outcome = check_window(&window);
            assert_eq!(
                outcome.is_ok(),
                is_same,
                "{ran:?} as {claimed:?}: {outcome:?}"
            );
        }
    }
}

#[test]
fn the_independent_checker_catches_levels_that_are_weaker() {
    let finds = |level, model: &str| !anomalies(&record(level, true), &[model]).is_empty();
    assert!(finds(
        IsolationLevel::ReadCommitted,
        "strong-snapshot-isolation"
    ));
    assert!(finds(IsolationLevel::Snapshot, "strict-serializable"));
    assert!(finds(IsolationLevel::Snapshot, "repeatable-read"));
    assert!(!finds(IsolationLevel::Serializable, "strict-serializable"));
}
