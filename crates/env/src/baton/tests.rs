use std::{sync::Arc, time::Duration};

use super::{BatonEnv, Outcome, Tuning, simulate};
use crate::{
    Env, MemoryEnv,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

fn env() -> BatonEnv {
    BatonEnv::new(Arc::new(MemoryEnv::new(1)))
}

fn often() -> Tuning {
    Tuning {
        switch_one_in: 2,
        pauses_max: 100_000,
        ..Tuning::default()
    }
}

/// Two threads that add to a counter by load and store: an update is lost in some orders.
fn racing(seed: u64) -> Outcome<u64> {
    simulate(seed, often(), || {
        let counter = Arc::new(AtomicU64::new(0));
        let env = env();
        let adders: Vec<_> = (0..2)
            .map(|_| {
                let counter = Arc::clone(&counter);
                let body = move || {
                    for _ in 0..3 {
                        let before = counter.load(Ordering::SeqCst);
                        counter.store(before + 1, Ordering::SeqCst);
                    }
                };
                env.spawn("adder", Box::new(body)).unwrap()
            })
            .collect();
        for adder in adders {
            adder.join().unwrap();
        }
        counter.load(Ordering::SeqCst)
    })
}

#[test]
fn a_seed_gives_the_same_run_again_and_seeds_differ() {
    let mut sums = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (first, second) = (racing(seed), racing(seed));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.answer, second.answer, "seed {seed}");
        sums.insert(first.answer.unwrap());
    }
    assert!(sums.contains(&6), "no seed ran without a race: {sums:?}");
    assert!(sums.len() > 1, "no seed lost an update: {sums:?}");
}

#[test]
fn a_lock_excludes_in_every_order() {
    for seed in 0..50 {
        let outcome = simulate(seed, often(), || {
            let counter = Arc::new(Mutex::new(0_u64));
            let env = env();
            let adders: Vec<_> = (0..3)
                .map(|_| {
                    let counter = Arc::clone(&counter);
                    let pausing = env.clone();
                    let body = move || {
                        for _ in 0..3 {
                            let mut held = counter.lock();
                            let before = *held;
                            pausing.sleep(Duration::from_micros(5));
                            *held = before + 1;
                        }
                    };
                    env.spawn("adder", Box::new(body)).unwrap()
                })
                .collect();
            for adder in adders {
                adder.join().unwrap();
            }
            *counter.lock()
        });
        assert_eq!(outcome.answer, Ok(9), "seed {seed}");
    }
}

#[test]
fn waits_end_by_a_wake_or_by_simulated_time() {
    let outcome = simulate(3, often(), || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let env = env();
        let begin = env.monotonic_nanos();
        let guard = pair.0.lock();
        let (guard, timed_out) = pair.1.wait_timeout(guard, Duration::from_secs(3600));
        drop(guard);
        assert!(timed_out);
        assert!(env.monotonic_nanos() - begin >= 3_600_000_000_000);
        let other = Arc::clone(&pair);
        let waker = env
            .spawn(
                "waker",
                Box::new(move || {
                    *other.0.lock() = true;
                    other.1.notify_one();
                }),
            )
            .unwrap();
        let mut is_woken = pair.0.lock();
        while !*is_woken {
            is_woken = pair.1.wait(is_woken);
        }
        drop(is_woken);
        waker.join()
    });
    assert_eq!(outcome.answer, Ok(Ok(())));
}

#[test]
fn a_deadlock_is_told_with_its_threads() {
    let outcome = simulate(1, often(), || {
        let pair = (Mutex::new(()), Condvar::new());
        let guard = pair.0.lock();
        drop(pair.1.wait(guard));
    });
    let message = outcome.answer.unwrap_err();
    assert!(
        message.starts_with("deadlock; 0 client: Waiting"),
        "{message}"
    );
}

#[test]
fn panics_and_endless_runs_are_told() {
    let panicked: Outcome<()> = simulate(1, often(), || panic!("on purpose"));
    assert_eq!(panicked.answer, Err("panic: on purpose".to_owned()));
    let endless = simulate(1, often(), || {
        let flag = AtomicU64::new(0);
        while flag.load(Ordering::SeqCst) == 0 {}
    });
    let message = endless.answer.unwrap_err();
    assert!(
        message.starts_with("the run does not come to an end"),
        "{message}"
    );
}

#[test]
fn a_panic_of_another_thread_is_its_joiners() {
    let outcome = simulate(1, often(), || {
        env()
            .spawn("unlucky", Box::new(|| panic!("alone")))
            .unwrap()
            .join()
    });
    assert_eq!(outcome.answer, Ok(Err("alone".to_owned())));
}

/// How many of 200 seeds let a thread with two steps left wait through a whole sleep of another.
fn overslept(away_pauses_max: u64) -> usize {
    let tuning = Tuning {
        away_pauses_max,
        ..often()
    };
    let is_overslept = |seed: &u64| {
        let outcome = simulate(*seed, tuning, || {
            let (env, steps) = (env(), Arc::new(AtomicU64::new(0)));
            let walked = Arc::clone(&steps);
            let walk = move || {
                walked.store(1, Ordering::SeqCst);
                walked.store(2, Ordering::SeqCst);
            };
            let walker = env.spawn("walker", Box::new(walk)).unwrap();
            while steps.load(Ordering::SeqCst) == 0 {}
            env.sleep(Duration::from_micros(100));
            let seen = steps.load(Ordering::SeqCst);
            walker.join().unwrap();
            seen
        });
        outcome.answer.unwrap() == 1
    };
    (0..200).filter(is_overslept).count()
}

#[test]
fn a_thread_that_is_away_stays_away_while_another_sleeps() {
    assert_eq!(overslept(0), 0, "who can run, runs while another sleeps");
    assert!(overslept(200) > 5);
}
