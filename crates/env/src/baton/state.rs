//! The threads of a simulation, whose turn it is, and the clock. Everything here happens under one lock.

use std::{
    fmt::Write,
    sync::{Arc, Condvar},
};

use crate::random::SplitMix64;

/// What each look at the clock moves it by.
const CLOCK_STEP_NANOS: u64 = 500;
/// Threads are away while others wait for so much time, but not for more: what is given up after seconds is not to be given up
/// for that.
const AWAY_NANOS_MAX: u64 = 10_000_000;

/// How a simulation chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// At one of so many pauses the baton is passed on; at least 1.
    pub switch_one_in: u64,
    /// A thread that others overtake: this one is chosen only when no other can run, most of the time. `None` for none.
    pub slow_thread: Option<usize>,
    /// A thread that lost the baton at a pause is away for up to so many pauses of the others, while one of them can run or
    /// soon will: a system's scheduler too keeps a thread from running while others go through whole operations.
    pub away_pauses_max: u64,
    /// After so many pauses the run is given up as endless.
    pub pauses_max: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            switch_one_in: 8,
            slow_thread: None,
            away_pauses_max: 0,
            pauses_max: 500_000_000,
        }
    }
}

/// Who goes on after a pass of the baton.
#[derive(Debug)]
pub(super) enum Next {
    /// The same thread.
    Same,
    /// The one that waits for its turn there.
    Other(Arc<Condvar>),
    /// The simulation is over, or has failed.
    Nobody,
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Same, Self::Same) | (Self::Nobody, Self::Nobody)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Waiting {
        /// What must be woken; `None` for time alone.
        place: Option<usize>,
        until: Option<u64>,
    },
    Ended,
}

struct Thread {
    name: String,
    status: Status,
    timed_out: bool,
    /// The number of pauses up to which it is away.
    away_until: u64,
    outcome: Option<Result<(), String>>,
    turn: Arc<Condvar>,
}

/// See the module.
pub(super) struct State {
    random: SplitMix64,
    tuning: Tuning,
    threads: Vec<Thread>,
    running: Option<usize>,
    clock_nanos: u64,
    trace: u64,
    switches: u64,
    pauses: u64,
    failure: Option<String>,
}

impl State {
    pub(super) fn new(seed: u64, tuning: Tuning) -> Self {
        Self {
            random: SplitMix64::new(seed),
            tuning,
            threads: Vec::new(),
            running: None,
            clock_nanos: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            switches: 0,
            pauses: 0,
            failure: None,
        }
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    pub(super) fn pauses(&self) -> u64 {
        self.pauses
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn is_over(&self) -> bool {
        self.threads
            .iter()
            .all(|thread| thread.status == Status::Ended)
    }

    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// FNV-1a (Fowler, Noll, Vo), by words: it only has to tell runs apart.
    fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0000_0100_0000_01b3);
        self.trace ^= self.trace >> 29;
    }

    /// A new thread, ready to run. Its number.
    pub(super) fn add(&mut self, name: &str) -> usize {
        self.threads.push(Thread {
            name: name.to_owned(),
            status: Status::Ready,
            timed_out: false,
            away_until: 0,
            outcome: None,
            turn: Arc::new(Condvar::new()),
        });
        self.threads.len() - 1
    }

    /// Gives the baton to the first thread.
    pub(super) fn begin(&mut self) {
        self.running = Some(0);
    }

    pub(super) fn turn(&self) -> Option<Arc<Condvar>> {
        self.running.map(|number| self.turn_of(number))
    }

    pub(super) fn turn_of(&self, number: usize) -> Arc<Condvar> {
        Arc::clone(&self.threads[number].turn)
    }

    pub(super) fn is_turn(&self, number: usize) -> bool {
        self.running == Some(number)
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock_nanos += CLOCK_STEP_NANOS;
        self.clock_nanos
    }

    /// Notes a pause of thread `number`; true when the baton is to be passed on at it.
    pub(super) fn note_pause(&mut self, number: usize, what: u64) -> bool {
        self.pauses += 1;
        self.note(what);
        let is_over = self.pauses > self.tuning.pauses_max;
        let is_passed = self.random.below(self.tuning.switch_one_in.max(1)) == 0;
        if is_passed && self.tuning.away_pauses_max > 0 {
            let pauses = self.random.below(self.tuning.away_pauses_max);
            self.threads[number].away_until = self.pauses + pauses;
        }
        is_passed || is_over
    }

    pub(super) fn wait(&mut self, number: usize, place: Option<usize>, nanos: Option<u64>) {
        let until = nanos.map(|nanos| self.clock_nanos.saturating_add(nanos));
        let thread = &mut self.threads[number];
        thread.status = Status::Waiting { place, until };
        thread.timed_out = false;
    }

    pub(super) fn take_timed_out(&mut self, number: usize) -> bool {
        std::mem::take(&mut self.threads[number].timed_out)
    }

    /// Makes all who wait at `place` ready, or one of them.
    pub(super) fn wake(&mut self, place: usize, all: bool) {
        let waits = |thread: &Thread| matches!(thread.status, Status::Waiting { place: Some(at), .. } if at == place);
        let waiting: Vec<usize> = (0..self.threads.len())
            .filter(|number| waits(&self.threads[*number]))
            .collect();
        if all {
            for number in waiting {
                self.threads[number].status = Status::Ready;
            }
        } else if !waiting.is_empty() {
            let index = self.random.below(waiting.len() as u64) as usize;
            self.threads[waiting[index]].status = Status::Ready;
        }
    }

    pub(super) fn end(&mut self, number: usize, outcome: Result<(), String>) {
        let thread = &mut self.threads[number];
        thread.status = Status::Ended;
        if number == 0
            && let Err(message) = &outcome
        {
            self.failure = Some(format!("panic: {message}"));
        }
        self.threads[number].outcome = Some(outcome);
        self.wake(number, true);
    }

    /// How the thread ended; `None` while it lives.
    pub(super) fn outcome(&self, number: usize) -> Option<Result<(), String>> {
        self.threads[number].outcome.clone()
    }

    /// Gives the baton to a thread that can run. `from` has it.
    pub(super) fn pass(&mut self, from: usize) -> Next {
        if self.failure.is_some() {
            self.running = None;
            return Next::Nobody;
        }
        if self.pauses > self.tuning.pauses_max {
            return self.fail("the run does not come to an end");
        }
        let Some(number) = self.choose() else {
            if self.is_over() {
                self.running = None;
                return Next::Nobody;
            }
            return self.fail("deadlock");
        };
        self.note(number as u64);
        if number == from {
            return Next::Same;
        }
        self.switches += 1;
        self.running = Some(number);
        Next::Other(self.turn_of(number))
    }

    fn fail(&mut self, why: &str) -> Next {
        let mut text = why.to_owned();
        for (number, thread) in self.threads.iter().enumerate() {
            if thread.status != Status::Ended {
                let _ = write!(text, "; {number} {}: {:?}", thread.name, thread.status);
            }
        }
        self.failure = Some(text);
        self.running = None;
        Next::Nobody
    }

    fn choose(&mut self) -> Option<usize> {
        self.expire();
        let mut ready: Vec<usize> = self.ready().collect();
        if ready.is_empty() {
            let soonest = Some(self.soonest()).filter(|nanos| *nanos < u64::MAX);
            self.clock_nanos = self.clock_nanos.max(soonest?);
            self.expire();
            let woken: Vec<usize> = self.ready().collect();
            let index = self.random.below(woken.len() as u64) as usize;
            return woken.get(index).copied();
        }
        if !self.has_somebody_here() && self.soonest() <= self.clock_nanos + AWAY_NANOS_MAX {
            self.clock_nanos = self.clock_nanos.max(self.soonest());
            self.expire();
            ready = self.ready().collect();
        }
        if self.has_somebody_here() {
            ready.retain(|number| self.is_here(*number));
        }
        let mut index = self.random.below(ready.len() as u64) as usize;
        if Some(ready[index]) == self.tuning.slow_thread && self.random.below(16) != 0 {
            index = (index + 1) % ready.len();
        }
        Some(ready[index])
    }

    fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.threads.len()).filter(|number| self.threads[*number].status == Status::Ready)
    }

    /// The first moment at which a thread that waits for time can go on; the maximum when none does.
    fn soonest(&self) -> u64 {
        let untils = self
            .threads
            .iter()
            .filter_map(|thread| match thread.status {
                Status::Waiting { until, .. } => until,
                Status::Ready | Status::Ended => None,
            });
        untils.min().unwrap_or(u64::MAX)
    }

    fn is_here(&self, number: usize) -> bool {
        self.threads[number].away_until <= self.pauses
    }

    fn has_somebody_here(&self) -> bool {
        self.ready().any(|number| self.is_here(number))
    }

    /// Makes those ready whose time has come.
    fn expire(&mut self) {
        let now = self.clock_nanos;
        for thread in &mut self.threads {
            if let Status::Waiting {
                until: Some(until), ..
            } = thread.status
                && until <= now
            {
                thread.status = Status::Ready;
                thread.timed_out = true;
            }
        }
    }
}
