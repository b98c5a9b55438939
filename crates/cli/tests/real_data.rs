//! Package records imported by a program that is killed half way. `proof real-data` does it with a whole index.

use std::{fs, path::Path};

use kingtide_testkit::real_data::{self, RealData};

// Promise: 3.
#[test]
fn an_import_that_is_killed_keeps_what_it_acknowledged() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut inputs: Vec<_> = fs::read_dir(data)
        .expect("the sample is part of the repository")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "deb822")
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "there is no sample");
    for input in inputs {
        let settings = RealData {
            program: env!("CARGO_BIN_EXE_kingtide").into(),
            input,
            kills: 4,
            batch: 10,
            seed: 7,
        };
        let tally = real_data::run(&settings).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(tally.records > 0 && tally.kills == 4);
    }
}
