//! From wherever something happens to whoever wants to know.
//!
//! An event is put into a bounded queue, whatever locks its thread holds; a thread of its own takes it out, calls the
//! listener and writes the line. So user code never runs under a lock of the engine, and a slow listener or disk slows
//! nothing. When neither a listener nor the file is wanted there is no thread, and an event costs a look at a flag.

use std::{
    cell::Cell,
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kingtide_env::{
    Env, JoinHandle, ThreadLabel,
    sync::{Condvar, Mutex},
    thread_label,
};

use super::{Event, Listener, LogFile, LogLevel, TraceFile};

/// Events that may wait.
const WAITING_MAX: usize = 4096;
/// Frequent events are left out while so many wait, so that they push out nothing that matters more.
const WAITING_FREQUENT_MAX: usize = WAITING_MAX / 4;

thread_local! {
    /// True on a thread that tells events: it must not wait for its own end.
    static IS_TELLING: Cell<bool> = const { Cell::new(false) };
}

/// See the module.
pub(crate) struct Events {
    /// `None` when nobody wants to know.
    env: Option<Arc<dyn Env>>,
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Told>,
    lost: u64,
    is_stopping: bool,
}

/// An event, and when and where it happened.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) unix_micros: u64,
    /// By the clock that never goes back.
    pub(super) nanos: u64,
    pub(super) thread: Arc<ThreadLabel>,
    pub(super) event: Event,
}

/// Who wants to know.
#[derive(Default)]
pub(crate) struct Audience {
    pub(crate) listener: Option<Arc<dyn Listener>>,
    pub(crate) log: Option<LogFile>,
    pub(crate) trace: Option<TraceFile>,
}

impl Audience {
    fn tell(&mut self, told: &Told) {
        if let Some(trace) = &mut self.trace {
            trace.add(told);
        }
        let (unix_micros, event) = (told.unix_micros, &told.event);
        if let Some(listener) = &self.listener {
            // The listener alone sees what it left half done; the database gives it nothing but shared references.
            let told = catch_unwind(AssertUnwindSafe(|| listener.event(unix_micros, event)));
            if told.is_err()
                && let Some(log) = &mut self.log
            {
                let text = "the listener panicked".to_owned();
                let level = LogLevel::Error;
                log.write(unix_micros, &Event::Message { level, text });
            }
        }
        if let Some(log) = &mut self.log {
            log.write(unix_micros, event);
        }
    }
}

impl Events {
    /// Nobody wants to know.
    pub(crate) fn disabled() -> Arc<Self> {
        Arc::new(Self {
            env: None,
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        })
    }

    /// Starts the thread that tells `audience`.
    ///
    /// # Errors
    /// What the system answers when it has no thread to give.
    pub(crate) fn start(env: &Arc<dyn Env>, audience: Audience) -> io::Result<Arc<Self>> {
        if audience.listener.is_none() && audience.log.is_none() && audience.trace.is_none() {
            return Ok(Self::disabled());
        }
        let events = Arc::new(Self {
            env: Some(Arc::clone(env)),
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let told = Arc::clone(&events);
        let thread = env.spawn("kt-events", Box::new(move || told.run(audience)))?;
        *events.thread.lock() = Some(thread);
        Ok(events)
    }

    /// True when somebody wants to know.
    pub(crate) fn is_on(&self) -> bool {
        self.env.is_some()
    }

    /// Something happened. `make` is called only when somebody wants to know; it must not take locks.
    pub(crate) fn emit(&self, make: impl FnOnce() -> Event) {
        let Some(env) = &self.env else {
            return;
        };
        let told = told_now(env.as_ref(), make());
        let mut state = self.state.lock();
        if state.waiting.len() >= WAITING_MAX || state.is_stopping {
            state.lost += 1;
            return;
        }
        state.waiting.push_back(told);
        self.changed.notify_all();
    }

    /// As [`Events::emit`], for what happens very often: left out, uncounted, while many events wait.
    pub(crate) fn emit_frequent(&self, make: impl FnOnce() -> Event) {
        let Some(env) = &self.env else {
            return;
        };
        let told = told_now(env.as_ref(), make());
        let mut state = self.state.lock();
        if state.waiting.len() < WAITING_FREQUENT_MAX && !state.is_stopping {
            state.waiting.push_back(told);
            self.changed.notify_all();
        }
    }

    fn run(&self, mut audience: Audience) {
        IS_TELLING.set(true);
        while let Some((events, lost)) = self.take() {
            for told in &events {
                audience.tell(told);
            }
            if lost > 0
                && let Some(last) = events.back()
            {
                let event = Event::Lost { count: lost };
                audience.tell(&Told {
                    event,
                    ..last.clone()
                });
            }
            if let Some(trace) = &mut audience.trace {
                trace.flush();
            }
        }
        if let Some(trace) = &mut audience.trace {
            trace.finish();
        }
    }

    /// What waits, and how many events were lost behind it; `None` once all is told and nothing more will come.
    fn take(&self) -> Option<(VecDeque<Told>, u64)> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.is_stopping {
                return None;
            }
            state = self.changed.wait(state);
        }
        let lost = std::mem::take(&mut state.lost);
        Some((std::mem::take(&mut state.waiting), lost))
    }

    /// Waits until everything is told, and ends the thread. When a listener itself calls this, the thread ends by itself
    /// behind it.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !IS_TELLING.get()
        {
            // It ends by a panic only if the writing of a line panics, which was reported by the panic's hook.
            let _ = thread.join();
        }
    }
}

fn told_now(env: &dyn Env, event: Event) -> Told {
    Told {
        unix_micros: env.unix_micros(),
        nanos: env.monotonic_nanos(),
        thread: thread_label(),
        event,
    }
}
