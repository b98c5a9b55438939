//! Random histories against the model.
//!
//! A seed chooses settings, key shapes and weights of operations (some kinds of operation are left out altogether:
//! Groce et al., "Swarm Testing", ISSTA 2012), then a sequence of operations. Each is applied to the database and to
//! the model, and their answers are compared. Kills and power cuts happen between operations, while flushes and merges
//! run in the background, and the recovered database is compared with the model:
//!
//! - after a kill everything acknowledged is there;
//! - after a power cut a prefix of the commit order is there, across all families, not shorter than the *floor*: the
//!   last commit that was acknowledged in mode `full`, the last bulk load, or before the last successful `sync_wal`, flush of a family
//!   that it touched, or change of the families.
//!
//! The same seed and count give the same operations. Threads of the database run freely, so a failure that depends on
//! their timing may need several runs.
//!
//! | module | what it does |
//! |---|---|
//! | `driver` | state, choice of operations |
//! | `draw` | random settings, keys and values |
//! | `deletes` | deletes and single deletes |
//! | `bulk` | bulk loads |
//! | `writes` | puts, deletes, batches, transactions |
//! | `reads` | gets and iterators, also through snapshots and transactions |
//! | `walk` | follows an iterator through the expected entries |
//! | `prepared` | two-phase commit |
//! | `lifecycle` | families, flushes, reopening, kills, power cuts |

mod bulk;
mod deletes;
mod draw;
mod driver;
mod lifecycle;
mod prepared;
mod reads;
mod walk;
mod writes;

pub(crate) use draw::Draw;
pub use draw::{family_options, sync_mode};
pub use driver::Tally;

use crate::violation::{Checked, no_panic};

/// Which operations of a history are run; the others are left out, and change nothing for those that stay: each draws
/// from a stream of its own.
pub type IsKept<'a> = &'a dyn Fn(u64) -> bool;

/// The most operations of one seed; longer runs take more seeds.
pub const OPERATIONS_PER_SEED: u64 = 2_500;

/// Runs `operations` operations of the history that `seed` names.
///
/// # Errors
/// The violation, with the last operations and the command that replays it.
pub fn run(seed: u64, operations: u64) -> Checked<Tally> {
    no_panic(|| driver::run(seed, operations, &|_| true)).map_err(|violation| {
        violation.within(format_args!(
            "seed {seed} (replay: cargo proof model --seed {seed} \
             --seeds 1 --operations {operations})"
        ))
    })
}

/// As [`run`], with some operations left out.
///
/// # Errors
/// The violation, with the last operations.
pub fn run_kept(seed: u64, operations: u64, is_kept: IsKept<'_>) -> Checked<Tally> {
    no_panic(|| driver::run(seed, operations, is_kept))
}
