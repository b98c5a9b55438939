//! Threads that run one at a time, in an order that follows from a seed. Compiled under `--cfg simulated` only.
//!
//! A simulation runs on real threads, but only the one that holds the *baton* goes on; all others are parked. The
//! baton is passed at *pauses*: at every operation of the locks and atomics of [`crate::sync`], at every call into a
//! [`BatonEnv`], and when a thread must wait. Who gets it is drawn from the seed, so a seed and a build give the same
//! run again, and a hash over all that happened ([`Outcome::trace`]) shows it.
//!
//! Time is simulated: it goes on by a little at each look at it, and when every thread waits it jumps to the first
//! moment at which one of them wants to go on. When all wait and none for a moment, that is a deadlock and the run ends
//! with a report of who waits for what.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | the threads, whose turn it is, the clock |
//! | `world` | [`BatonEnv`]: another world, with pauses and simulated time |
//!
//! Threads that are not part of a simulation are let through everywhere: locks are then those of the system.
//!
//! What it does not do: it orders threads at pauses only, so between two of them a thread runs undisturbed, and every
//! memory ordering behaves like the strongest. The loom models are for these.

mod state;
mod world;

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use self::state::{Next, State};
pub use self::{
    state::Tuning,
    world::{BatonEnv, Watch},
};
use crate::JoinHandle;

thread_local! {
    /// The simulation that this thread belongs to, and its number in it.
    static CURRENT: RefCell<Option<Member>> = const { RefCell::new(None) };
}

/// What came of a simulation.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What the body answered; the message of the panic, deadlock or endless run that ended it otherwise.
    pub answer: Result<T, String>,
    /// A hash over every pause: two runs with the same one went the same way.
    pub trace: u64,
    /// How often the baton was passed to another thread.
    pub switches: u64,
    /// How many pauses there were.
    pub pauses: u64,
}

/// Runs `body` as the first thread of a simulation and waits until all of its threads have ended.
///
/// After a deadlock, or when more than `tuning.pauses_max` pauses were made, the threads stay parked for ever: they
/// cannot be ended from outside. The caller reports and goes on, or ends the process.
pub fn simulate<T: Send + 'static>(
    seed: u64,
    tuning: Tuning,
    body: impl FnOnce() -> T + Send + 'static,
) -> Outcome<T> {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::new(seed, tuning)),
        ended: Condvar::new(),
    });
    let answer = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&answer);
    let first = Member::register(&shared, "client");
    let started = first.start(Box::new(move || {
        let value = body();
        *lock(&slot) = Some(value);
    }));
    shared.lock().begin();
    shared.wake();
    let failure = match started {
        Err(error) => Some(format!("no thread: {error}")),
        Ok(()) => shared.wait_for_end(),
    };
    let state = shared.lock();
    let value = lock(&answer).take();
    Outcome {
        answer: match (failure, value) {
            (None, Some(value)) => Ok(value),
            (Some(failure), _) => Err(failure),
            (None, None) => Err("the body ended without an answer".to_owned()),
        },
        trace: state.trace(),
        switches: state.switches(),
        pauses: state.pauses(),
    }
}

/// True when the calling thread is part of a simulation.
#[must_use]
pub fn is_simulated() -> bool {
    current().is_some()
}

/// Lets another thread have the baton, if the draw says so. `what` goes into the trace.
pub(crate) fn pause(what: u64) {
    if let Some(member) = current() {
        member.pause(what);
    }
}

/// The simulated clock, in nanoseconds; moves it on a little. `None` outside of simulations.
pub(crate) fn now() -> Option<u64> {
    current().map(|member| member.shared.lock().tick())
}

/// Waits for `nanos` of simulated time.
pub(crate) fn sleep(nanos: u64) {
    if let Some(member) = current() {
        member.wait(None, Some(nanos));
    }
}

/// Waits until [`wake`] is called for `place`, or `nanos` are over; true when they were.
pub(crate) fn wait_at(place: usize, nanos: Option<u64>) -> bool {
    current().is_some_and(|member| member.wait(Some(place), nanos))
}

/// Lets those who wait at `place` go on: all of them, or one that is drawn.
pub(crate) fn wake(place: usize, all: bool) {
    if let Some(member) = current() {
        member.shared.lock().wake(place, all);
    }
}

/// A random number of the simulation, for lengths of waits; 0 outside of simulations.
pub(crate) fn draw(bound: u64) -> u64 {
    current().map_or(0, |member| member.shared.lock().draw(bound))
}

/// Starts a thread of the simulation that the calling thread belongs to.
///
/// # Errors
/// `body`, outside of simulations.
pub(crate) fn spawn(
    name: &str,
    body: Box<dyn FnOnce() + Send>,
) -> Result<io::Result<JoinHandle>, Box<dyn FnOnce() + Send>> {
    let Some(parent) = current() else {
        return Err(body);
    };
    let member = Member::register(&parent.shared, name);
    let number = member.number;
    let shared = Arc::clone(&parent.shared);
    if let Err(error) = member.start(body) {
        return Ok(Err(error));
    }
    parent.pause(number as u64);
    Ok(Ok(JoinHandle::new(Box::new(move || {
        loop {
            if let Some(outcome) = shared.lock().outcome(number) {
                return outcome;
            }
            // A thread's end wakes those who wait at its number: no address is so small.
            wait_at(number, None);
        }
    }))))
}

/// Runs `bodies` on threads of the simulation that the calling thread belongs to, and waits until all have ended. What
/// each answered, or the message of its panic.
///
/// # Panics
/// Outside of simulations, and when the system has no thread to give.
pub fn together<'a, T: Send>(
    bodies: Vec<Box<dyn FnOnce() -> T + Send + 'a>>,
) -> Vec<Result<T, String>> {
    let parent = current().expect("the caller is a thread of a simulation");
    let answers: Vec<Mutex<Option<T>>> = bodies.iter().map(|_| Mutex::new(None)).collect();
    let members: Vec<Member> = bodies
        .iter()
        .map(|_| Member::register(&parent.shared, "client"))
        .collect();
    thread::scope(|scope| {
        for ((body, answer), member) in bodies.into_iter().zip(&answers).zip(&members) {
            scope.spawn(move || {
                member.clone().live(Box::new(move || {
                    let value = body();
                    *lock(answer) = Some(value);
                }));
            });
        }
        // The scope's own waiting must not begin before: this thread would keep the baton.
        for member in &members {
            while parent.shared.lock().outcome(member.number).is_none() {
                wait_at(member.number, None);
            }
        }
    });
    let ended = members.iter().zip(answers).map(|(member, answer)| {
        let outcome = parent.shared.lock().outcome(member.number);
        outcome.unwrap_or(Ok(())).and_then(|()| {
            lock(&answer)
                .take()
                .ok_or_else(|| "a thread ended without an answer".to_owned())
        })
    });
    ended.collect()
}

fn current() -> Option<Member> {
    CURRENT
        .try_with(|current| current.borrow().clone())
        .ok()
        .flatten()
}

/// The number of the calling thread in its simulation, if it is in one.
pub(crate) fn current_number() -> Option<usize> {
    current().map(|member| member.number)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when the simulation is over.
    ended: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes the thread whose turn it is.
    fn wake(&self) {
        if let Some(turn) = self.lock().turn() {
            turn.notify_one();
        }
    }

    /// Waits until the last thread has ended; the reason if the run failed.
    fn wait_for_end(&self) -> Option<String> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = state.failure() {
                return Some(failure.to_owned());
            }
            if state.is_over() {
                return None;
            }
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One thread of a simulation.
#[derive(Clone)]
struct Member {
    shared: Arc<Shared>,
    number: usize,
}

impl Member {
    fn register(shared: &Arc<Shared>, name: &str) -> Self {
        let number = shared.lock().add(name);
        Self {
            shared: Arc::clone(shared),
            number,
        }
    }

    /// Starts the system's thread; it runs once it is given the baton.
    fn start(self, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let started = {
            let member = self.clone();
            thread::Builder::new().spawn(move || member.live(body))
        };
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                let mut state = self.shared.lock();
                state.end(self.number, Err(error.to_string()));
                Err(error)
            }
        }
    }

    fn live(self, body: Box<dyn FnOnce() + Send + '_>) {
        CURRENT.with(|current| *current.borrow_mut() = Some(self.clone()));
        self.wait_for_turn(self.shared.lock());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        CURRENT.with(|current| *current.borrow_mut() = None);
        let outcome = outcome.map_err(|panic| crate::threads::panic_message(panic.as_ref()));
        let mut state = self.shared.lock();
        state.end(self.number, outcome);
        let next = state.pass(self.number);
        self.hand_over(state, next);
    }

    fn pause(&self, what: u64) {
        let mut state = self.shared.lock();
        if state.note_pause(self.number, what) {
            let next = state.pass(self.number);
            self.go_on(state, next);
        }
    }

    fn wait(&self, place: Option<usize>, nanos: Option<u64>) -> bool {
        let mut state = self.shared.lock();
        state.wait(self.number, place, nanos);
        let next = state.pass(self.number);
        self.go_on(state, next);
        self.shared.lock().take_timed_out(self.number)
    }

    /// After a pass of the baton: goes on when it came back, parks otherwise.
    fn go_on(&self, state: MutexGuard<'_, State>, next: Next) {
        if next != Next::Same {
            self.hand_over(state, next);
            self.wait_for_turn(self.shared.lock());
        }
    }

    fn hand_over(&self, state: MutexGuard<'_, State>, next: Next) {
        match next {
            Next::Same => {}
            Next::Other(turn) => {
                drop(state);
                turn.notify_one();
            }
            Next::Nobody => {
                drop(state);
                self.shared.ended.notify_all();
            }
        }
    }

    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>) {
        let turn = state.turn_of(self.number);
        while !state.is_turn(self.number) {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests;
