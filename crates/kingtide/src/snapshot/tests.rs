use super::*;
use kingtide_env::sync::atomic::{AtomicU64, Ordering};

fn numbers(numbers: &[u64]) -> Vec<SeqNo> {
    numbers.iter().copied().map(SeqNo).collect()
}

#[test]
fn snapshots_count_until_the_last_guard_of_their_number_is_dropped() {
    let registry = SnapshotRegistry::new();
    assert_eq!(registry.list(), []);
    assert_eq!(registry.live.lock().oldest_clock(), None);
    assert_eq!(registry.expiry_clock(|| 70), 70);
    assert_eq!(registry.boundaries(|| SeqNo(0)), numbers(&[0]));

    let five = registry.acquire(|| SeqNo(5), || 50);
    let five_again = registry.acquire(|| SeqNo(5), || 51);
    let nine = registry.acquire(|| SeqNo(9), || 60);
    assert_eq!((nine.sequence(), nine.clock()), (SeqNo(9), 60));
    assert_eq!(registry.list(), numbers(&[5, 9]));
    assert_eq!(registry.boundaries(|| SeqNo(9)), numbers(&[5, 9]));
    assert_eq!(registry.boundaries(|| SeqNo(12)), numbers(&[5, 9, 12]));
    assert_eq!(registry.live.lock().oldest_clock(), Some(50));
    assert_eq!(registry.expiry_clock(|| 70), 50);

    let clone = five.clone();
    drop(five);
    assert_eq!(registry.live.lock().oldest_clock(), Some(50));
    drop(clone);
    assert_eq!(registry.live.lock().oldest_clock(), Some(51));
    assert_eq!(registry.list(), numbers(&[5, 9]));
    drop(five_again);
    assert_eq!(registry.list(), numbers(&[9]));
    drop(nine);
    assert_eq!(registry.list(), []);
    assert_eq!(registry.live.lock().oldest_clock(), None);
}

/// Goal: a list never misses a snapshot that is below the visible number it was made with. Method: threads take
/// snapshots while the visible number grows; every snapshot that a list leaves out must be at or above the list's last
/// boundary, or be gone already. The check holds in every interleaving.
#[test]
fn a_merge_that_asks_never_misses_a_live_snapshot() {
    let registry = SnapshotRegistry::new();
    let visible = AtomicU64::new(1);
    let read_visible = || SeqNo(visible.load(Ordering::SeqCst));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let guard = registry.acquire(read_visible, || 0);
                    visible.fetch_add(1, Ordering::SeqCst);
                    let boundaries = registry.boundaries(read_visible);
                    assert!(boundaries.contains(&guard.sequence()));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..2000 {
                let boundaries = registry.boundaries(read_visible);
                let guard = registry.acquire(read_visible, || 0);
                let newest = boundaries.last().copied().expect("the visible number");
                assert!(guard.sequence() >= newest);
                assert!(boundaries.is_sorted());
            }
        });
    });
    assert_eq!(registry.list(), []);
}
