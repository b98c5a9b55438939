//! A fixed history, cut at every I/O.
//!
//! The history runs again and again in the world in memory; run n is switched off after its n-th mutating call. For
//! each of the images that a power cut may leave, the database is opened and must look as it did after some step that
//! the promises allow: not before the last durable one, not behind the one that was under way. Steps are whole
//! transactions over several families and changes of the families, so atomicity is checked with it.
//!
//! Recovery is cut as well: a copy of the image is opened, switched off after the m-th call of recovery, crashed again
//! and opened; it must then show what an undisturbed recovery shows.
//!
//! Background threads run freely, so the calls of two runs are not in the same order; each run is judged on its own.

mod play;
mod steps;

pub use play::Played;
pub use steps::{Step, steps};

use kingtide::{Db, ErrorKind};
use kingtide_env::{CrashImage, MemoryEnv};

use crate::{
    dump::Dump,
    violation::{Checked, Violation, ensure, no_panic},
    world,
};

/// What a proof over cuts went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutTally {
    /// Cuts of the history.
    pub cuts: u64,
    /// Images that were opened.
    pub images: u64,
    /// Cuts of recoveries.
    pub recovery_cuts: u64,
}

impl std::ops::AddAssign for CutTally {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.images += other.images;
        self.recovery_cuts += other.recovery_cuts;
    }
}

/// How many mutating calls the uncut history makes, about.
///
/// # Errors
/// A violation when the history does not run to its end.
pub fn count_calls() -> Checked<u64> {
    let env = MemoryEnv::new(1);
    let played = no_panic(|| play::play(&env, &steps(), u64::MAX))?;
    played.check_complete()?;
    Ok(env.io_count())
}

/// Cuts the history after `calls` calls and checks every image. `recovery_stride` says how many calls of each recovery
/// lie between two cuts of it; 1 cuts at each.
///
/// # Errors
/// The violation, with the cut and the image.
pub fn check_cut(calls: u64, recovery_stride: u64) -> Checked<CutTally> {
    no_panic(|| {
        let env = MemoryEnv::new(1);
        env.halt_after(calls);
        let played = play::play(&env, &steps(), calls)?;
        played.check_halted(&env, calls)?;
        let mut tally = CutTally {
            cuts: 1,
            ..CutTally::default()
        };
        for (index, image) in world::IMAGES.into_iter().enumerate() {
            let seed = calls * world::IMAGES.len() as u64 + index as u64;
            let found = env.crash(image, seed);
            tally += check_image(&found, &played, image, recovery_stride, seed)
                .map_err(|violation| violation.within(format_args!("image {image:?}")))?;
        }
        Ok(tally)
    })
    .map_err(|violation| {
        violation.within(format_args!(
            "cut after {calls} calls (replay: cargo proof crash-every-io --from {calls} \
             --to {calls})"
        ))
    })
}

fn check_image(
    found: &MemoryEnv,
    played: &Played,
    image: CrashImage,
    recovery_stride: u64,
    seed: u64,
) -> Checked<CutTally> {
    let mut tally = CutTally {
        images: 1,
        ..CutTally::default()
    };
    // Everything in a found world is durable, so crashing it once more only copies it.
    let copy = || found.crash(CrashImage::Everything, seed);
    let undisturbed = copy();
    let (recovered, calls) = recover(&undisturbed)?;
    played.check_state(&recovered, image)?;
    check_usable(&undisturbed, &recovered)?;
    let first = 1 + seed % recovery_stride.max(1);
    for cut in (first..calls).step_by(usize::try_from(recovery_stride).unwrap_or(1).max(1)) {
        let again = copy();
        again.halt_after(cut);
        // Fails, or ends before the cut; either way the next opening decides.
        if let Ok(db) = Db::open(world::DATABASE, world::options(&again)) {
            let _ = db.close();
        }
        world::power_off(&again);
        let second_image = world::IMAGES[(cut % world::IMAGES.len() as u64) as usize];
        let (twice, _) = recover(&again.crash(second_image, seed ^ cut)).map_err(|violation| {
            violation.within(format_args!(
                "recovery cut after {cut} calls, {second_image:?}"
            ))
        })?;
        ensure(twice == recovered, || {
            format!(
                "recovery cut after {cut} calls, {second_image:?}: the second recovery shows another state"
            )
        })?;
        tally.recovery_cuts += 1;
    }
    Ok(tally)
}

/// Opens a world; what it shows and how many calls the opening made. The database is left as a kill leaves it.
fn recover(env: &MemoryEnv) -> Checked<(Dump, u64)> {
    let db = Db::open(world::DATABASE, world::options(env))
        .map_err(|error| Violation::from(error).within("open after a power cut"))?;
    let calls = env.io_count();
    let found = play::dump_all(&db)?;
    db.close()?;
    Ok((found, calls))
}

/// After recovery the database takes writes, and they are there after the next opening together with the rest. What is
/// prepared is locked, and takes its outcome; every other one is committed.
fn check_usable(env: &MemoryEnv, recovered: &Dump) -> Checked {
    let db = Db::open(world::DATABASE, world::options(env))?;
    let mut expected = recovered.clone();
    let prepared = expected.insert(play::PREPARED.to_owned(), Vec::new());
    for (index, (xid, _)) in prepared.into_iter().flatten().enumerate() {
        end_prepared(&db, &mut expected, &xid, index % 2 == 0)?;
    }
    for (name, entries) in &mut expected {
        if name == play::PREPARED {
            continue;
        }
        let family = db.family(name)?;
        db.put(&family, steps::LAST_KEY, b"written after recovery")?;
        entries.push((steps::LAST_KEY.to_vec(), b"written after recovery".to_vec()));
    }
    db.close()?;
    let (found, _) = recover(env)?;
    ensure(found == expected, || {
        "a write after recovery was lost or lost others".to_owned()
    })
}

/// Checks that everything that a prepared transaction writes is locked, and ends it.
fn end_prepared(db: &Db, expected: &mut Dump, xid: &[u8], commits: bool) -> Checked {
    let steps = steps();
    let writes = play::prepared_writes(&steps, xid);
    for (name, key, _) in writes {
        // No family is renamed while a transaction is prepared in it, so each is there under this name.
        let outcome = db.put(&db.family(name)?, key, b"of another one");
        let is_refused = outcome.is_err_and(|error| error.kind() == ErrorKind::Conflict);
        ensure(is_refused, || {
            format!(
                "a key of the prepared transaction \"{}\" is not locked",
                xid.escape_ascii()
            )
        })?;
    }
    if !commits {
        return Ok(db.rollback_prepared(xid)?);
    }
    db.commit_prepared(xid)?;
    for (name, key, value) in writes {
        let entries = expected.entry((*name).to_owned()).or_default();
        entries.retain(|(found, _)| found != key);
        if let Some(value) = value {
            entries.push((key.clone(), value.clone()));
        }
        // The orders of these families agree about these keys with the order of bytes.
        entries.sort();
    }
    Ok(())
}
