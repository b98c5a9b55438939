//! Models of the registry of snapshots, run by loom in every interleaving with up to three preemptions.

use kingtide_env::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Goal: a merge keeps what a snapshot sees: the snapshot is in the merge's list, or not below what was visible then. Method: a
/// commit becomes visible while a snapshot is taken and a merge asks.
#[test]
fn loom_a_merge_never_misses_a_snapshot() {
    model(|| {
        let registry = SnapshotRegistry::new();
        let visible = Arc::new(AtomicU64::new(1));
        // Acquire, Release: as the watermark of commits.
        let read = |visible: &AtomicU64| SeqNo(visible.load(Ordering::Acquire));
        let committer = {
            let visible = Arc::clone(&visible);
            loom::thread::spawn(move || visible.store(2, Ordering::Release))
        };
        let reader = {
            let (registry, visible) = (Arc::clone(&registry), Arc::clone(&visible));
            loom::thread::spawn(move || registry.acquire(|| read(&visible), || 0))
        };
        let boundaries = registry.boundaries(|| read(&visible));
        committer.join().expect("no panic");
        let snapshot = reader.join().expect("no panic");
        let last = boundaries
            .last()
            .expect("the newest visible number is there");
        assert!(boundaries.contains(&snapshot.sequence()) || snapshot.sequence() >= *last);
    });
}

/// Goal: a snapshot holds back what it sees until its last guard is dropped, and not longer. Method: one of two guards of one
/// number is dropped while a merge asks.
#[test]
fn loom_a_snapshot_lives_until_its_last_guard() {
    model(|| {
        let registry = SnapshotRegistry::new();
        let first = registry.acquire(|| SeqNo(1), || 5);
        let second = first.clone();
        let dropper = loom::thread::spawn(move || drop(first));
        assert_eq!(registry.boundaries(|| SeqNo(3)), [SeqNo(1), SeqNo(3)]);
        assert_eq!(registry.expiry_clock(|| 9), 5);
        dropper.join().expect("no panic");
        assert_eq!(registry.list(), [SeqNo(1)]);
        drop(second);
        assert_eq!(registry.list(), []);
        assert_eq!(registry.expiry_clock(|| 9), 9);
    });
}
