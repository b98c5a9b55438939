//! A writing process, killed a few times. `proof kill-loop` kills it for longer.

use std::process::Command;

use kingtide_testkit::kill::{self, ChildSettings};

// Promise: 3.
#[test]
fn a_killed_process_loses_no_acknowledged_transaction() {
    let command = |settings: &ChildSettings| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kingtide-sim"));
        command
            .arg("kill-child")
            .arg(&settings.directory)
            .arg(settings.seed.to_string());
        command
    };
    let tally =
        kill::run(8, 42, &command, &mut |_| {}).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(tally.rounds, 8);
    assert!(tally.acknowledged > 0);
}
