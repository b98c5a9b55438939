//! The ledger of long runs, for chores and scripts that add to it; its form is that of `crates/ledger`.

use std::path::Path;

use kingtide_ledger::{Ledger, Stretch, build};

/// How to use it.
pub const USAGE: &str = "
  ledger FILE LINE
                  add a line to a ledger of long runs: part,first,last,reached,unit,violations
";

/// The ledger at `path`; an empty one when there is no file.
pub fn open(path: &Path) -> Result<Ledger, String> {
    Ledger::open(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Adds to the ledger at `path`.
pub fn add(path: &Path, stretch: Stretch) -> Result<(), String> {
    let outcome = open(path)?.add(stretch);
    outcome.map_err(|error| format!("{}: {error}", path.display()))
}

/// Adds what another program ran: a line without the commit, which is the one that is checked out.
pub fn add_line(root: &Path, path: &str, line: &str) -> Result<bool, String> {
    let stretch = format!("{line},{}", build(root)).parse();
    let stretch = stretch.map_err(|reason| format!("{line}: {reason}"))?;
    add(&root.join(path), stretch).map(|()| true)
}
