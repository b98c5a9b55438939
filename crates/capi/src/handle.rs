//! Handles: what C holds instead of pointers.
//!
//! A handle looks like a pointer into user space and is never dereferenced. It is made of a tag, the kind of the object,
//! a slot in the table of that kind and the slot's generation:
//!
//! ```text
//! bit 46..45  44..42  41..21       20..3   2..0
//!     01      kind    generation   slot    0
//! ```
//!
//! so that null, foreign, freed and finished handles are told from live ones by two loads and a comparison. Slots are
//! never given back to the system, which is what makes the loads safe whatever the number says. A generation is used
//! once; a slot that has used all of its generations rests until no other slot is free, so that a freed handle is told
//! from a live one for the first 2^39 objects of a kind in a process.
//!
//! The [state](state) of a slot says whether the object lives and who is inside:
//!
//! - databases, families and the like are *shared*: a call pins the slot for as long as it takes to clone what is in it,
//!   and removal waits for pins;
//! - transactions and iterators have one call *inside* at a time, another one meanwhile is refused. Removal meanwhile is
//!   left to the one that is inside.
//!
//! A child process of `fork` has none of the threads that its parent's databases need: a handler that runs in the child
//! moves the epoch on, and handles of an older epoch are refused.

mod barrier;
mod home;
mod state;

use std::{
    cell::UnsafeCell,
    hint, ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering},
    },
    thread,
};

use self::state::{
    GENERATION_SHIFT as WORD_GENERATION_SHIFT, LIVE, PINS_MASK, State, Ticket, Visit,
};

/// What [`state`] works with.
mod atomics {
    pub(super) use std::{
        sync::atomic::{AtomicU32, AtomicU64, Ordering},
        thread::yield_now as wait,
    };
}

const TAG: u64 = 0b01 << 45;
const TAG_MASK: u64 = !((1 << 45) - 1);
const KIND_SHIFT: u32 = 42;
const KIND_MASK: u64 = 0b111;
const GENERATION_SHIFT: u32 = 21;
const GENERATION_MASK: u64 = (1 << 21) - 1;
const SLOT_SHIFT: u32 = 3;
const SLOT_MASK: u64 = (1 << 18) - 1;
const ALIGN_MASK: u64 = (1 << SLOT_SHIFT) - 1;
/// The bits that all handles of a kind have in common.
const FIXED_MASK: u64 = TAG_MASK | (KIND_MASK << KIND_SHIFT) | ALIGN_MASK;

const CHUNK_SLOTS: usize = 1024;
const CHUNKS: usize = (SLOT_MASK as usize + 1) / CHUNK_SLOTS;

/// Why a handle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Null,
    /// Never was a handle of this kind.
    Foreign,
    /// Was one, and was freed.
    Stale,
    /// Another thread, or a caller further up this one's stack, is inside.
    InUse,
    /// Belongs to the process that forked this one.
    Forked,
}

/// Advanced in every child process.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static AT_FORK: Once = Once::new();

extern "C" fn in_child() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
    // Threads that held a lock of a table are not in this process.
    for lock in &LOCKS {
        lock.store(false, Ordering::Release);
    }
}

extern "C" fn before_fork() {
    for lock in &LOCKS {
        spin_lock(lock);
    }
}

extern "C" fn in_parent() {
    for lock in &LOCKS {
        lock.store(false, Ordering::Release);
    }
}

fn register_at_fork() {
    AT_FORK.call_once(|| {
        // SAFETY: the three functions are async-signal-safe: they touch atomics only.
        // A failure means that there is no memory: then children are not told from parents.
        let _ = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    });
}

/// True in a process that was forked after its first handle was made.
pub(crate) fn epoch() -> u32 {
    EPOCH.load(Ordering::Relaxed)
}

/// One lock per kind, around its free list, and others for what has no kind. Spun on, because they are held for a few
/// instructions, and because the fork handlers must be able to take and release them.
static LOCKS: [AtomicBool; 8] = [const { AtomicBool::new(false) }; 8];

fn spin_lock(lock: &AtomicBool) {
    let mut rounds = 0_u32;
    while lock
        .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        rounds += 1;
        if rounds.is_multiple_of(64) {
            thread::yield_now();
        } else {
            hint::spin_loop();
        }
    }
}

/// The lock of what lines are written to; see `log`.
pub(crate) const LOG_LOCK: usize = 6;
/// The lock of which records of threads are unused; see `home`.
const HOME_LOCK: usize = 7;

/// Something that is looked at for a few instructions, by one thread at a time, and never left locked in a child of
/// `fork`.
pub(crate) struct SpinCell<T> {
    lock: usize,
    content: UnsafeCell<T>,
}

// SAFETY: the content is touched under the lock only.
unsafe impl<T: Send> Sync for SpinCell<T> {}

impl<T> SpinCell<T> {
    /// Guarded by the lock of that number.
    pub(crate) const fn new(lock: usize, content: T) -> Self {
        assert!(lock < LOCKS.len());
        Self {
            lock,
            content: UnsafeCell::new(content),
        }
    }

    /// Does something with the content. `action` is short, does not panic, and uses no other cell.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        let lock = &LOCKS[self.lock];
        spin_lock(lock);
        // SAFETY: the lock is held, and `action` does not come back here.
        let result = action(unsafe { &mut *self.content.get() });
        lock.store(false, Ordering::Release);
        result
    }
}

/// A slot on a cache line of its own: threads that use different transactions do not meet.
#[repr(align(64))]
struct Slot<T> {
    state: State,
    epoch: AtomicU32,
    object: UnsafeCell<Option<T>>,
}

struct Chunk<T>([Slot<T>; CHUNK_SLOTS]);

#[derive(Default)]
struct Free {
    /// Slots that may be used, the last one first.
    slots: Vec<u32>,
    /// Slots whose generations are used up.
    resting: Vec<u32>,
    /// Slots that were ever used.
    used: u32,
}

/// All objects of one kind.
pub(crate) struct Table<T> {
    kind: u64,
    chunks: [AtomicPtr<Chunk<T>>; CHUNKS],
    free: SpinCell<Free>,
}

// SAFETY: an object is touched by one call at a time, which is inside, or as a shared reference while pins keep it, and `share` asks for `Sync`.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: Send + 'static> Table<T> {
    /// An empty table; `kind` is 0 to 7, and no other table has it.
    pub(crate) const fn new(kind: u64) -> Self {
        assert!(kind <= KIND_MASK);
        Self {
            kind,
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            free: SpinCell::new(
                kind as usize,
                Free {
                    slots: Vec::new(),
                    resting: Vec::new(),
                    used: 0,
                },
            ),
        }
    }

    /// The slot of that number, if its chunk was ever made.
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let index = index as usize;
        // Acquire: pairs with the store in `make_chunk`.
        let chunk = self
            .chunks
            .get(index / CHUNK_SLOTS)?
            .load(Ordering::Acquire);
        // SAFETY: a chunk that was published is initialised and never freed.
        let chunk = unsafe { chunk.as_ref() }?;
        Some(&chunk.0[index % CHUNK_SLOTS])
    }

    fn slot_or_new(&self, index: u32) -> Option<&Slot<T>> {
        self.slot(index).or_else(|| {
            Self::make_chunk(self.chunks.get(index as usize / CHUNK_SLOTS)?);
            self.slot(index)
        })
    }

    /// Makes the chunk of that place. Not inlined: it takes much of the stack.
    #[cold]
    #[inline(never)]
    fn make_chunk(place: &AtomicPtr<Chunk<T>>) {
        let chunk = Box::new(Chunk(std::array::from_fn(|_| Slot {
            state: State::default(),
            epoch: AtomicU32::new(0),
            object: UnsafeCell::new(None),
        })));
        let made = Box::into_raw(chunk);
        // Release: publishes the slots. AcqRel on success; who loses gives its chunk back.
        if place
            .compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: `made` came from a box and nobody has seen it.
            drop(unsafe { Box::from_raw(made) });
        }
    }

    /// Takes an object in; `None` when this kind has 262,144 live ones.
    pub(crate) fn insert(&self, object: T) -> Option<u64> {
        register_at_fork();
        let index = self.free.with(|free| {
            free.slots.pop().or_else(|| {
                if u64::from(free.used) <= SLOT_MASK {
                    free.used += 1;
                    Some(free.used - 1)
                } else {
                    (!free.resting.is_empty()).then(|| free.resting.remove(0))
                }
            })
        })?;
        let slot = self.slot_or_new(index)?;
        // SAFETY: the slot is in no list and not live, so nobody else touches its object.
        unsafe { *slot.object.get() = Some(object) };
        slot.epoch.store(epoch(), Ordering::Relaxed);
        let generation = slot.state.publish(home::of_new_object());
        Some(
            TAG | (self.kind << KIND_SHIFT)
                | (generation << GENERATION_SHIFT)
                | (u64::from(index) << SLOT_SHIFT),
        )
    }

    /// Splits a handle into its slot, the slot's number and the generation.
    #[inline(always)]
    fn locate(&self, handle: u64) -> Result<(&Slot<T>, u32, u64), Refused> {
        if handle & FIXED_MASK != TAG | (self.kind << KIND_SHIFT) {
            return Err(if handle == 0 {
                Refused::Null
            } else {
                Refused::Foreign
            });
        }
        let index = index_of(handle);
        let slot = self.slot(index).ok_or(Refused::Foreign)?;
        if slot.epoch.load(Ordering::Relaxed) != epoch() {
            return Err(Refused::Forked);
        }
        Ok((slot, index, generation_of(handle)))
    }

    /// What `action` does with the object, which it has for itself. A handle that is refused is `refuse`d.
    ///
    /// # Errors
    /// What `refuse` makes of what is wrong with the handle, `InUse` while another call is inside; what `action` answers.
    #[inline(always)]
    pub(crate) fn with<R, E>(
        &self,
        handle: u64,
        refuse: impl FnOnce(Refused) -> E,
        action: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        let (slot, ticket) = match self.enter(handle) {
            Ok(entered) => entered,
            Err(refused) => return Err(refuse(refused)),
        };
        let inside = Inside {
            table: self,
            slot,
            handle,
            ticket,
        };
        // SAFETY: the call is inside the slot, so this is the only reference.
        match unsafe { &mut *inside.slot.object.get() } {
            Some(object) => action(object),
            None => Err(refuse(Refused::Stale)),
        }
    }

    /// Ends an object that one call at a time may be inside of. While another call is, that one ends it on its way out.
    ///
    /// # Errors
    /// What is wrong with the handle.
    pub(crate) fn discard(&self, handle: u64) -> Result<(), Refused> {
        let (slot, index, generation) = self.locate(handle)?;
        let visit = visit(handle, generation);
        let is_mine = match self.enter(handle) {
            Ok((_, ticket)) => slot.state.leave_for_good(&visit, ticket),
            Err(Refused::InUse) => slot.state.doom(&visit)?,
            Err(refused) => return Err(refused),
        };
        if is_mine {
            drop(self.empty(slot, index));
        }
        Ok(())
    }

    /// Goes into the slot of a handle.
    #[inline(always)]
    fn enter(&self, handle: u64) -> Result<(&Slot<T>, Ticket), Refused> {
        let (slot, _, generation) = self.locate(handle)?;
        let visit = visit(handle, generation);
        let entered = slot.state.enter_at_home(home::this_thread(), &visit);
        let ticket = entered.or_else(|was_in| self.enter_from_elsewhere(handle, was_in))?;
        Ok((slot, ticket))
    }

    /// See [`State::enter_from_elsewhere`].
    #[cold]
    fn enter_from_elsewhere(&self, handle: u64, was_in: bool) -> Result<Ticket, Refused> {
        let (slot, index, generation) = self.locate(handle)?;
        let end = || drop(self.empty(slot, index));
        let visit = visit(handle, generation);
        slot.state.enter_from_elsewhere(&visit, was_in, end)
    }

    /// See [`State::leave`].
    #[cold]
    fn leave(&self, slot: &Slot<T>, handle: u64, ticket: Ticket) {
        if slot
            .state
            .leave(&visit(handle, generation_of(handle)), ticket)
        {
            drop(self.empty(slot, index_of(handle)));
        }
    }

    /// What `view` makes of a shared object. `view` is short: removal waits for it.
    ///
    /// # Errors
    /// What is wrong with the handle.
    #[inline]
    pub(crate) fn share<R>(&self, handle: u64, view: impl FnOnce(&T) -> R) -> Result<R, Refused>
    where
        T: Sync,
    {
        let (slot, _, generation) = self.locate(handle)?;
        let word_place = &slot.state.word;
        let mut word = word_place.load(Ordering::Relaxed);
        loop {
            let is_live = word & LIVE != 0 && word >> WORD_GENERATION_SHIFT == generation;
            if !is_live {
                return Err(Refused::Stale);
            }
            // Acquire: pairs with `insert`.
            match word_place.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let _pin = Pin(word_place);
        // SAFETY: the slot is live and pinned: the object is there, and removal waits for the pin.
        let object = unsafe { &*slot.object.get() };
        object.as_ref().map(view).ok_or(Refused::Stale)
    }

    /// Takes a shared object out, once nobody looks at it.
    ///
    /// # Errors
    /// What is wrong with the handle.
    pub(crate) fn remove(&self, handle: u64) -> Result<T, Refused> {
        let (slot, index, generation) = self.locate(handle)?;
        let word_place = &slot.state.word;
        let mut word = word_place.load(Ordering::Relaxed);
        loop {
            if word & LIVE == 0 || word >> WORD_GENERATION_SHIFT != generation {
                return Err(Refused::Stale);
            }
            match word_place.compare_exchange_weak(
                word,
                word & !LIVE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // Acquire: pairs with the release of each pin.
        while word_place.load(Ordering::Acquire) & PINS_MASK != 0 {
            thread::yield_now();
        }
        self.empty(slot, index).ok_or(Refused::Stale)
    }

    /// Takes the object out of a slot that is not live, or is claimed, and gives the slot back.
    fn empty(&self, slot: &Slot<T>, index: u32) -> Option<T> {
        // SAFETY: the slot is out of reach: not live without pins, or claimed by the caller.
        let object = unsafe { (*slot.object.get()).take() };
        let is_used_up = slot.state.renew(GENERATION_MASK);
        self.free.with(|free| {
            if is_used_up {
                free.resting.push(index);
            } else {
                free.slots.push(index);
            }
        });
        object
    }
}

/// Releases a pin, also when the view panics.
struct Pin<'a>(&'a AtomicU64);

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was read under the pin was read before removal goes on.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[inline(always)]
const fn index_of(handle: u64) -> u32 {
    ((handle >> SLOT_SHIFT) & SLOT_MASK) as u32
}

#[inline(always)]
const fn generation_of(handle: u64) -> u64 {
    (handle >> GENERATION_SHIFT) & GENERATION_MASK
}

#[inline(always)]
fn visit(handle: u64, generation: u64) -> Visit<'static> {
    Visit {
        records: &home::ALL,
        handle,
        generation,
    }
}

/// One call inside a slot; it goes out when this is dropped.
struct Inside<'a, T: Send + 'static> {
    table: &'a Table<T>,
    slot: &'a Slot<T>,
    handle: u64,
    ticket: Ticket,
}

impl<T: Send> Drop for Inside<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let visit = visit(self.handle, generation_of(self.handle));
        if !self.slot.state.leave_home(&visit, self.ticket) {
            self.table.leave(self.slot, self.handle, self.ticket);
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
