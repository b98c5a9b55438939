//! Soak: how long, and what is shown.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use kingtide_sim::report::{progress_bar, say};
use kingtide_testkit::{Checked, soak};

/// How long the load runs.
#[derive(Args)]
pub struct SoakProof {
    /// Minutes of load; 120 tell a slope of 1 MB per hour
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Chooses operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes soak.csv and soak.svg, the time line, to this directory
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs it and prints the table.
///
/// # Errors
/// What was violated.
pub fn run(proof: &SoakProof) -> Checked {
    let length =
        Duration::try_from_secs_f64(proof.minutes * 60.0).unwrap_or(Duration::from_secs(300));
    let settings = soak::Settings {
        length,
        seed: proof.seed,
        out: proof.out.clone(),
    };
    let bar = progress_bar("soak", length.as_secs());
    let summary = soak::run(&settings, &mut |seconds| bar.set_position(seconds));
    bar.finish_and_clear();
    let summary = summary?;
    say(&summary.to_string());
    summary.judge()?;
    say(&format!(
        "soak: {:.0} s, {} calls compared, {} openings, 0 violations",
        length.as_secs_f64(),
        summary.operations,
        summary.rounds
    ));
    Ok(())
}

/// The length that changes must pass.
///
/// # Errors
/// What was violated.
pub fn run_ci() -> Checked {
    run(&SoakProof {
        minutes: 0.75,
        seed: 1,
        out: None,
    })
}
