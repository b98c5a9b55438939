//! How far a benchmark is, on standard error; and what comes out of each run, which is kept at once.

use std::{fmt, time::Duration};

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use kingtide_bench::{
    Event, Row, Step,
    suite::{Campaign, Observer, Run},
};

use super::results::Results;
use crate::output::Output;

/// Shows how far it is, and keeps what comes out.
pub(super) struct Progress<'a> {
    pub(super) output: &'a mut Output,
    /// How many there will be, unless an engine is missing.
    pub(super) runs: usize,
    bar: ProgressBar,
    results: Results,
    failures: Vec<String>,
    notes: Vec<String>,
    run: usize,
    /// The step that is under way, by its place.
    step: usize,
}

impl<'a> Progress<'a> {
    pub(super) fn new(campaign: &Campaign, results: Results, output: &'a mut Output) -> Self {
        let bar = output.progress(Some(1));
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {prefix} {rate} {elapsed}")
        {
            bar.set_style(style.with_key("rate", write_rate));
        }
        let rounds = usize::try_from(campaign.rounds).unwrap_or(usize::MAX);
        Self {
            output,
            runs: campaign
                .suite
                .tests
                .len()
                .saturating_mul(rounds)
                .saturating_mul(campaign.engines.len()),
            bar,
            results,
            failures: Vec::new(),
            notes: Vec::new(),
            run: 0,
            step: 0,
        }
    }

    /// The results, what failed, and remarks that belong under the results.
    pub(super) fn finish(self) -> (Results, Vec<String>, Vec<String>) {
        self.bar.finish_and_clear();
        (self.results, self.failures, self.notes)
    }

    /// What stands in front of the bar.
    fn title(&self, run: &Run<'_>) -> String {
        format!(
            "[{}/{}] {}: {}",
            self.run, self.runs, run.engine.label, run.test.name
        )
    }
}

/// Operations per second, without digits that nobody can read.
fn write_rate(state: &ProgressState, text: &mut dyn fmt::Write) {
    // Nothing can be done about a bar that cannot be drawn.
    let _ = write!(text, "{}/s", HumanCount(state.per_sec() as u64));
}

/// How far a step is, and its end at the present speed, in operations: of one with a duration, time says how far.
fn position(step: &Step, done: u64, elapsed: Duration) -> (String, u64) {
    if step.seconds <= 0.0 {
        let text = format!("{}/{}", HumanCount(done), HumanCount(step.operations));
        return (text, step.operations);
    }
    let seconds = elapsed.as_secs_f64().min(step.seconds);
    let end = done as f64 * (step.seconds / seconds.max(1e-9));
    let text = format!("{}/{} s", seconds.floor(), step.seconds);
    (text, (end as u64).max(1))
}

impl Observer for Progress<'_> {
    fn begin(&mut self, run: &Run<'_>) {
        self.run += 1;
        self.step = 0;
        self.bar.reset();
        self.bar.set_prefix("");
        self.bar.set_message(self.title(run));
    }

    fn event(&mut self, run: &Run<'_>, event: &Event) {
        match event {
            Event::Begin { number } => {
                self.step = *number;
                let step = &run.test.settings.steps[*number];
                let (text, end) = position(step, 0, Duration::ZERO);
                self.bar.reset();
                self.bar.set_length(end);
                self.bar.set_prefix(text);
                let workload = step.workload.name();
                self.bar
                    .set_message(format!("{}: {workload}", self.title(run)));
            }
            Event::Progress { done } => {
                let step = &run.test.settings.steps[self.step];
                let (text, end) = position(step, *done, self.bar.elapsed());
                self.bar.set_length(end);
                self.bar.set_prefix(text);
                self.bar.set_position(*done);
            }
            Event::Settling => self
                .bar
                .set_message(format!("{}: settling", self.title(run))),
            Event::Silent { seconds } => {
                let text = format!(
                    "{}: nothing has changed for {seconds} s; Ctrl-C ends the run and keeps what is done",
                    self.title(run)
                );
                let output = &*self.output;
                self.bar.suspend(|| output.note(&text));
            }
            Event::Opened { .. } | Event::Step(_) => {}
        }
    }

    fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|note| note == text) {
            self.notes.push(text.to_owned());
        }
    }

    fn rows(&mut self, run: &Run<'_>, rows: &[Row]) -> kingtide_bench::Result<()> {
        for row in rows.iter().filter(|row| !row.is_ok()) {
            let failure = format!("{}: {}: {}", run.engine, run.test.name, row.error);
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
        let (results, output) = (&mut self.results, &mut *self.output);
        self.bar.suspend(|| results.add(rows, output))
    }
}

#[cfg(test)]
mod tests {
    use kingtide_bench::Workload;

    use super::*;

    #[test]
    fn a_step_with_a_duration_counts_seconds() {
        let counted = Step::new(Workload::Write, 500_000);
        let timed = Step {
            seconds: 600.0,
            ..counted.clone()
        };
        let at = |step, done, seconds| position(step, done, Duration::from_secs_f64(seconds));
        assert_eq!(at(&counted, 7_000, 1.0), ("7,000/500,000".into(), 500_000));
        assert_eq!(
            at(&timed, 7_198_200, 12.5),
            ("12/600 s".into(), 7_198_200 * 48)
        );
        assert_eq!(at(&timed, 0, 0.0), ("0/600 s".into(), 1));
        assert_eq!(at(&timed, 600, 601.0), ("600/600 s".into(), 600));
    }
}
