//! Databases in the world in memory.

use std::sync::Arc;

use kingtide::Options;
use kingtide_env::{CrashImage, Env, MemoryEnv};

use crate::{model::ClockSpan, order};

/// Where test databases live in the world in memory.
pub const DATABASE: &str = "/db";

/// Values of so many bytes go to files of their own, where they are kept out of tables.
pub const SPILL_BYTES_MIN: usize = 1500;

/// What the disk may hold after a power cut; every proof looks at all of them.
pub const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];

/// Options that open a database in `env`.
#[must_use]
pub fn options(env: &MemoryEnv) -> Options {
    Options {
        env: Some(seen_by_threads(Arc::new(env.clone()))),
        comparators: order::registered(),
        spill_bytes_min: SPILL_BYTES_MIN,
        ..Options::default()
    }
}

/// The world as the database is given it: in a simulation its calls pause.
#[must_use]
pub fn seen_by_threads(env: Arc<dyn Env>) -> Arc<dyn Env> {
    #[cfg(simulated)]
    if kingtide_env::baton::is_simulated() {
        return Arc::new(kingtide_env::baton::BatonEnv::new(env));
    }
    env
}

/// Switches the machine off: every later call into this world fails and changes nothing.
pub fn power_off(env: &MemoryEnv) {
    env.halt_after(0);
}

/// Runs `call` and notes between which times it ran.
pub fn timed<T>(env: &MemoryEnv, call: impl FnOnce() -> T) -> (T, ClockSpan) {
    let from_micros = env.unix_micros();
    let answer = call();
    let clock = ClockSpan {
        from_micros,
        to_micros: env.unix_micros(),
    };
    (answer, clock)
}
