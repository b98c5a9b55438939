//! The proofs on threads and files of the system: each promise at full length.

mod isolation;
mod long;
mod operations;
mod soak;

use std::{
    env,
    ops::AddAssign,
    path::PathBuf,
    process::{Command, exit},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use clap::Subcommand;
use kingtide_sim::report::{progress_bar, say};
use kingtide_testkit::{
    Checked, Violation, call_sites, damage, history, kill, real_data, repair,
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
    /// Every byte of every file damaged, and sectors and files exchanged
    Corrupt {
        /// Does only one in so many damages
        #[arg(long, default_value_t = 1)]
        stride: u64,
        /// Every damage at every byte, opened in both ways
        #[arg(long)]
        full: bool,
        /// Only damages whose name contains this, such as "MANIFEST" or "Swap"
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Every call into the world failed, place by place
    FailNth {
        /// Fails the calls whose numbers are powers of this; 0 fails the first of each place only
        #[arg(long, default_value_t = 2)]
        growth: u64,
        /// Only places whose file and line contain this
        #[arg(long, default_value = "")]
        only: String,
        /// Ends after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Damaged databases repaired
    Repair {
        /// Bytes between two damages
        #[arg(long, default_value_t = 1)]
        stride: usize,
        /// Only files whose path contains this
        #[arg(long, default_value = "")]
        only: String,
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
    /// Parts that follow from seeds, by turns, each behind the last seed of the ledger
    Long(long::LongProof),
    #[command(flatten)]
    Isolation(isolation::IsolationProof),
    #[command(flatten)]
    Operations(operations::OperationProof),
    /// All of the above but real-data and long, at the length that changes must pass
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
        Proof::Corrupt { stride, full, only } => corrupt((stride, full), &only, threads),
        Proof::FailNth {
            growth,
            only,
            seconds,
        } => fail_nth(growth, &only, seconds, threads),
        Proof::Repair { stride, only } => repair_proof(stride, &only, threads),
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
        Proof::Long(proof) => long::run(&proof, threads),
        Proof::Isolation(proof) => isolation::run(&proof, threads),
        Proof::Operations(proof) => operations::run(&proof, threads),
        Proof::Ci => {
            let proofs = [
                // First: what the others leave in the allocator is resident memory too.
                soak::run_ci(),
                model(1_000_000, 1, None, threads),
                crash_every_io(0..=u64::MAX, 1, 4, threads),
                kill_loop(200, 1),
                corrupt((1, false), "", threads),
                fail_nth(0, "", Some(300), threads),
                repair_proof(17, "", threads),
                isolation::run_ci(threads),
                operations::run_ci(threads),
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

/// Makes the commands that run [`Proof::KillChild`].
fn kill_child() -> Checked<impl Fn(&kill::ChildSettings) -> Command> {
    let program = env::current_exe()?;
    Ok(move |settings: &kill::ChildSettings| {
        let mut command = Command::new(&program);
        command
            .arg("kill-child")
            .arg(&settings.directory)
            .arg(settings.seed.to_string());
        command
    })
}

fn kill_loop(rounds: u64, seed: u64) -> Checked {
    let command = kill_child()?;
    let bar = progress_bar("kill-loop", rounds);
    let tally = kill::run(rounds, seed, &command, &mut |round| bar.set_position(round))?;
    bar.finish_and_clear();
    say(&format!(
        "kill-loop: {} kills, {} acknowledged transactions, {} kept without acknowledgement, 0 violations",
        tally.rounds, tally.acknowledged, tally.unacknowledged_kept
    ));
    Ok(())
}

fn corrupt((stride, is_full): (u64, bool), only: &str, threads: usize) -> Checked {
    let matrix = damage::matrix::Matrix::build()?;
    let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
    let mut cases = matrix.cases(is_full);
    cases.retain(|case| damage::matrix::name_of(case).contains(only));
    let cases: Vec<damage::matrix::Case> = cases.into_iter().step_by(stride).collect();
    let case = |number: u64| &cases[usize::try_from(number).unwrap_or(0)];
    let item = |number| {
        let case = case(number);
        if let damage::matrix::Harm::Invert(offset) = case.harm
            && damage::is_table_or_values(&case.path)
        {
            let place = damage::Place {
                path: case.path.clone(),
                offset: offset as u64,
            };
            damage::check_verify(matrix.specimen(), &place)?;
        }
        matrix.check(case)
    };
    let found = Found::default();
    let item = |number| found.collect(item(number));
    let name_of = |number| damage::matrix::name_of(case(number));
    let report = run_items("corrupt", cases.len() as u64, threads, &item, &name_of);
    found.finish("corrupt")?;
    let tally = report.tally;
    let bytes: usize = matrix
        .specimen()
        .files()
        .iter()
        .map(|(_, bytes)| bytes)
        .sum();
    let text = format!(
        "{bytes} bytes in {} files, {} damages, {} refused to open, {} reported by reads, {} harmless",
        matrix.specimen().files().len(),
        tally.damages,
        tally.refused,
        tally.reported,
        tally.harmless
    );
    finish("corrupt", &report, &text)
}

/// The violations of a proof that goes on after the first one: which items fail shows what is broken.
#[derive(Default)]
struct Found(Mutex<Vec<String>>);

impl Found {
    /// How many are printed.
    const SHOWN: usize = 30;

    fn collect<T: Default>(&self, outcome: Checked<T>) -> Checked<T> {
        let found = |violation: Violation| {
            let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            list.push(violation.to_string());
            T::default()
        };
        Ok(outcome.unwrap_or_else(found))
    }

    fn finish(self, name: &str) -> Checked {
        let mut list = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if list.is_empty() {
            return Ok(());
        }
        list.sort();
        say(&format!("{name}: {} violations", list.len()));
        list.truncate(Self::SHOWN);
        Err(Violation::new(list.join("\n\n")))
    }
}

fn fail_nth(growth: u64, only: &str, seconds: Option<u64>, threads: usize) -> Checked {
    let sites = call_sites::Sites::find()?;
    let ends = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut tally = call_sites::SiteTally::default();
    let mut planned = 0;
    let found = Found::default();
    for is_first in [true, false] {
        let mut targets = match is_first {
            true => sites.targets(growth),
            false => sites.pairs(),
        };
        targets.retain(|targets| call_sites::name_of(targets).contains(only));
        planned += targets.len();
        let target = |number: u64| &targets[usize::try_from(number).unwrap_or(0)];
        let item = |number| match ends {
            Some(ends) if Instant::now() > ends => Ok(call_sites::SiteTally::default()),
            _ => call_sites::check(&sites, target(number), number),
        };
        let name_of = |number| call_sites::name_of(target(number));
        let item = |number| found.collect(item(number));
        // Most of their time the runs wait for work that has failed to be tried again.
        let count = targets.len() as u64;
        let report = run_items("fail-nth", count, threads * 4, &item, &name_of);
        tally += report.tally;
    }
    found.finish("fail-nth")?;
    let (listed, reached) = sites.count();
    say(&format!(
        "fail-nth: {reached} of {listed} sites reached, {} of {planned} runs, {} struck, {} calls and {} steps failed, \
         {} asked to reopen, 0 violations",
        tally.runs, tally.struck, tally.calls, tally.steps, tally.reopened
    ));
    if only.is_empty() {
        sites.check_complete()?;
    }
    Ok(())
}

fn repair_proof(stride: usize, only: &str, threads: usize) -> Checked {
    let specimen = repair::Specimen::build()?;
    let mut cases = specimen.cases(stride);
    cases.retain(|case| case.path.to_string_lossy().contains(only));
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
