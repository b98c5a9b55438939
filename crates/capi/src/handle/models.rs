//! Models of who is inside a slot, run by loom in every interleaving: with its atomics, and with fences in the place of the pair
//! of barriers.

use std::sync::Arc;

use loom::{cell::UnsafeCell, thread};

use self::state::{Record, State, Ticket, Visit};
use super::Refused;

mod atomics {
    pub(super) use loom::{
        sync::atomic::{AtomicU32, AtomicU64, Ordering},
        thread::yield_now as wait,
    };
}

mod barrier {
    use loom::sync::atomic::{Ordering, fence};

    pub(super) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

#[path = "state.rs"]
#[expect(dead_code, reason = "what shared objects need is not modelled here")]
mod state;

const HANDLE: u64 = 4711;
/// The thread that made the object, whose record is the first one.
const MAKER: u64 = 1;
const MASK: u64 = 0xff;

struct Slot {
    state: State,
    records: [Record; 2],
    /// Calls that were inside. Plain memory: two at a time are found by loom.
    object: UnsafeCell<u32>,
    /// How often it was ended.
    ended: UnsafeCell<u32>,
}

impl Slot {
    fn new() -> Arc<Self> {
        let slot = Self {
            state: State::default(),
            records: [MAKER, MAKER + 1].map(|thread| Record {
                thread: atomics::AtomicU64::new(thread),
                places: std::array::from_fn(|_| atomics::AtomicU64::new(0)),
            }),
            object: UnsafeCell::new(0),
            ended: UnsafeCell::new(0),
        };
        assert_eq!(slot.state.publish(1), 0);
        Arc::new(slot)
    }

    fn visit(&self, generation: u64) -> Visit<'_> {
        Visit {
            records: &self.records,
            handle: HANDLE + generation,
            generation,
        }
    }

    fn end(&self) {
        // SAFETY: loom checks that nobody else is there.
        self.object.with_mut(|calls| unsafe { *calls += 1 });
        // SAFETY: as above.
        self.ended.with_mut(|ended| unsafe { *ended += 1 });
        self.state.renew(MASK);
    }

    fn enter(&self, thread: u64, visit: &Visit<'_>) -> Result<Ticket, Refused> {
        let entered = self.state.enter_at_home(thread, visit);
        entered.or_else(|was_in| {
            let end = || self.end();
            self.state.enter_from_elsewhere(visit, was_in, end)
        })
    }

    /// As `Table::with`, for the object of that generation.
    fn with_next(&self, thread: u64, generation: u64) -> Result<(), Refused> {
        let visit = self.visit(generation);
        let ticket = self.enter(thread, &visit)?;
        // SAFETY: loom checks that nobody else is there.
        self.object.with_mut(|calls| unsafe { *calls += 1 });
        if !self.state.leave_home(&visit, ticket) && self.state.leave(&visit, ticket) {
            self.end();
        }
        Ok(())
    }

    fn with(&self, thread: u64) -> Result<(), Refused> {
        self.with_next(thread, 0)
    }

    /// As `Table::discard`; whether this call ended the object.
    fn discard(&self, thread: u64) -> Result<bool, Refused> {
        let visit = self.visit(0);
        let is_mine = match self.enter(thread, &visit) {
            Ok(ticket) => self.state.leave_for_good(&visit, ticket),
            Err(Refused::InUse) => self.state.doom(&visit)?,
            Err(refused) => return Err(refused),
        };
        if is_mine {
            self.end();
        }
        Ok(is_mine)
    }

    fn ended(&self) -> u32 {
        // SAFETY: all threads have ended.
        self.ended.with(|ended| unsafe { *ended })
    }
}

/// Runs `bodies` for each thread in every interleaving, of three threads in those with up to two preemptions; the maker's in the
/// thread that made the slot.
fn model(bodies: fn(u64, &Slot), threads: u64, then: fn(&Slot)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = (threads > 2).then_some(2);
    builder.check(move || {
        let slot = Slot::new();
        let others: Vec<_> = (MAKER + 1..=threads)
            .map(|thread| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || bodies(thread, &slot))
            })
            .collect();
        bodies(MAKER, &slot);
        for other in others {
            other.join().expect("no panic");
        }
        then(&slot);
    });
}

/// Goal: one call at a time is inside, and sees what those before it did. Method: the maker goes in twice, another thread
/// twice; loom refuses two at a time in plain memory.
#[test]
fn loom_one_call_at_a_time_is_inside() {
    let twice = |thread, slot: &Slot| {
        for _ in 0..2 {
            let outcome = slot.with(thread);
            assert!(matches!(outcome, Ok(()) | Err(Refused::InUse)));
        }
    };
    model(twice, 2, |slot| {
        assert_eq!(slot.with(MAKER), Ok(()), "everybody is out");
        assert_eq!(slot.ended(), 0);
    });
}

/// Goal: threads from elsewhere exclude each other, too. Method: as above, with two of them.
#[test]
fn loom_threads_from_elsewhere_exclude_each_other() {
    let once = |thread, slot: &Slot| {
        let outcome = slot.with(thread);
        assert!(matches!(outcome, Ok(()) | Err(Refused::InUse)));
    };
    model(once, 3, |slot| {
        assert_eq!(slot.with(2), Ok(()), "everybody is out");
    });
}

/// Goal: an object that is freed beside a call of its maker is ended once, when both are through. Method: the maker goes in
/// while another thread frees.
#[test]
fn loom_what_is_freed_beside_its_maker_is_ended_once() {
    let bodies = |thread, slot: &Slot| {
        if thread == MAKER {
            let _ = slot.with(thread);
        } else {
            assert!(slot.discard(thread).is_ok());
        }
    };
    model(bodies, 2, |slot| {
        assert_eq!(slot.ended(), 1);
        assert_eq!(slot.with(MAKER), Err(Refused::Stale));
    });
}

/// Goal: as above, freed by its maker. Method: the maker frees while another thread goes in.
#[test]
fn loom_what_its_maker_frees_is_ended_once() {
    let bodies = |thread, slot: &Slot| {
        if thread == MAKER {
            assert!(slot.discard(thread).is_ok());
        } else {
            let _ = slot.with(thread);
        }
    };
    model(bodies, 2, |slot| {
        assert_eq!(slot.ended(), 1);
        assert_eq!(slot.with(2), Err(Refused::Stale));
    });
}

/// Goal: of two that free, one is told that it was freed, also beside a call. Method: the maker goes in, two others free.
#[test]
fn loom_an_object_is_freed_once() {
    let bodies = |thread, slot: &Slot| {
        let outcome = match thread {
            MAKER => slot.with(thread),
            _ => slot.discard(thread).map(|_| ()),
        };
        assert!(matches!(
            outcome,
            Ok(()) | Err(Refused::InUse | Refused::Stale)
        ));
    };
    model(bodies, 3, |slot| assert_eq!(slot.ended(), 1));
}

/// Goal: a call that comes late, of the thread that made the object before, leaves the next object of the slot and its maker
/// alone. Method: the maker goes in while another thread frees, makes the next object, and goes in there.
#[test]
fn loom_a_late_call_leaves_the_next_object_alone() {
    let bodies = |thread, slot: &Slot| {
        if thread == MAKER {
            let _ = slot.with(thread);
        } else if slot.discard(thread) == Ok(true) {
            let generation = slot.state.publish(2);
            assert_eq!(slot.with_next(thread, generation), Ok(()));
            assert_eq!(slot.with_next(thread, generation), Ok(()));
        }
    };
    model(bodies, 2, |slot| {
        for record in &slot.records {
            for place in &record.places {
                assert_eq!(place.load(atomics::Ordering::Relaxed), 0, "all are out");
            }
        }
    });
}
