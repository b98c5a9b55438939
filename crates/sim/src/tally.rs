//! What simulations went through.

use std::{fmt, ops::AddAssign};

/// Counts over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimTally {
    /// Plans that were run; a second run of the same plan is not counted.
    pub runs: u64,
    /// Operations compared with the model.
    pub operations: u64,
    /// Commits of clients.
    pub commits: u64,
    /// Transactions explained by their levels.
    pub transactions: u64,
    /// Power cuts.
    pub cuts: u64,
    /// States after power cuts that were recovered and checked.
    pub images: u64,
    /// Recoveries that were cut themselves.
    pub recovery_cuts: u64,
    /// Calls that changed what is stored.
    pub calls: u64,
    /// How often another thread went on.
    pub switches: u64,
}

impl AddAssign for SimTally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.operations += other.operations;
        self.commits += other.commits;
        self.transactions += other.transactions;
        self.cuts += other.cuts;
        self.images += other.images;
        self.recovery_cuts += other.recovery_cuts;
        self.calls += other.calls;
        self.switches += other.switches;
    }
}

impl fmt::Display for SimTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs, {} operations against the model, {} commits of clients, {} transactions explained, {} power cuts, \
             {} images recovered ({} recoveries cut), {} switches of threads",
            self.runs,
            self.operations,
            self.commits,
            self.transactions,
            self.cuts,
            self.images,
            self.recovery_cuts,
            self.switches
        )
    }
}
