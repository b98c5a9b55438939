//! Writes the databases of `testdata/fixtures` that this build's formats have none of yet. Never changes one that is there.
//!
//! ```text
//! cargo run -p kingtide-testkit --example write_fixtures
//! ```
#![expect(
    clippy::print_stdout,
    reason = "a command line tool reports on its standard output"
)]

use kingtide_testkit::{Checked, fixtures};

fn main() -> Checked {
    for path in fixtures::write_missing()? {
        println!("{}", path.display());
    }
    fixtures::check_complete()
}
