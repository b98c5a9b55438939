use std::{sync::atomic::AtomicBool, thread};

use kingtide_env::MemoryEnv;

use super::*;

fn disk_full() -> Error {
    Error::new(ErrorKind::DiskFull, "no space")
}

fn stall() -> Stall {
    Stall::new(Duration::from_secs(60))
}

fn wait(stall: &Stall, is_full: impl Fn() -> bool) -> Result<()> {
    let env = MemoryEnv::new(1);
    stall.wait(&env, is_full, || "full: try again later".to_owned())
}

/// Goal: nobody waits while there is room, whether flushing fails or not.
#[test]
fn with_room_nobody_waits() {
    let stall = stall();
    wait(&stall, || false).expect("there is room");
    stall.note_failure(&disk_full());
    wait(&stall, || false).expect("with room the failure is nobody's business");
    assert_eq!(stall.counts(), (0, 0));
}

/// Goal: a writer that waits is told why flushing fails, and goes on when a flush succeeds. Method: the failure is known
/// before; then a memtable goes.
#[test]
fn a_waiting_writer_gets_the_error_of_the_flush() {
    let stall = stall();
    stall.add();
    stall.note_failure(&disk_full());
    assert!(stall.is_failing());
    let error = wait(&stall, || stall.waiting() > 0).expect_err("the family is full");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.to_string().contains("no space"), "{error}");
    stall.subtract();
    assert!(!stall.is_failing() && stall.is_calm());
    wait(&stall, || stall.waiting() > 0).expect("there is room again");
}

/// Goal: the wait is bounded, and says what to do. Method: a bound that is over at once.
#[test]
fn the_wait_ends_with_busy() {
    let stall = Stall::new(Duration::ZERO);
    let error = wait(&stall, || true).expect_err("nothing is flushed");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("try again later"), "{error}");
}

/// Goal: the wait is bounded also where there is always something to wake up for. Method: a flush of another family ends each time
/// the writer looks, and a second passes.
#[test]
fn the_wait_ends_though_others_go_on() {
    let (stall, env) = (stall(), MemoryEnv::new(1));
    let is_full = || {
        stall.add();
        stall.subtract();
        env.advance(Duration::from_secs(1));
        true
    };
    let error = stall.wait(&env, is_full, || "full".to_owned());
    assert_eq!(error.expect_err("never any room").kind(), ErrorKind::Busy);
}

/// Goal: writers that wait already are woken by room and by a failure. Method: a thread waits on a full stall; what
/// ends the wait comes once it waits.
#[test]
fn a_waiting_writer_is_woken() {
    for fails in [false, true] {
        let stall = Arc::new(stall());
        let asked = Arc::new(AtomicBool::new(false));
        stall.add();
        let waiter = {
            let (stall, asked) = (Arc::clone(&stall), Arc::clone(&asked));
            thread::spawn(move || {
                wait(&stall, || {
                    asked.store(true, std::sync::atomic::Ordering::SeqCst);
                    stall.waiting() > 0
                })
            })
        };
        // What follows finds the writer waiting, or before it waits: it is told of either.
        while !asked.load(std::sync::atomic::Ordering::SeqCst) {
            thread::yield_now();
        }
        if fails {
            stall.note_failure(&disk_full());
        } else {
            stall.subtract();
        }
        let outcome = waiter.join().expect("no panic");
        assert_eq!(outcome.is_err(), fails);
        assert_eq!(stall.counts().0, 1);
    }
}

/// Goal: the speed of flushing follows the flushes, and one odd flush does not change it much.
#[test]
fn the_usual_speed_of_flushes_is_known() {
    let stall = stall();
    assert_eq!(stall.flush_speed(), SPEED_UNKNOWN);
    stall.note_speed(100, 1_000_000_000);
    assert_eq!(stall.flush_speed(), 100.0);
    stall.note_speed(20, 1_000_000_000);
    assert_eq!(stall.flush_speed(), 80.0);
    // A clock that stands still is no reason to divide by zero.
    stall.note_speed(80, 0);
    assert!(stall.flush_speed().is_finite());
}

/// Goal: every byte is answered for once, by commits of 4 KiB or more themselves. Method: commits of 1 KiB by four threads.
#[test]
fn small_commits_are_answered_for_together() {
    let stall = Arc::new(stall());
    assert_eq!(stall.take_bytes(BYTES_PER_TURN), Some(BYTES_PER_TURN));
    assert_eq!(stall.take_bytes(100), None);
    assert_eq!(stall.take_bytes(BYTES_PER_TURN - 100), Some(BYTES_PER_TURN));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let stall = Arc::clone(&stall);
            thread::spawn(move || -> usize {
                (0..1000).filter_map(|_| stall.take_bytes(1024)).sum()
            })
        })
        .collect();
    let taken: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum();
    let left = stall.unpaced_bytes.load(Ordering::Relaxed);
    assert_eq!(taken + left, 4000 * 1024);
    assert!(left < BYTES_PER_TURN);
}

/// Goal: turns follow each other, whoever takes them, at the speed of the moment, and are forgotten together. Method: turns
/// by hand, then of four threads.
#[test]
fn turns_follow_each_other() {
    const SPEED: f64 = 1e9;
    const BYTES: usize = 3_000_000;
    let ms = Duration::from_millis;
    let stall = stall();
    let now = 1_000_000_000;
    let [first, second] = [now; 2].map(|now| stall.take_turn(BYTES, now, SPEED));
    assert_eq!(stall.until(first, now, SPEED), ms(0));
    assert_eq!(stall.until(second, now, SPEED), ms(3));
    assert_eq!(stall.until(second, now + 1_000_000, SPEED), ms(2));
    assert_eq!(stall.until(second, now + 1_000_000, SPEED / 2.0), ms(4));
    stall.forget_turns();
    assert_eq!(stall.until(second, now + 1_000_000, SPEED), ms(0));

    let stall = Arc::new(self::stall());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let stall = Arc::clone(&stall);
            thread::spawn(move || [(); 20].map(|()| stall.take_turn(BYTES, 0, SPEED)))
        })
        .collect();
    let mut begins: Vec<Duration> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("no panic"))
        .map(|turn| stall.until(turn, 0, SPEED))
        .collect();
    begins.sort_unstable();
    let expected: Vec<Duration> = (0..80).map(|turn| ms(3 * turn)).collect();
    assert_eq!(begins, expected);
}
