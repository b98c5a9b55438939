use std::{sync::atomic::AtomicBool, thread};

use super::*;

fn disk_full() -> Error {
    Error::new(ErrorKind::DiskFull, "no space")
}

fn stall() -> Stall {
    Stall::new(Duration::from_secs(60))
}

fn wait(stall: &Stall, is_full: impl Fn() -> bool) -> Result<()> {
    stall.wait(is_full, || "full: try again later".to_owned())
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
    stall.add(900);
    stall.note_failure(&disk_full());
    assert!(stall.is_failing());
    let error = wait(&stall, || stall.waiting() > 0).expect_err("the family is full");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.to_string().contains("no space"), "{error}");
    stall.subtract(900);
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

/// Goal: writers that wait already are woken by room and by a failure. Method: a thread waits on a full stall; what
/// ends the wait comes once it waits.
#[test]
fn a_waiting_writer_is_woken() {
    for fails in [false, true] {
        let stall = Arc::new(stall());
        let asked = Arc::new(AtomicBool::new(false));
        stall.add(1000);
        let waiter = {
            let (stall, asked) = (Arc::clone(&stall), Arc::clone(&asked));
            thread::spawn(move || {
                wait(&stall, || {
                    asked.store(true, std::sync::atomic::Ordering::SeqCst);
                    stall.waiting() > 0
                })
            })
        };
        // The question is asked under the lock, so what follows finds the writer waiting.
        while !asked.load(std::sync::atomic::Ordering::SeqCst) {
            thread::yield_now();
        }
        if fails {
            stall.note_failure(&disk_full());
        } else {
            stall.subtract(1000);
        }
        let outcome = waiter.join().expect("no panic");
        assert_eq!(outcome.is_err(), fails);
        assert_eq!(stall.counts().0, 1);
    }
}

/// Goal: a memtable's way to its table is known at every moment, whatever is sealed behind it. Method: three memtables in
/// a queue.
#[test]
fn the_queue_tells_how_far_it_is() {
    let stall = stall();
    let first = stall.add(100);
    assert_eq!(stall.done(first, 0.0), 0.0);
    assert_eq!(stall.done(first, 25.0), 0.25);
    let second = stall.add(300);
    assert_eq!(stall.done(second, 0.0), 0.0);
    stall.subtract(100);
    assert_eq!(stall.done(second, 0.0), 0.25);
    let third = stall.add(100);
    assert_eq!(stall.done(second, 150.0), 0.625);
    stall.subtract(300);
    assert_eq!(stall.done(second, 0.0), 1.0);
    assert_eq!(stall.done(third, 50.0), 0.875);
    stall.subtract(100);
    assert_eq!((stall.done(third, 0.0), stall.waiting()), (1.0, 0));
}

/// Goal: every byte is answered for once, by commits of 4 KiB or more themselves. Method: commits of 1 KiB by four threads.
#[test]
fn small_commits_are_answered_for_together() {
    let stall = Arc::new(stall());
    assert_eq!(stall.take_bytes(BYTES_PER_STEP), Some(BYTES_PER_STEP));
    assert_eq!(stall.take_bytes(100), None);
    assert_eq!(stall.take_bytes(BYTES_PER_STEP - 100), Some(BYTES_PER_STEP));
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
    assert!(left < BYTES_PER_STEP);
}

/// Goal: short delays are not lost and not slept twice. Method: delays of a third of a step by one thread, then by four.
#[test]
fn short_delays_are_saved_up() {
    let third = DELAY_STEP / 3;
    let stall = stall();
    let slept: Vec<bool> = (0..7).map(|_| stall.save_up(third).is_some()).collect();
    assert_eq!(slept, [false, false, false, true, false, false, true]);

    let stall = Arc::new(Stall::new(Duration::ZERO));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let stall = Arc::clone(&stall);
            thread::spawn(move || (0..999).filter(|_| stall.save_up(third).is_some()).count())
        })
        .collect();
    let steps: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum();
    // A third is rounded down to whole nanoseconds, which costs at most one step.
    assert!((1331..=1332).contains(&steps), "{steps}");
}
