//! Hermitage with a power cut after each step.
//!
//! The interleavings of a batch run side by side as in `drive.rs`, in a family whose commits are synced. After each step
//!
//! 1. the disk is taken as a power cut would leave it, in each of the [images](world::IMAGES), and opened: every
//!    interleaving finds what was acknowledged until then and nothing else, as the oracle says. What is prepared is what
//!    was prepared, and nothing of a transaction that was open is there;
//! 2. in one of the images, another one after each step, the work goes on: what was prepared is ended as its script says,
//!    and what was open begins again, in the order that is left. Each answer is compared with the oracle's, so locks,
//!    conflicts and views are those that there would be without the cut, and the final states are those that the table of
//!    anomalies permits.
//!
//! The database that was copied goes on untouched, so a batch of `n` steps is run once and recovered `4n` times. Cuts in
//! the middle of a call are the matter of the proofs `crash-every-io` and `sequences`.

use std::{fmt, ops::AddAssign};

use kingtide::{Db, SyncMode};
use kingtide_env::{CrashImage, MemoryEnv};

use super::drive::{self, Batch, Bench, Lane};
use crate::{
    random::Random,
    violation::{Checked, Violation, ensure},
    world,
};

/// The family that all interleavings share.
const FAMILY: &str = "f";

/// What was cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrashTally {
    /// Interleavings.
    pub schedules: u64,
    /// Interleavings times the steps after which they were cut.
    pub cuts: u64,
    /// Databases that were opened after a cut; many interleavings share one.
    pub openings: u64,
    /// Transactions that were open or prepared at a cut and came to their end after it.
    pub resumed: u64,
}

impl AddAssign for CrashTally {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.cuts += other.cuts;
        self.openings += other.openings;
        self.resumed += other.resumed;
    }
}

impl fmt::Display for CrashTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} schedules, {} power cuts between their steps, {} openings, {} transactions that went on",
            self.schedules, self.cuts, self.openings, self.resumed
        )
    }
}

/// Runs one batch, with a power cut after each step. `seed` decides what the cuts leave open.
///
/// # Errors
/// What an opening shows and should not, or does not show and should; a wrong answer or an anomaly, before a cut or after
/// it; with the steps.
pub fn run(batch: &Batch, seed: u64) -> Checked<CrashTally> {
    run_synced(batch, SyncMode::Full, seed)
}

fn run_synced(batch: &Batch, sync: SyncMode, seed: u64) -> Checked<CrashTally> {
    let env = MemoryEnv::new(seed);
    let db = Db::open(world::DATABASE, world::options(&env))?;
    let family = db.create_family(FAMILY, drive::family_options(batch.place, sync))?;
    let bench = Bench {
        db: &db,
        family: &family,
        batch,
    };
    let mut lanes = drive::lanes_of(batch);
    bench.set_up(lanes.len())?;
    let mut tally = CrashTally {
        schedules: lanes.len() as u64,
        ..CrashTally::default()
    };
    let mut random = Random::new(seed);
    let turn = random.below(world::IMAGES.len());
    for step in 0..batch.program.step_count() {
        drive::take_steps(&bench, &mut lanes, step)?;
        tally.cuts += tally.schedules;
        for (index, image) in world::IMAGES.into_iter().enumerate() {
            let cut = Cut {
                batch,
                lanes: &lanes,
                step,
                image,
            };
            tally.openings += 1;
            let goes_on = (step + turn) % world::IMAGES.len() == index;
            tally.resumed += cut.check(&env.crash(image, random.draw()), goes_on)?;
        }
    }
    drop(lanes);
    Ok(db.close().map(|()| tally)?)
}

/// The moment of a power cut.
struct Cut<'a> {
    batch: &'a Batch,
    /// As they were when the power went.
    lanes: &'a [Lane],
    /// The last step that was taken.
    step: usize,
    image: CrashImage,
}

impl Cut<'_> {
    /// Opens the disk that the cut left, and goes on if that is wanted: how many transactions did.
    fn check(&self, disk: &MemoryEnv, goes_on: bool) -> Checked<u64> {
        let db = Db::open(world::DATABASE, world::options(disk))
            .map_err(|error| self.place(Violation::from(error).within("opening")))?;
        let family = db
            .family(FAMILY)
            .map_err(|error| self.place(error.into()))?;
        let mut lanes: Vec<Lane> = self.lanes.iter().map(Lane::after_power_cut).collect();
        drive::collect_states(&db, &family, &mut lanes)
            .map_err(|violation| self.place(violation))?;
        for (lane, before) in lanes.iter_mut().zip(self.lanes) {
            lane.outcome.last.sort_unstable();
            let (found, wanted) = (&lane.outcome.last, lane.oracle.state());
            ensure(*found == wanted, || {
                format!("the database shows {found:?}, acknowledged is {wanted:?}")
            })
            .map_err(|violation| self.explain(before, violation))?;
            lane.outcome.last.clear();
        }
        self.check_prepared(&db)?;
        let mut resumed = 0;
        if goes_on {
            let bench = Bench {
                db: &db,
                family: &family,
                batch: self.batch,
            };
            resumed = self.go_on(&bench, &mut lanes)?;
        }
        drop(lanes);
        db.close().map_err(|error| self.place(error.into()))?;
        Ok(resumed)
    }

    /// What is prepared is what was prepared.
    fn check_prepared(&self, db: &Db) -> Checked {
        let found: Vec<Vec<u8>> = match db.prepared() {
            Ok(prepared) => prepared.into_iter().map(|prepared| prepared.xid).collect(),
            Err(error) => return Err(self.place(error.into())),
        };
        let wanted = self.lanes.iter().flat_map(|lane| {
            let numbers = lane.oracle.prepared();
            numbers.map(|number| drive::xid_of(lane.index, number).to_vec())
        });
        let wanted: Vec<Vec<u8>> = wanted.collect();
        ensure(found == wanted, || {
            format!("prepared are {found:?}, not {wanted:?}")
        })
        .map_err(|violation| self.place(violation))
    }

    /// Takes the steps that are left, and compares the final states.
    fn go_on(&self, bench: &Bench<'_>, lanes: &mut [Lane]) -> Checked<u64> {
        let mut resumed = 0;
        for (lane, before) in lanes.iter_mut().zip(self.lanes) {
            resumed += lane.transactions_left();
            for position in 0..lane.schedule.len() {
                bench.take_step(lane, position).map_err(|violation| {
                    let steps = lane.steps(&self.batch.program);
                    self.explain(before, violation.within(steps.trim_end()))
                })?;
            }
        }
        drive::collect_states(bench.db, bench.family, lanes)
            .map_err(|violation| self.place(violation))?;
        for (lane, before) in lanes.iter_mut().zip(self.lanes) {
            lane.judge(self.batch, &mut |_| {}).map_err(|violation| {
                let steps = lane.steps(&self.batch.program);
                self.explain(before, violation.within(steps.trim_end()))
            })?;
        }
        Ok(resumed)
    }

    /// The violation, with when the power went.
    fn place(&self, violation: Violation) -> Violation {
        violation.within(format_args!(
            "power cut after step {}, {:?}, then",
            self.step + 1,
            self.image
        ))
    }

    /// The same, with the steps of the interleaving in front.
    fn explain(&self, before: &Lane, violation: Violation) -> Violation {
        before.explain(self.batch, self.place(violation))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kingtide::IsolationLevel;

    use super::{
        super::{Place, Program},
        *,
    };

    fn batch(place: Place) -> Batch {
        let program = Program::of_scenario(0);
        Batch {
            levels: vec![IsolationLevel::Snapshot; program.scripts.len()],
            numbers: (0..program.interleavings().count()).collect(),
            program: Arc::new(program),
            place,
        }
    }

    /// Commits that are not synced do not survive every cut: the comparison tells.
    #[test]
    fn a_commit_that_a_power_cut_takes_is_found() {
        let batch = batch(Place::Memory);
        assert!(run(&batch, 1).is_ok());
        let violation = run_synced(&batch, SyncMode::None, 1).expect_err("commits were lost");
        let text = violation.to_string();
        assert!(
            text.contains("power cut after step") && text.contains("acknowledged is"),
            "{text}"
        );
    }
}
