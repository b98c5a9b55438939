#[cfg(not(loom))]
mod plain {
    use std::{sync::Arc, thread, time::Duration};

    use crate::sync::{Condvar, Mutex};

    #[test]
    fn a_panic_does_not_poison() {
        let mutex = Arc::new(Mutex::new(7));
        let other = Arc::clone(&mutex);
        let panicked = thread::spawn(move || {
            let _guard = other.lock();
            panic!("while holding the lock");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 7);
        assert_eq!(mutex.try_lock().map(|guard| *guard), Some(7));
        let mutex = Arc::into_inner(mutex).unwrap();
        assert_eq!(mutex.into_inner(), 7);
    }

    #[test]
    fn try_lock_does_not_wait() {
        let mutex = Mutex::new(());
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn waits_end_by_a_wake_or_by_time() {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let (mutex, condvar) = &*pair;
        // Nobody wakes: only time can end this, after any number of wakes without reason.
        let mut guard = mutex.lock();
        loop {
            let (again, timed_out) = condvar.wait_timeout(guard, Duration::from_nanos(1));
            guard = again;
            if timed_out {
                break;
            }
        }
        let other = Arc::clone(&pair);
        let waker = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_all();
        });
        while !*guard {
            guard = condvar.wait(guard);
        }
        drop(guard);
        waker.join().unwrap();
    }
}

#[cfg(loom)]
mod model {
    use loom::{sync::Arc, thread};

    use crate::sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    };

    /// The wrappers reach loom: in every interleaving the waiter wakes and sees what was stored before.
    #[test]
    fn a_waiter_sees_what_the_waker_did() {
        loom::model(|| {
            let shared = Arc::new((Mutex::new(false), Condvar::new(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let waker = thread::spawn(move || {
                // Relaxed: the lock that follows publishes it.
                other.2.store(7, Ordering::Relaxed);
                *other.0.lock() = true;
                other.1.notify_one();
            });
            let (mutex, condvar, value) = &*shared;
            let mut guard = mutex.lock();
            while !*guard {
                guard = condvar.wait(guard);
            }
            // Relaxed: the lock above observes what the waker published.
            assert_eq!(value.load(Ordering::Relaxed), 7);
            drop(guard);
            waker.join().unwrap();
        });
    }
}
