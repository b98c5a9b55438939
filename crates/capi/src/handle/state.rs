//! The state of a slot: whether its object lives, and who is inside.
//!
//! One call at a time may be inside a held object. A call of any thread asks for that by an atomic exchange of the slot's
//! word ([`Ticket::ELSEWHERE`]). The thread that made the object is at *home* in the slot, and goes in without one: it writes the
//! handle into its own [`Record`], and looks whether the slot is still its home. Whoever comes from elsewhere first takes the home
//! away, for as long as the object lives, has all threads of the process pass a barrier, and then looks into the record whether
//! the thread is inside. Either that thread sees that its home is gone, or its record is seen: the light and the heavy barrier
//! are those of `super::barrier`. Programs whose threads keep to their own transactions and iterators, as the interface
//! asks, never pay for the heavy one. (Biased locks are this; see Kawachiya, Koseki, Onodera: "Lock Reservation: Java Locks Can
//! Mostly Do Without Atomic Operations", OOPSLA 2002. A record is what Michael's hazard pointers are, IEEE TPDS 15(6), 2004.)
//!
//! An object that is freed while a call is inside is `DOOMED`: that call ends it on its way out. Whoever finds `DOOMED` when
//! going out, or sets it while nobody holds the word, *claims* the object: takes the word, and ends the object unless its
//! home thread is inside, which then claims it in turn. So it is ended once.
//!
//! This file is compiled a second time, for the models of loom, with its atomics and fences.

use super::{
    Refused,
    atomics::{AtomicU32, AtomicU64, Ordering, wait},
    barrier,
};

// The word: pins, flags, generation.
pub(super) const PINS_MASK: u64 = (1 << 16) - 1;
pub(super) const LIVE: u64 = 1 << 16;
const HELD: u64 = 1 << 17;
const DOOMED: u64 = 1 << 18;
pub(super) const GENERATION_SHIFT: u32 = 32;

/// No thread is at home.
pub(super) const NO_HOME: u32 = 0;
/// The home was taken away; its thread may still be inside.
const TAKEN: u32 = 1 << 31;

/// Calls that a thread may be inside of at home, one within a callback of the other.
pub(super) const PLACES: usize = 7;

/// What a thread is inside of at home. Written by that thread alone, and never given back to the system. Home `n` is
/// record `n - 1`.
#[repr(align(64))]
pub(super) struct Record {
    /// Whose it is; 0 for nobody's.
    pub(super) thread: AtomicU64,
    /// Handles; 0 for none. Calls within calls go out in turn, so those that are taken come first.
    pub(super) places: [AtomicU64; PLACES],
}

impl Record {
    /// Notes that its thread is inside `handle`; where. `None` when there is no place, and when it is inside already.
    #[inline(always)]
    fn go_in(&self, handle: u64) -> Option<Ticket> {
        let place = match self.places[0].load(Ordering::Relaxed) {
            0 => 0,
            _ => self.free_place(handle)?,
        };
        self.places
            .get(usize::from(place))?
            .store(handle, Ordering::Relaxed);
        Some(Ticket(place))
    }

    /// The place for a call within another one.
    #[cold]
    fn free_place(&self, handle: u64) -> Option<u8> {
        let mut places = self
            .places
            .iter()
            .map(|place| place.load(Ordering::Relaxed));
        if places.clone().any(|inside| inside == handle) {
            return None;
        }
        places
            .position(|inside| inside == 0)
            .map(|place| place as u8)
    }

    #[inline(always)]
    fn go_out(&self, ticket: Ticket) {
        if let Some(place) = self.places.get(usize::from(ticket.0)) {
            // Release: who sees the thread outside sees what it did inside.
            place.store(0, Ordering::Release);
        }
    }

    fn is_inside(&self, handle: u64) -> bool {
        // Acquire: pairs with `go_out`.
        let mut places = self.places.iter();
        places.any(|place| place.load(Ordering::Acquire) == handle)
    }
}

/// The record of a home; `None` for [`NO_HOME`], and for one that was taken away.
#[inline(always)]
pub(super) fn record_of(records: &[Record], home: u32) -> Option<&Record> {
    records.get(home.wrapping_sub(1) as usize)
}

/// How a call came to be inside: at home through this place of its thread's record, or through the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u8);

impl Ticket {
    const ELSEWHERE: Self = Self(u8::MAX);
}

/// Which object is meant.
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    pub(super) records: &'a [Record],
    pub(super) handle: u64,
    pub(super) generation: u64,
}

impl Visit<'_> {
    const fn live_word(&self) -> u64 {
        (self.generation << GENERATION_SHIFT) | LIVE
    }

    fn why(&self, word: u64) -> Refused {
        if word & !HELD == self.live_word() {
            Refused::InUse
        } else {
            Refused::Stale
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct State {
    pub(super) word: AtomicU64,
    home: AtomicU32,
}

impl State {
    /// Makes the object known, which was put into the slot before; `home` is that of the calling thread, or none.
    pub(super) fn publish(&self, home: u32) -> u64 {
        let generation = self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT;
        self.home.store(home, Ordering::Relaxed);
        // Release: publishes the object.
        self.word
            .store((generation << GENERATION_SHIFT) | LIVE, Ordering::Release);
        generation
    }

    /// Goes in at home; `thread` is the number of the one that asks, not 0.
    ///
    /// # Errors
    /// Whether it was in for a moment, when its home had just been taken away. [`State::enter_from_elsewhere`] goes on.
    #[inline(always)]
    pub(super) fn enter_at_home(&self, thread: u64, visit: &Visit<'_>) -> Result<Ticket, bool> {
        let home = self.home.load(Ordering::Relaxed);
        let record = record_of(visit.records, home).ok_or(false)?;
        if record.thread.load(Ordering::Relaxed) != thread
            || self.word.load(Ordering::Relaxed) != visit.live_word()
        {
            return Err(false);
        }
        let ticket = record.go_in(visit.handle).ok_or(false)?;
        barrier::light();
        if self.home.load(Ordering::Relaxed) == home {
            return Ok(ticket);
        }
        // The slot may be another thread's home by now.
        record.go_out(ticket);
        Err(true)
    }

    /// Goes in from elsewhere, after [`State::enter_at_home`], whose answer is `was_in`. `end` ends the object, should it have been
    /// freed meanwhile.
    ///
    /// # Errors
    /// `InUse`, `Stale`.
    pub(super) fn enter_from_elsewhere(
        &self,
        visit: &Visit<'_>,
        was_in: bool,
        end: impl Fn(),
    ) -> Result<Ticket, Refused> {
        if was_in {
            barrier::light();
            if self.is_doomed() && self.claim_from_home(visit) {
                end();
            }
        }
        let idle = visit.live_word();
        // Acquire: pairs with the release of the last one inside, and with `publish`.
        self.word
            .compare_exchange(idle, idle | HELD, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|word| visit.why(word))?;
        if !self.is_somebody_home(visit) {
            return Ok(Ticket::ELSEWHERE);
        }
        if self.leave(visit, Ticket::ELSEWHERE) {
            end();
        }
        Err(Refused::InUse)
    }

    /// Whether the thread that was at home is inside; takes its home away. The word must be held.
    #[inline]
    fn is_somebody_home(&self, visit: &Visit<'_>) -> bool {
        let home = self.home.load(Ordering::Relaxed);
        home != NO_HOME && self.is_inside(home, visit)
    }

    #[cold]
    fn is_inside(&self, home: u32, visit: &Visit<'_>) -> bool {
        self.home.store(home | TAKEN, Ordering::Relaxed);
        let is_inside = |record: &Record| record.is_inside(visit.handle);
        // Without the barrier nobody knows.
        let is_inside = !barrier::heavy() || self.record(visit).is_some_and(is_inside);
        if !is_inside {
            self.home.store(NO_HOME, Ordering::Relaxed);
        }
        is_inside
    }

    /// Goes out at home. False when [`State::leave`] is to be called then: the call came from elsewhere, or the object was freed
    /// meanwhile.
    #[inline(always)]
    pub(super) fn leave_home(&self, visit: &Visit<'_>, ticket: Ticket) -> bool {
        if ticket == Ticket::ELSEWHERE {
            return false;
        }
        if let Some(record) = self.record(visit) {
            record.go_out(ticket);
        }
        barrier::light();
        !self.is_doomed()
    }

    #[inline(always)]
    fn is_doomed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & DOOMED != 0
    }

    /// Goes out, after [`State::leave_home`]. True when the object was freed meanwhile, and the caller ends it then.
    pub(super) fn leave(&self, visit: &Visit<'_>, ticket: Ticket) -> bool {
        if ticket != Ticket::ELSEWHERE {
            return self.claim_from_home(visit);
        }
        // AcqRel: publishes what this call did, and sees a DOOMED that was set meanwhile.
        let word = self.word.fetch_and(!HELD, Ordering::AcqRel);
        word & DOOMED != 0 && self.claim(visit)
    }

    /// The record of the thread that is at home, or was until its home was taken away; as long as it is inside, there is one.
    #[inline(always)]
    fn record<'a>(&self, visit: &Visit<'a>) -> Option<&'a Record> {
        record_of(visit.records, self.home.load(Ordering::Relaxed) & !TAKEN)
    }

    /// Goes out and frees the object. True when the caller ends it then, which is so unless somebody is about to see who is
    /// inside.
    pub(super) fn leave_for_good(&self, visit: &Visit<'_>, ticket: Ticket) -> bool {
        let live = visit.live_word();
        // Relaxed: nobody goes in any more, until the next object of the slot is published.
        if ticket == Ticket::ELSEWHERE {
            // It has the word, and keeps it.
            self.word.fetch_and(!LIVE, Ordering::Relaxed);
            return true;
        }
        let ended = (live & !LIVE) | HELD;
        let outcome = self
            .word
            .compare_exchange(live, ended, Ordering::Relaxed, Ordering::Relaxed);
        if outcome.is_err() {
            self.word.fetch_or(DOOMED, Ordering::Relaxed);
            return !self.leave_home(visit, ticket) && self.leave(visit, ticket);
        }
        if let Some(record) = self.record(visit) {
            record.go_out(ticket);
        }
        true
    }

    /// Frees an object that somebody else is inside of. True when the caller ends it, since nobody is any more.
    ///
    /// # Errors
    /// `Stale`.
    pub(super) fn doom(&self, visit: &Visit<'_>) -> Result<bool, Refused> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & !HELD != visit.live_word() {
                return Err(Refused::Stale);
            }
            // Relaxed: who is inside orders what it did before.
            match self.word.compare_exchange_weak(
                word,
                word | DOOMED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                // Who holds the word sees it on the way out.
                Ok(_) => return Ok(word & HELD == 0 && self.claim(visit)),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the word of a doomed object. The word that is there instead when another call claims it, or has.
    fn take_doomed(&self, visit: &Visit<'_>) -> Result<(), u64> {
        let doomed = visit.live_word() | DOOMED;
        // Acquire: pairs with the release of the last one inside.
        self.word
            .compare_exchange(doomed, doomed | HELD, Ordering::Acquire, Ordering::Relaxed)
            .map(|_| ())
    }

    /// Claims a doomed object. The caller was not inside at home.
    #[cold]
    fn claim(&self, visit: &Visit<'_>) -> bool {
        // Who has the word claims it when letting go.
        if self.take_doomed(visit).is_err() {
            return false;
        }
        if self.is_somebody_home(visit) {
            self.word.fetch_and(!HELD, Ordering::AcqRel);
            return false;
        }
        true
    }

    /// Claims a doomed object that the caller was inside of at home.
    #[cold]
    fn claim_from_home(&self, visit: &Visit<'_>) -> bool {
        let held = visit.live_word() | DOOMED | HELD;
        loop {
            match self.take_doomed(visit) {
                Ok(()) => return true,
                // Somebody is about to see who is inside: that may still have been this call.
                Err(word) if word == held => wait(),
                Err(_) => return false,
            }
        }
    }

    /// Gives the slot another generation, once the object was taken out; whether the generations are used up.
    pub(super) fn renew(&self, generation_mask: u64) -> bool {
        let generation = (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1;
        let next = generation & generation_mask;
        // Release: the next user of the slot finds it empty.
        self.word.store(next << GENERATION_SHIFT, Ordering::Release);
        generation > generation_mask
    }
}
