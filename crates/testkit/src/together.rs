//! Threads of tests: the system's, or those of a simulation when the caller is part of one.

use std::thread;

use crate::violation::{Checked, Violation};

/// True in a thread of a simulation.
#[must_use]
pub fn is_simulated() -> bool {
    #[cfg(simulated)]
    if kingtide_env::baton::is_simulated() {
        return true;
    }
    false
}

/// Runs `bodies` at the same time and waits for all of them. Their answers in the same order.
///
/// # Errors
/// The first panic, as a violation.
pub fn together<'a, T: Send + 'a>(
    bodies: Vec<Box<dyn FnOnce() -> T + Send + 'a>>,
) -> Checked<Vec<T>> {
    #[cfg(simulated)]
    if kingtide_env::baton::is_simulated() {
        let answers = kingtide_env::baton::together(bodies);
        return answers
            .into_iter()
            .map(|answer| {
                answer.map_err(|panic| Violation::new(format!("a panic in a thread: {panic}")))
            })
            .collect();
    }
    thread::scope(|scope| {
        let threads: Vec<_> = bodies.into_iter().map(|body| scope.spawn(body)).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| Violation::new("a panic in a thread"))
            })
            .collect()
    })
}
