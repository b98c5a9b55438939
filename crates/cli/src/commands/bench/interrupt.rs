//! Ctrl-C and SIGTERM: the first ends the run and keeps what is done, a second ends the program at once.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    iterator::Signals,
};

/// A shell answers this plus the number of the signal that ended a program.
const EXIT_SIGNAL: i32 = 128;
/// What comes so soon after the first signal is the same: some programs send it to this one and to its group.
const SAME: Duration = Duration::from_millis(500);

/// Whether the program has been interrupted, and by what.
pub(super) struct Interrupts {
    pub(super) came: Arc<AtomicBool>,
    exit_code: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Begins to listen, for as long as the program runs.
    pub(super) fn listen() -> io::Result<Self> {
        let interrupts = Self {
            came: Arc::default(),
            exit_code: Arc::default(),
        };
        // Set by the signal's handler, so that whoever waits for a child that got the signal too finds them set.
        for signal in [SIGINT, SIGTERM] {
            let code = (EXIT_SIGNAL + signal).unsigned_abs() as usize;
            flag::register_usize(signal, interrupts.exit_code.clone(), code)?;
            flag::register(signal, interrupts.came.clone())?;
        }
        let signals = Signals::new([SIGINT, SIGTERM])?;
        thread::Builder::new()
            .name("interrupts".into())
            .spawn(|| exit_at_second(signals))?;
        Ok(interrupts)
    }

    /// What the program answers once it was interrupted.
    pub(super) fn exit_code(&self) -> u8 {
        let code = match self.exit_code.load(Ordering::Relaxed) {
            // The flag was seen before the code: as for Ctrl-C.
            0 => (EXIT_SIGNAL + SIGINT).unsigned_abs() as usize,
            code => code,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// Ends the program when somebody has no more patience.
fn exit_at_second(mut signals: Signals) {
    let mut first = None;
    for signal in signals.forever() {
        if first.get_or_insert_with(Instant::now).elapsed() > SAME {
            process::exit(EXIT_SIGNAL + signal);
        }
    }
}
