//! One program for all targets: `KINGTIDE_FUZZ_TARGET` names the one to run. Arguments are libFuzzer's.
#![no_main]

use std::sync::OnceLock;

use kingtide_testkit::fuzz::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("KINGTIDE_FUZZ_TARGET").unwrap_or_default();
        let found = target(&name);
        found.unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("KINGTIDE_FUZZ_TARGET must name one of: {}", names.join(", "));
            std::process::exit(2);
        })
    })
}

fuzz_target!(|bytes: &[u8]| (chosen().run)(bytes));
