//! The child: opens the database and writes until it is killed.

use std::{io::Write, path::PathBuf, thread};

use kingtide::{ColumnFamily, Db, IsolationLevel, Options, TransactionOptions};

use super::plan::{self, FAMILIES, KEPT, NO_THREAD, THREADS};
use crate::violation::{Checked, Violation};

/// What the parent tells the child.
#[derive(Clone, Debug)]
pub struct ChildSettings {
    /// The directory of the database; made when it is missing.
    pub directory: PathBuf,
    /// Chooses settings of the opening.
    pub seed: u64,
}

/// Writes until the process is killed, or until the parent has gone.
///
/// # Errors
/// What the database answers when it should not; the child then ends and the parent reports it.
pub fn run_child(settings: &ChildSettings) -> Checked {
    write_record(NO_THREAD, 0)?;
    let options = Options {
        flush_threads: 1 + (settings.seed % 2) as usize,
        block_cache_bytes: if settings.seed.is_multiple_of(3) {
            0
        } else {
            1 << 20
        },
        ..Options::default()
    };
    let db = Db::open(&settings.directory, options)?;
    let mut families = Vec::new();
    for name in FAMILIES {
        families.push((name, db.open_family(name, plan::family_options(name))?));
    }
    write_record(NO_THREAD, 1)?;
    let outcomes: Vec<Checked> = thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn({
                    let (db, families) = (&db, &families);
                    move || write_for_ever(db, families, number)
                })
            })
            .collect();
        let joined = writers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|outcome| outcome.unwrap_or_else(|_| Err(Violation::new("a writer panicked"))))
            .collect()
    });
    outcomes.into_iter().collect()
}

fn write_for_ever(db: &Db, families: &[(&str, ColumnFamily)], thread: usize) -> Checked {
    let mut number = match db.get(&families[0].1, &plan::number_key(thread))? {
        Some(value) => plan::parse_number(&value)?,
        None => 0,
    };
    let handles =
        |names: &'static [&'static str]| families.iter().filter(|(name, _)| names.contains(name));
    loop {
        number += 1;
        let mut transaction = db.begin_with(TransactionOptions {
            isolation: IsolationLevel::Snapshot,
            sync: Some(plan::sync_mode(thread, number)),
            ..TransactionOptions::default()
        })?;
        for (name, family) in handles(plan::families_of(thread, number)) {
            transaction.put(
                family,
                &plan::key(thread, number),
                &plan::value(thread, number, name),
            )?;
        }
        if let Some(old) = number.checked_sub(KEPT).filter(|old| *old > 0) {
            for (_, family) in handles(plan::families_of(thread, old)) {
                transaction.single_delete(family, &plan::key(thread, old))?;
            }
        }
        transaction.put(
            &families[0].1,
            &plan::number_key(thread),
            &number.to_le_bytes(),
        )?;
        transaction.commit()?;
        // THREADS is far below 256.
        write_record(thread as u8, number)?;
    }
}

/// One write call for one record, so that threads do not mix theirs and a kill leaves whole ones.
fn write_record(thread: u8, number: u64) -> Checked {
    let mut pipe = std::io::stdout().lock();
    pipe.write_all(&plan::record(thread, number))?;
    pipe.flush()?;
    Ok(())
}
