//! Ctrl-C and SIGTERM: the first ends the run and keeps what is done, a second ends the program at once.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// A shell answers this plus the number of the signal that ended a program.
const EXIT_SIGNAL: u8 = 128;

/// Whether the program has been interrupted, and by what.
pub(super) struct Interrupts {
    pub(super) came: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Begins to listen, for as long as the program runs.
    pub(super) fn listen() -> io::Result<Self> {
        let interrupts = Self {
            came: Arc::default(),
            signal: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            let exit_code = i32::from(EXIT_SIGNAL) + signal;
            // What is registered first happens first, so the first signal does not find the flag set.
            flag::register_conditional_shutdown(signal, exit_code, interrupts.came.clone())?;
            flag::register_usize(
                signal,
                interrupts.signal.clone(),
                signal.unsigned_abs() as usize,
            )?;
            flag::register(signal, interrupts.came.clone())?;
        }
        Ok(interrupts)
    }

    /// What the program answers once it was interrupted.
    pub(super) fn exit_code(&self) -> u8 {
        // Written before the flag that the caller has seen; nothing else is behind it.
        let signal = self.signal.load(Ordering::Relaxed);
        EXIT_SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))
    }
}
