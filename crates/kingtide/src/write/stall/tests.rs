use std::{sync::atomic::AtomicBool, thread};

use super::*;

fn disk_full() -> Error {
    Error::new(ErrorKind::DiskFull, "no space")
}

/// Goal: nobody waits while there is room, and one memtable always has it.
#[test]
fn with_room_nobody_waits() {
    let stall = Stall::new(1000);
    stall.wait(|| false).expect("nothing is sealed");
    stall.add(999);
    stall.wait(|| false).expect("below the limit");
    stall.subtract(999);
    assert_eq!(stall.count(), 0);
}

/// Goal: a writer that waits is told why flushing fails, by every reason to wait. Method: the failure is known before.
#[test]
fn a_waiting_writer_gets_the_error_of_the_flush() {
    let stall = Stall::new(1000);
    stall.note_failure(&disk_full());
    stall
        .wait(|| false)
        .expect("with room the failure is nobody's business");
    let error = stall.wait(|| true).expect_err("the family is full");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.to_string().contains("no space"), "{error}");
    stall.add(1000);
    let error = stall.wait(|| false).expect_err("memory is full");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
}

/// Goal: a flush that succeeds makes room and ends the failure. Method: full and failing, then one memtable goes.
#[test]
fn a_flush_that_succeeds_ends_the_failure() {
    let stall = Stall::new(1000);
    stall.add(900);
    stall.add(900);
    stall.note_failure(&disk_full());
    assert!(stall.wait(|| false).is_err());
    stall.subtract(900);
    stall.wait(|| false).expect("there is room again");
    stall.subtract(900);
    stall.subtract(900);
    stall.wait(|| false).expect("less than nothing is nothing");
}

/// Goal: writers that wait already are woken by room and by a failure. Method: a thread waits on a full stall; what
/// ends the wait comes once it waits.
#[test]
fn a_waiting_writer_is_woken() {
    for fails in [false, true] {
        let stall = Arc::new(Stall::new(1000));
        let asked = Arc::new(AtomicBool::new(false));
        stall.add(1000);
        let waiter = {
            let (stall, asked) = (Arc::clone(&stall), Arc::clone(&asked));
            thread::spawn(move || {
                stall.wait(|| {
                    asked.store(true, Ordering::SeqCst);
                    false
                })
            })
        };
        // The question is asked under the lock, so what follows finds the writer waiting.
        while !asked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        if fails {
            stall.note_failure(&disk_full());
        } else {
            stall.subtract(1000);
        }
        let outcome = waiter.join().expect("no panic");
        assert_eq!(outcome.is_err(), fails);
        assert_eq!(stall.count(), 1);
    }
}
