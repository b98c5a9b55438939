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

fn refusal(refused: Refused) -> Refused {
    refused
}

/// Adds to a number that one call at a time may be inside of.
fn add(handle: u64, more: u64) -> Result<u64, Refused> {
    HELD_NUMBERS.with(handle, refusal, |number| {
        *number += more;
        Ok(*number)
    })
}

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
    assert_eq!(add(handle, 1), Err(Refused::Foreign), "of another kind");
    assert_eq!(NUMBERS.remove(handle).as_deref(), Ok(&7));
    assert_eq!(NUMBERS.share(handle, |_| ()), Err(Refused::Stale));
    assert!(NUMBERS.remove(handle).is_err());
}

#[test]
fn a_held_object_is_refused_to_others_and_ended_by_its_holder() {
    let handle = HELD_NUMBERS.insert(0).expect("there is room");
    let outcome = HELD_NUMBERS.with(handle, refusal, |number| {
        *number = 5;
        assert_eq!(add(handle, 1), Err(Refused::InUse));
        assert_eq!(HELD_NUMBERS.discard(handle), Ok(()));
        assert_eq!(add(handle, 1), Err(Refused::Stale));
        Ok(*number)
    });
    assert_eq!(outcome, Ok(5), "the holder goes on");
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
                    let _ = COUNTED.with(handle, refusal, |counted| {
                        counted.0 += 1;
                        used.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    });
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

/// Goal: calls within calls are told apart, however many there are. Method: more of them than a thread can be at home in.
#[test]
fn calls_within_calls_are_told_apart_at_any_depth() {
    fn go_deeper(handles: &[u64], outer: &[u64]) -> Result<(), Refused> {
        for handle in outer {
            assert_eq!(add(*handle, 1), Err(Refused::InUse));
        }
        match handles.split_first() {
            None => Ok(()),
            Some((handle, inner)) => HELD_NUMBERS.with(*handle, refusal, |number| {
                *number += 1;
                let outer: Vec<u64> = outer.iter().copied().chain([*handle]).collect();
                go_deeper(inner, &outer)
            }),
        }
    }
    let insert = |_| HELD_NUMBERS.insert(0).expect("there is room");
    let handles: Vec<u64> = (0..2 * state::PLACES).map(insert).collect();
    for round in 1..=2 {
        assert_eq!(go_deeper(&handles, &[]), Ok(()));
        assert_eq!(add(handles[0], 0), Ok(round));
    }
    for handle in handles {
        assert_eq!(add(handle, 0), Ok(2));
        assert_eq!(HELD_NUMBERS.discard(handle), Ok(()));
    }
}

/// Goal: an object that goes from thread to thread is used by each, and ended by any. Method: so many objects that some have a
/// home and some have none.
#[test]
fn objects_go_from_thread_to_thread() {
    for _ in 0..200 {
        let handle = HELD_NUMBERS.insert(0).expect("there is room");
        assert_eq!(add(handle, 1), Ok(1));
        let next = std::thread::spawn(move || add(handle, 1));
        assert_eq!(next.join().expect("no panic"), Ok(2));
        assert_eq!(add(handle, 1), Ok(3));
        let last = std::thread::spawn(move || HELD_NUMBERS.discard(handle));
        assert_eq!(last.join().expect("no panic"), Ok(()));
        assert_eq!(add(handle, 1), Err(Refused::Stale));
    }
}

/// Goal: an object that another thread frees meanwhile is ended by the call that is inside at home. Method: it frees while the
/// maker is inside.
#[test]
fn an_object_that_another_thread_frees_is_ended_by_its_maker() {
    static DROPS: Table<Dropped> = Table::new(5);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    let handle = DROPS.insert(Dropped).expect("there is room");
    let outcome = DROPS.with(handle, refusal, |_| {
        std::thread::scope(|scope| {
            let used = scope.spawn(|| DROPS.with(handle, refusal, |_| Ok(())));
            assert_eq!(used.join().expect("no panic"), Err(Refused::InUse));
            let freed = scope.spawn(|| DROPS.discard(handle));
            assert_eq!(freed.join().expect("no panic"), Ok(()));
        });
        assert_eq!(DROPPED.load(Ordering::SeqCst), 0, "it is in use");
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
    assert_eq!(DROPPED.load(Ordering::SeqCst), 1);
}
