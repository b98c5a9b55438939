//! A real process, a real directory, SIGKILL.
//!
//! The parent starts a child that opens a database and writes with a few threads. Each transaction of a thread
//! carries the next number of that thread and writes to two or three families; it also deletes what the same thread
//! wrote [`KEPT`] transactions ago. After each acknowledged commit the child writes one record to its standard output,
//! a pipe: what stands in it survives the child. After a drawn number of records (also: right when it begins to open)
//! the parent kills the child, reads the pipe to its end, and opens the same directory in its own process:
//!
//! - the number of each thread that is there is not below the last acknowledged one (floor), and at most one above it;
//! - every transaction up to it is there, and all of it (no holes, atomic across families), with the right values;
//! - nothing else is there.
//!
//! Then the next child goes on in the same directory. Sync modes alternate from transaction to transaction: a kill
//! loses nothing in any of them.

mod child;
mod plan;

pub use child::{ChildSettings, run_child};
pub use plan::KEPT;

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use kingtide::{Db, Options};

use self::plan::{FAMILIES, THREADS};
use crate::{
    dump::{Dump, dump},
    random::Random,
    violation::{Checked, Violation, ensure},
};

/// The longest a child writes before it is killed, in acknowledged transactions.
const ACKNOWLEDGED_MAX: usize = 600;

/// What a kill loop went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct KillTally {
    /// Children that were killed.
    pub rounds: u64,
    /// Transactions that they had acknowledged.
    pub acknowledged: u64,
    /// Transactions that were there although the kill came before the acknowledgement.
    pub unacknowledged_kept: u64,
}

/// Kills `rounds` children. `child` builds the command that runs [`run_child`]; `progress` is told after each round.
///
/// # Errors
/// The violation, with the round and the seed.
pub fn run(
    rounds: u64,
    seed: u64,
    child: &dyn Fn(&ChildSettings) -> Command,
    progress: &mut dyn FnMut(u64),
) -> Checked<KillTally> {
    let directory = tempfile::tempdir()?;
    let mut random = Random::new(seed);
    let mut counters = [0_u64; THREADS];
    let mut tally = KillTally::default();
    for round in 0..rounds {
        let settings = ChildSettings {
            directory: directory.path().join("db"),
            seed: random.draw(),
        };
        let outcome = run_round(&settings, &mut random, child, &mut counters, &mut tally);
        if let Err(violation) = outcome {
            let kept = directory.keep();
            return Err(violation.within(format_args!(
                "round {round}, seed {seed}, directory {}",
                kept.display()
            )));
        }
        progress(round + 1);
    }
    Ok(tally)
}

fn run_round(
    settings: &ChildSettings,
    random: &mut Random,
    command: &dyn Fn(&ChildSettings) -> Command,
    counters: &mut [u64; THREADS],
    tally: &mut KillTally,
) -> Checked {
    // Once in a while the kill comes while the child opens, or right after.
    let records = match random.below(8) {
        0 => 1,
        1 => 2,
        _ => random.between(3, ACKNOWLEDGED_MAX),
    };
    let mut child = command(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut acknowledged = *counters;
    let read = read_and_kill(&mut child, records, &mut acknowledged);
    // The child is waited for whatever happened, so that none outlives the proof.
    let status = child.wait()?;
    read?;
    ensure(status.code().is_none(), || {
        format!("the child ended by itself: {status}")
    })?;
    let before: u64 = counters.iter().sum();
    tally.rounds += 1;
    tally.acknowledged += acknowledged.iter().sum::<u64>() - before;
    *counters = check(&settings.directory, &acknowledged)?;
    tally.unacknowledged_kept += counters.iter().sum::<u64>() - acknowledged.iter().sum::<u64>();
    Ok(())
}

/// Reads `records` records, kills the child, and reads what it had written until then.
fn read_and_kill(child: &mut Child, records: usize, acknowledged: &mut [u64; THREADS]) -> Checked {
    let Some(mut pipe) = child.stdout.take() else {
        return Err(Violation::new("the child has no pipe"));
    };
    let mut record = [0_u8; plan::RECORD_BYTES];
    for count in 1.. {
        match pipe.read_exact(&mut record) {
            Ok(()) => plan::note_record(record, acknowledged)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => {
                child.kill()?;
                return Err(error.into());
            }
        }
        if count == records {
            child.kill()?;
        }
    }
    Ok(())
}

/// Opens the directory and checks everything in it; the number of each thread that is there.
fn check(directory: &Path, acknowledged: &[u64; THREADS]) -> Checked<[u64; THREADS]> {
    let db = Db::open(directory, Options::default())
        .map_err(|error| Violation::from(error).within("open after a kill"))?;
    let found = dump(&db)?;
    let mut numbers = [0; THREADS];
    for (thread, number) in numbers.iter_mut().enumerate() {
        *number = plan::find_number(&found, thread)?;
        let floor = acknowledged[thread];
        ensure((floor..=floor + 1).contains(number), || {
            format!("thread {thread} had {floor} transactions acknowledged, {number} are there")
        })?;
    }
    check_content(&found, &numbers)?;
    check_points(&db, &numbers)?;
    db.close()?;
    Ok(numbers)
}

/// Everything that the scan showed, and nothing else, must be what the threads wrote up to these numbers.
fn check_content(found: &Dump, numbers: &[u64; THREADS]) -> Checked {
    let mut expected: BTreeMap<&str, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
    for (thread, number) in numbers.iter().enumerate() {
        plan::expect(thread, *number, &mut expected);
    }
    for name in FAMILIES {
        let wanted = expected.remove(name).unwrap_or_default();
        let entries = found.get(name).map_or(&[][..], Vec::as_slice);
        let is_equal = entries.len() == wanted.len()
            && entries
                .iter()
                .zip(&wanted)
                .all(|((key, value), entry)| (key, value) == entry);
        if is_equal {
            continue;
        }
        let missing = wanted.iter().find(|(key, value)| {
            !entries
                .iter()
                .any(|entry| entry.0 == **key && entry.1 == **value)
        });
        let extra = entries
            .iter()
            .find(|(key, value)| wanted.get(key) != Some(value));
        let text = |key: Option<&[u8]>| {
            key.map_or("none".to_owned(), |key| key.escape_ascii().to_string())
        };
        return Err(Violation::new(format!(
            "{name} holds {} entries, expected {}; first missing or wrong {}, first unexpected {}",
            entries.len(),
            wanted.len(),
            text(missing.map(|(key, _)| key.as_slice())),
            text(extra.map(|(key, _)| key.as_slice())),
        )));
    }
    Ok(())
}

/// Point reads agree with the scan for the newest transactions.
fn check_points(db: &Db, numbers: &[u64; THREADS]) -> Checked {
    for (thread, number) in numbers.iter().enumerate() {
        for transaction in number.saturating_sub(20) + 1..=*number {
            for name in plan::families_of(thread, transaction) {
                let key = plan::key(thread, transaction);
                let found = db.get(&db.family(name)?, &key)?;
                let wanted = plan::value(thread, transaction, name);
                ensure(found.as_deref() == Some(wanted.as_slice()), || {
                    format!(
                        "{name}: the scan shows transaction {transaction} of thread {thread}, get does not"
                    )
                })?;
            }
        }
    }
    Ok(())
}
