//! Sequences of calls of the C interface, drawn from bytes and compared with a model.
//!
//! | module | what it is |
//! |---|---|
//! | `bindings` | the functions as C declares them |
//! | `model` | what the answers must be |
//! | `session` | an open database with its handles; how bytes become arguments |
//! | `transactions`, `databases` | the right calls, and those that are wrong in an argument |
//! | `misuse` | every function with a handle that is none, freed, of another kind or of a closed database |
//!
//! A sequence runs in one thread, in a directory that it may fill and that its caller removes. When an answer is not what
//! the model says it panics; the calls so far are then on standard error.

pub mod bindings;
mod databases;
mod misuse;
mod model;
mod session;
mod transactions;

use std::path::Path;

use session::Session;

/// The most calls of a sequence.
const CALLS_MAX: usize = 150;

/// Runs the sequence that `bytes` stand for, in `directory`, which is empty.
///
/// # Panics
/// When an answer is wrong.
pub fn run(bytes: &[u8], directory: &Path) {
    let mut session = Session::open(bytes, directory);
    for _ in 0..CALLS_MAX {
        if session.input.is_empty() {
            break;
        }
        step(&mut session);
    }
    session.compare_everything();
    session.end();
}

fn step(session: &mut Session<'_>) {
    let call = session.input.byte();
    match call {
        0..=15 => session.begin(),
        16..=55 => session.put(),
        56..=63 => session.delete(),
        64..=71 => session.delete_many(),
        72..=95 => session.get(),
        96..=99 => session.multi_get(),
        100..=115 => session.finish_transaction(),
        116..=123 => session.savepoint(),
        124..=131 => session.open_iterator(),
        132..=151 => session.move_iterator(),
        152..=155 => session.free_something(),
        156..=161 => session.prepare(),
        162..=167 => session.end_prepared(),
        168..=171 => session.abort(),
        172..=175 => session.snapshot(),
        176..=185 => session.maintain(),
        186..=195 => session.change_families(),
        196..=199 => session.statistics(),
        200..=203 => session.reopen(),
        204..=207 => session.copy(),
        208..=211 => session.settings(),
        212..=215 => session.comparators(),
        216..=219 => session.plain_functions(),
        220..=223 => session.compare_everything(),
        224..=231 => session.impossible_sizes(),
        _ => session.misuse(),
    }
}

/// Some sequences to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    let each = (0..=255_u8).flat_map(|call| [call, call.wrapping_mul(7), 3, 5, call / 3]);
    let mut load = Vec::new();
    for number in 0..20_u8 {
        // Begin, three puts, commit; a merge or a copy of an iterator now and then.
        load.extend([0, number % 3, number % 5]);
        for key in 0..3_u8 {
            load.extend([20, number % 3, 0, 3, number.wrapping_add(key), 40 + key, 1]);
        }
        load.extend([100, number % 3, 0, 180, number, 0, 220]);
    }
    vec![each.collect(), load, vec![200; 12], vec![240; 200]]
}
