//! The world as traits. Everything that a storage engine asks of its surroundings — files, clock, randomness, threads,
//! locks — goes through this crate, so that the same engine code runs on a real disk and on one that can be crashed.
//!
//! | module | what it is |
//! |---|---|
//! | [`Env`], [`Directory`], [`File`], [`FileLock`] | the traits |
//! | [`PosixEnv`] | the real world |
//! | [`MemoryEnv`] | a file system in memory that knows what is live and what is durable, and can be crashed |
//! | [`FaultyEnv`] | wraps another world and makes chosen calls fail |
//! | `baton` | under `--cfg simulated`: threads that run one at a time, in an order that follows from a seed |
//! | [`sync`] | mutex, condition variable, atomics: std's, or those of loom and shuttle when models and schedules are checked |

#[cfg(simulated)]
pub mod baton;
mod border;
mod faulty;
mod memory;
mod posix;
mod random;
mod threads;
mod world;

pub mod sync;

pub use faulty::{Fault, FaultyEnv, Judge, Operation, ReadRule, Rule, Times};
pub use memory::{CrashImage, MemoryEnv};
pub use posix::{PosixEnv, raise_open_file_limit};
pub use threads::{ThreadLabel, give_way, thread_label, thread_slot};
pub use world::{
    Directory, DirectoryEntry, Env, File, FileLock, JoinHandle, OpenMode, WINDOWS_KEPT,
};
