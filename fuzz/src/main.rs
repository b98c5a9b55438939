//! One program for all targets: `KINGTIDE_FUZZ_TARGET` names the one to run. Arguments are libFuzzer's. The inputs to begin
//! with that a target brings along are written to the folder `KINGTIDE_FUZZ_SEEDS`, if that is set, before anything is run:
//! one of the folders that libFuzzer is told to read.
//!
//! The target that calls through the C interface is not among those of the testkit, which is free of unsafe code: it
//! lives with the C library's tests, which run it as well.
#![no_main]

#[path = "../../crates/capi/tests/sequences/mod.rs"]
mod sequences;

use std::{path::Path, sync::OnceLock};

use kingtide_capi as _;

use kingtide_testkit::fuzz::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;

/// Sequences of calls through the C interface.
const C_CALLS: Target = Target {
    name: "c_calls",
    run: |bytes| {
        // Syncing costs nothing in memory.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let directory = parent.join(format!("kingtide-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        sequences::run(bytes, &directory);
    },
    seeds: sequences::seeds,
};

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("KINGTIDE_FUZZ_TARGET").unwrap_or_default();
        let found = target(&name).or_else(|| (name == C_CALLS.name).then_some(C_CALLS));
        found.unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS
                .iter()
                .chain([&C_CALLS])
                .map(|target| target.name)
                .collect();
            eprintln!(
                "KINGTIDE_FUZZ_TARGET must name one of: {}",
                names.join(", ")
            );
            std::process::exit(2);
        })
    })
}

/// Writes the target's own inputs, for libFuzzer to read.
fn write_seeds() {
    let target = chosen();
    let Some(folder) = std::env::var_os("KINGTIDE_FUZZ_SEEDS") else {
        return;
    };
    for (number, seed) in (target.seeds)().iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{number}"));
        std::fs::write(path, seed).expect("the folder of seeds can be written to");
    }
}

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| (chosen().run)(bytes)
);
