//! What is known of a sample: in a few words, and as the page of those that no test notices.

use crate::{
    ledger::{Ledger, Outcome, Row},
    list::Mutant,
};

/// A sample and what is known of it.
pub struct Report<'a> {
    /// The verdicts.
    pub ledger: &'a Ledger,
    /// The sample.
    pub mutants: &'a [Mutant],
    /// What chose it.
    pub seed: u64,
    /// How many mutants there are.
    pub total: usize,
}

impl Report<'_> {
    fn with(&self, outcome: Outcome) -> impl Iterator<Item = (&Mutant, &Row)> {
        let rows = self
            .mutants
            .iter()
            .filter_map(|mutant| Some((mutant, self.ledger.get(mutant)?)));
        rows.filter(move |(_, row)| row.outcome == outcome)
    }

    /// The verdicts in numbers, and the share that was caught of those that compile and can be observed; what some tests have
    /// still to judge counts as missed.
    pub fn summary(&self) -> String {
        let count = |outcome| self.with(outcome).count();
        let killed = count(Outcome::Caught) + count(Outcome::Timeout);
        let judged = killed + count(Outcome::Missed) + count(Outcome::Open);
        let share = match judged {
            0 => 0.0,
            _ => 100.0 * killed as f64 / judged as f64,
        };
        let unknown = self
            .mutants
            .iter()
            .filter(|mutant| self.ledger.get(mutant).is_none());
        format!(
            "{} of {} mutants, chosen by seed {}: {} caught, {} timeouts, {} missed, {} unviable, {} equal, {} open, \
             {} not looked at; at least {share:.1}% of {judged} killed",
            self.mutants.len(),
            self.total,
            self.seed,
            count(Outcome::Caught),
            count(Outcome::Timeout),
            count(Outcome::Missed),
            count(Outcome::Unviable),
            count(Outcome::Equal),
            count(Outcome::Open),
            unknown.count(),
        )
    }

    /// Those that passed every test, a line for each, in the order of the code.
    pub fn missed(&self) -> Vec<String> {
        self.lines(Outcome::Missed, |_| String::new())
    }

    fn lines(&self, outcome: Outcome, about: impl Fn(&Row) -> String) -> Vec<String> {
        let mut found: Vec<_> = self.with(outcome).collect();
        found.sort_by_key(|(mutant, _)| (&mutant.file, mutant.span.start.line));
        let line = |(mutant, row): (&Mutant, &Row)| {
            let line = mutant.span.start.line;
            format!("`{}:{line}` `{}`{}", mutant.file, mutant.name(), about(row))
        };
        found.into_iter().map(line).collect()
    }

    /// The page: the numbers, what no test notices, and what cannot be noticed, with the reason.
    pub fn page(&self) -> String {
        let list = |lines: Vec<String>| match lines.len() {
            0 => "None.\n".to_owned(),
            _ => lines.iter().map(|line| format!("- {line}\n")).collect(),
        };
        let open = self.lines(Outcome::Open, |row| format!(": {}", row.by));
        let equal = self.lines(Outcome::Equal, |row| format!(": {}", row.by));
        format!(
            "# Mutants\n\nWritten by `cargo xtask mutants --sample {} --seed {}`; verdicts are in `mutants.csv`. {}.\n\n\
             ## Missed: every test passes\n\n{}\n## Open: the tests up to these pass\n\n{}\n## Equal: nothing that can be observed changes\n\n{}",
            self.mutants.len(),
            self.seed,
            self.summary(),
            list(self.missed()),
            list(open),
            list(equal),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_those_that_can_be_noticed() {
        let outcomes = [
            Outcome::Caught,
            Outcome::Timeout,
            Outcome::Caught,
            Outcome::Missed,
            Outcome::Equal,
            Outcome::Unviable,
        ];
        let mutants: Vec<Mutant> = (1..=outcomes.len() + 1).map(Mutant::numbered).collect();
        let mut ledger = Ledger::default();
        for (mutant, outcome) in mutants.iter().zip(outcomes) {
            ledger.set(mutant, outcome, "why");
        }
        let report = Report {
            ledger: &ledger,
            mutants: &mutants,
            seed: 1,
            total: 40,
        };
        assert_eq!(
            report.summary(),
            "7 of 40 mutants, chosen by seed 1: 2 caught, 1 timeouts, 1 missed, 1 unviable, 1 equal, 0 open, \
             1 not looked at; at least 75.0% of 4 killed"
        );
        assert_eq!(report.missed(), ["`a.rs:4` `change 4`"]);
        assert!(report.page().contains("- `a.rs:5` `change 5`: why\n"));
    }
}
