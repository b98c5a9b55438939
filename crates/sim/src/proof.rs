//! The proofs on threads and files of the system: each promise at full length.

mod isolation;
mod soak;

use std::{
    env,
    ops::AddAssign,
    path::PathBuf,
    process::{Command, exit},
};

use clap::Subcommand;
use kingtide_sim::report::{progress_bar, say};
use kingtide_testkit::{
    Checked, Violation, damage, history, kill, real_data, repair,
    runner::{self, Report},
    script,
};

/// One proof, or several.
#[derive(Subcommand)]
pub enum Proof {
    /// Random histories against the model, over kills and power cuts
    Model {
        /// Operations of all seeds together
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seeds [default: one per 2500 operations]
        #[arg(long)]
        seeds: Option<u64>,
    },
    /// A fixed history cut at every I/O, four images each, recovery cut as well
    CrashEveryIo {
        /// The first cut
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The last cut [default: the end of the history]
        #[arg(long)]
        to: Option<u64>,
        /// Calls between two cuts
        #[arg(long, default_value_t = 1)]
        stride: u64,
        /// Calls between two cuts of a recovery
        #[arg(long, default_value_t = 4)]
        recovery_stride: u64,
    },
    /// A writing process killed on a real directory
    KillLoop {
        /// Kills
        #[arg(long, default_value_t = 200)]
        rounds: u64,
        /// Chooses when to kill
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Every byte of every file damaged
    Corrupt {
        /// Bytes between two damages
        #[arg(long, default_value_t = 1)]
        stride: u64,
    },
    /// Damaged databases repaired
    Repair {
        /// Bytes between two damages
        #[arg(long, default_value_t = 1)]
        stride: usize,
    },
    /// A package index imported by a program that is killed half way
    RealData {
        /// The package index (deb822), uncompressed
        #[arg(long)]
        input: PathBuf,
        /// The program `kingtide` [default: next to this one]
        #[arg(long)]
        kingtide: Option<PathBuf>,
        /// Kills
        #[arg(long, default_value_t = 5)]
        kills: u64,
        /// Chooses when to kill
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Mixed load on a real directory while memory, descriptors, threads and disk are watched
    Soak(soak::SoakProof),
    #[command(flatten)]
    Isolation(isolation::IsolationProof),
    /// All of the above but real-data, at the length that changes must pass
    Ci,
    /// The process that `kill-loop` kills
    #[command(hide = true)]
    KillChild { directory: PathBuf, seed: u64 },
}

/// Runs a proof on `threads` threads.
///
/// # Errors
/// What was violated.
pub fn run(proof: Proof, threads: usize) -> Checked {
    match proof {
        Proof::Model {
            operations,
            seed,
            seeds,
        } => model(operations, seed, seeds, threads),
        Proof::CrashEveryIo {
            from,
            to,
            stride,
            recovery_stride,
        } => crash_every_io(
            from..=to.unwrap_or(u64::MAX),
            stride,
            recovery_stride,
            threads,
        ),
        Proof::KillLoop { rounds, seed } => kill_loop(rounds, seed),
        Proof::Corrupt { stride } => corrupt(stride, threads),
        Proof::Repair { stride } => repair_proof(stride, threads),
        Proof::RealData {
            input,
            kingtide,
            kills,
            seed,
        } => {
            let program = match kingtide {
                Some(program) => program,
                None => env::current_exe()?.with_file_name("kingtide"),
            };
            real_data_proof(&real_data::RealData {
                program,
                input,
                kills,
                batch: 200,
                seed,
            })
        }
        Proof::Soak(proof) => soak::run(&proof),
        Proof::Isolation(proof) => isolation::run(&proof, threads),
        Proof::Ci => {
            let proofs = [
                model(1_000_000, 1, None, threads),
                crash_every_io(0..=u64::MAX, 1, 4, threads),
                kill_loop(200, 1),
                corrupt(1, threads),
                repair_proof(17, threads),
                soak::run_ci(),
                isolation::run_ci(threads),
            ];
            proofs.into_iter().collect()
        }
        Proof::KillChild { directory, seed } => {
            kill::run_child(&kill::ChildSettings { directory, seed })
        }
    }
}

fn model(operations: u64, first_seed: u64, seeds: Option<u64>, threads: usize) -> Checked {
    let seeds = seeds
        .unwrap_or_else(|| operations.div_ceil(history::OPERATIONS_PER_SEED))
        .max(1);
    let per_seed = operations.div_ceil(seeds);
    let item = |number| history::run(first_seed + number, per_seed);
    let name_of = |number| format!("seed {}", first_seed + number);
    let report = run_items("model", seeds, threads, &item, &name_of);
    finish("model", &report, &report.tally.to_string())
}

fn crash_every_io(
    cuts: std::ops::RangeInclusive<u64>,
    stride: u64,
    recovery_stride: u64,
    threads: usize,
) -> Checked {
    let calls = script::count_calls()?;
    let (first, last) = (*cuts.start(), (*cuts.end()).min(calls.max(*cuts.start())));
    let stride = stride.max(1);
    let item = |number| script::check_cut(first + number * stride, recovery_stride);
    let name_of = |number| format!("cut {}", first + number * stride);
    let count = (last - first) / stride + 1;
    let report = run_items("crash-every-io", count, threads, &item, &name_of);
    let tally = report.tally;
    let text = format!(
        "{} cuts, {} images, {} cuts of recovery",
        tally.cuts, tally.images, tally.recovery_cuts
    );
    finish("crash-every-io", &report, &text)
}

fn kill_loop(rounds: u64, seed: u64) -> Checked {
    let program = env::current_exe()?;
    let command = |settings: &kill::ChildSettings| {
        let mut command = Command::new(&program);
        command
            .arg("kill-child")
            .arg(&settings.directory)
            .arg(settings.seed.to_string());
        command
    };
    let bar = progress_bar("kill-loop", rounds);
    let tally = kill::run(rounds, seed, &command, &mut |round| bar.set_position(round))?;
    bar.finish_and_clear();
    say(&format!(
        "kill-loop: {} kills, {} acknowledged transactions, {} kept without acknowledgement, 0 violations",
        tally.rounds, tally.acknowledged, tally.unacknowledged_kept
    ));
    Ok(())
}

fn corrupt(stride: u64, threads: usize) -> Checked {
    let specimen = damage::Specimen::build()?;
    let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
    let places: Vec<damage::Place> = specimen.places().into_iter().step_by(stride).collect();
    let place = |number: u64| &places[usize::try_from(number).unwrap_or(0)];
    let item = |number| {
        let place = place(number);
        let mut tally = damage::DamageTally::default();
        for flip in [damage::Flip::Invert, damage::Flip::OneBit] {
            for is_read_only in [false, true] {
                tally += specimen.check(place, flip, is_read_only)?;
            }
        }
        if damage::is_table_or_values(&place.path) {
            damage::check_verify(&specimen, place)?;
        }
        Ok(tally)
    };
    let name_of = |number| {
        format!(
            "{} offset {}",
            place(number).path.display(),
            place(number).offset
        )
    };
    let report = run_items("corrupt", places.len() as u64, threads, &item, &name_of);
    let tally = report.tally;
    let text = format!(
        "{} damages, {} refused to open, {} reported by reads, {} harmless",
        tally.damages, tally.refused, tally.reported, tally.harmless
    );
    finish("corrupt", &report, &text)
}

fn repair_proof(stride: usize, threads: usize) -> Checked {
    let specimen = repair::Specimen::build()?;
    let cases = specimen.cases(stride);
    let case = |number: u64| &cases[usize::try_from(number).unwrap_or(0)];
    let item = |number| specimen.check(case(number));
    let name_of = |number| format!("{} {:?}", case(number).path.display(), case(number).harm);
    let report = run_items("repair", cases.len() as u64, threads, &item, &name_of);
    let tally = report.tally;
    let text = format!(
        "{} repairs, {} with losses, {} keys affected, {} without a manifest",
        tally.repairs, tally.with_losses, tally.keys_affected, tally.without_manifest
    );
    finish("repair", &report, &text)
}

fn real_data_proof(settings: &real_data::RealData) -> Checked {
    let tally = real_data::run(settings)?;
    say(&format!(
        "real-data: {} records, {} keys, {} kills, up to {} records acknowledged before a kill, 0 violations",
        tally.records, tally.keys, tally.kills, tally.acknowledged
    ));
    Ok(())
}

fn run_items<T: Default + AddAssign + Send>(
    name: &'static str,
    count: u64,
    threads: usize,
    item: &(dyn Fn(u64) -> Checked<T> + Sync),
    name_of: &dyn Fn(u64) -> String,
) -> Report<T> {
    let bar = progress_bar(name, count);
    let stuck = |numbers: &[u64]| {
        let names: Vec<String> = numbers.iter().map(|number| name_of(*number)).collect();
        say(&format!("VIOLATION: {name}: stuck in {}", names.join(", ")));
        exit(1);
    };
    let report = runner::run(
        count,
        threads,
        item,
        &mut |items| bar.set_position(items),
        &stuck,
    );
    bar.finish_and_clear();
    report
}

fn finish<T>(name: &str, report: &Report<T>, tally: &str) -> Checked {
    say(&format!(
        "{name}: {tally}, {} violations",
        report.violations.len()
    ));
    match report.violations.first() {
        None => Ok(()),
        Some(_) => Err(Violation::new(report.violations.join("\n\n"))),
    }
}
