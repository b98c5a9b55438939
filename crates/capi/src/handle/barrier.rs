//! A pair of barriers of which one costs nothing: what a thread wrote before the light one is seen by who reads behind the heavy
//! one, or what was written before the heavy one is seen by who reads behind the light one.
//!
//! The heavy one has the system interrupt every processor that runs a thread of this process (`membarrier`, since Linux
//! 4.14); the light one only keeps the compiler from exchanging what stands before and behind it. Where the system has no such
//! call, [`is_available`] is false, and nobody may rely on the pair.

use std::sync::atomic::{Ordering, compiler_fence};

/// See the module's documentation.
#[inline]
pub(super) fn light() {
    compiler_fence(Ordering::SeqCst);
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        ffi::c_int,
        sync::atomic::{AtomicU32, Ordering, fence},
    };

    const REGISTER: c_int = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    const PASS: c_int = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;

    fn call(command: c_int) -> bool {
        // SAFETY: takes numbers only, and touches no memory of the process.
        let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        answer == 0
    }

    pub(crate) fn is_available() -> bool {
        const UNKNOWN: u32 = 0;
        const YES: u32 = 1;
        const NO: u32 = 2;
        static ANSWER: AtomicU32 = AtomicU32::new(UNKNOWN);
        if ANSWER.load(Ordering::Relaxed) == UNKNOWN {
            let answer = if call(REGISTER) { YES } else { NO };
            ANSWER.store(answer, Ordering::Relaxed);
        }
        ANSWER.load(Ordering::Relaxed) == YES
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        // Should a child process not inherit the registration, it registers itself.
        let is_done = call(PASS) || (call(REGISTER) && call(PASS));
        fence(Ordering::SeqCst);
        is_done
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(crate) fn is_available() -> bool {
        false
    }

    pub(crate) fn heavy() -> bool {
        false
    }
}

pub(super) use system::is_available;

/// See the module's documentation. Interrupts other threads: some microseconds. False when the system refuses it, though it
/// was available before: a process may have given the call up since.
pub(super) fn heavy() -> bool {
    super::home::was_taken();
    system::heavy()
}
