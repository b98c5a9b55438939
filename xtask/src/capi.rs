//! The C programs of `crates/capi/tests/c`, at the length that a change must pass: plainly, under the address sanitizer
//! and under valgrind. A tool that is not installed is skipped, and said to be.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// One run of the programs.
struct Pass {
    name: &'static str,
    /// For `KINGTIDE_CAPI_TOOL`; none when empty.
    tool: &'static str,
    cycles: u32,
    stress_seconds: u32,
}

const PASSES: [Pass; 3] = [
    Pass {
        name: "plainly",
        tool: "",
        cycles: 10_000,
        stress_seconds: 60,
    },
    Pass {
        name: "under the address sanitizer",
        tool: "asan",
        cycles: 500,
        stress_seconds: 15,
    },
    Pass {
        name: "under valgrind",
        tool: "valgrind",
        cycles: 60,
        stress_seconds: 10,
    },
];

/// Runs every pass; true when all that ran were right.
pub fn check(root: &Path) -> Result<bool, String> {
    for pass in PASSES {
        println!("C interface, {}", pass.name);
        if let Some(reason) = missing(pass.tool) {
            println!("SKIPPED {}: {reason}", pass.name);
            continue;
        }
        let status = Command::new(env!("CARGO"))
            .args(["test", "-p", "kingtide-capi", "--locked"])
            .env("KINGTIDE_CAPI_TOOL", pass.tool)
            .env("KINGTIDE_CAPI_CYCLES", pass.cycles.to_string())
            .env(
                "KINGTIDE_CAPI_STRESS_SECONDS",
                pass.stress_seconds.to_string(),
            )
            .current_dir(root)
            .status()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Why a tool cannot be used.
fn missing(tool: &str) -> Option<&'static str> {
    let is_there = |program: &str, arguments: &[&str]| {
        let outcome = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        outcome.is_ok_and(|status| status.success())
    };
    match tool {
        "asan" => {
            // Compiling nothing still links the sanitizer's library.
            let arguments = [
                "-fsanitize=address",
                "-shared",
                "-x",
                "c",
                "/dev/null",
                "-o",
                "/dev/null",
            ];
            (!is_there("gcc", &arguments) && !is_there("clang", &arguments))
                .then_some("no compiler here has the address sanitizer")
        }
        "valgrind" => {
            (!is_there("valgrind", &["--version"])).then_some("valgrind is not installed")
        }
        _ => None,
    }
}
