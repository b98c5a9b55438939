//! Goal: a handle that is not live is refused and nothing else happens. Method: every way in which one can be wrong, and
//! threads that use and free the same ones.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

static NUMBERS: Table<Arc<u64>> = Table::new(6);
static HELD_NUMBERS: Table<u64> = Table::new(7);
static COUNTED: Table<Counted> = Table::new(7);
static LIVE_COUNT: AtomicUsize = AtomicUsize::new(0);

struct Counted(u64);

impl Counted {
    fn new() -> Self {
        LIVE_COUNT.fetch_add(1, Ordering::SeqCst);
        Self(0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE_COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn handles_look_like_aligned_user_pointers_that_a_double_can_hold() {
    let handle = NUMBERS.insert(Arc::new(1)).expect("there is room");
    assert_eq!(handle % 8, 0);
    assert!(handle < 1 << 47);
    NUMBERS.remove(handle).expect("it is live");
}

#[test]
fn null_foreign_and_freed_handles_are_told_apart() {
    let handle = NUMBERS.insert(Arc::new(7)).expect("there is room");
    assert_eq!(NUMBERS.share(handle, |number| **number), Ok(7));
    assert_eq!(NUMBERS.share(0, |_| ()), Err(Refused::Null));
    let on_the_stack = 5_u64;
    let foreign = [
        1,
        8,
        u64::MAX,
        &raw const on_the_stack as u64,
        handle + 1,
        handle | 1 << 63,
    ];
    for wrong in foreign {
        assert_eq!(
            NUMBERS.share(wrong, |_| ()),
            Err(Refused::Foreign),
            "{wrong:#x}"
        );
    }
    assert!(HELD_NUMBERS.hold(handle).is_err(), "of another kind");
    assert_eq!(NUMBERS.remove(handle).as_deref(), Ok(&7));
    assert_eq!(NUMBERS.share(handle, |_| ()), Err(Refused::Stale));
    assert!(NUMBERS.remove(handle).is_err());
}

#[test]
fn a_held_object_is_refused_to_others_and_ended_by_its_holder() {
    let handle = HELD_NUMBERS.insert(0).expect("there is room");
    let mut held = HELD_NUMBERS.hold(handle).expect("it is idle");
    *held = 5;
    assert_eq!(HELD_NUMBERS.hold(handle).err(), Some(Refused::InUse));
    assert_eq!(HELD_NUMBERS.discard(handle), Ok(()));
    assert_eq!(HELD_NUMBERS.hold(handle).err(), Some(Refused::Stale));
    assert_eq!(*held, 5, "the holder goes on");
    drop(held);
    assert_eq!(HELD_NUMBERS.discard(handle), Err(Refused::Stale));
}

#[test]
fn threads_that_use_and_end_the_same_objects_neither_lose_nor_double_one() {
    const ROUNDS: usize = 2_000;
    let used = AtomicUsize::new(0);
    let handles: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4_usize {
            let (handles, used) = (&handles, &used);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let place = &handles[(seed + round) % handles.len()];
                    let handle = place.load(Ordering::SeqCst);
                    if let Ok(mut held) = COUNTED.hold(handle) {
                        held.0 += 1;
                        used.fetch_add(1, Ordering::SeqCst);
                    }
                    if round % 3 == 0 {
                        let next = COUNTED.insert(Counted::new()).expect("there is room");
                        let before = place.swap(next, Ordering::SeqCst);
                        if before != 0 {
                            COUNTED.discard(before).expect("ended once");
                        }
                    }
                }
            });
        }
    });
    for place in &handles {
        COUNTED
            .discard(place.load(Ordering::SeqCst))
            .expect("ended once");
    }
    assert!(used.load(Ordering::SeqCst) > 0);
    assert_eq!(LIVE_COUNT.load(Ordering::SeqCst), 0);
}

#[test]
fn a_slot_is_used_again_under_another_generation() {
    static FEW: Table<Arc<u64>> = Table::new(5);
    let mut seen = std::collections::HashSet::new();
    for number in 0..1000 {
        let handle = FEW.insert(Arc::new(number)).expect("there is room");
        assert!(seen.insert(handle));
        FEW.remove(handle).expect("it is live");
    }
    let slots: std::collections::HashSet<u64> = seen
        .iter()
        .map(|handle| (handle >> SLOT_SHIFT) & SLOT_MASK)
        .collect();
    assert_eq!(slots.len(), 1);
}
