//! Engines that exist as crates only, as peers of `kingtide bench`: the program that its parent starts for each run. Settings
//! and messages go through a socket that is its standard input.
//!
//! Each engine is a feature; without it, the engine is reported as missing.

#[cfg(feature = "fjall")]
mod fjall_engine;
#[cfg(feature = "redb")]
mod redb_engine;
#[cfg(feature = "tidesdb")]
mod tidesdb_engine;

use std::process::ExitCode;

#[cfg(any(feature = "fjall", feature = "redb", feature = "tidesdb"))]
use kingtide_bench::EngineKind;
use kingtide_bench::{BenchError, Engine, Result, Settings, child};

/// The argument that the parent gives.
const SERVE: &str = "bench-child";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some(SERVE) {
        eprintln!("kingtide-bench-peers: started by `kingtide bench --engine fjall,redb,tidesdb`");
        return ExitCode::from(2);
    }
    match child::serve(open) {
        Ok(()) => ExitCode::SUCCESS,
        Err(source) => {
            eprintln!("kingtide-bench-peers: {source}");
            ExitCode::from(2)
        }
    }
}

fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    match settings.engine {
        #[cfg(feature = "fjall")]
        EngineKind::Fjall => Ok(Box::new(fjall_engine::FjallEngine::open(settings)?)),
        #[cfg(feature = "redb")]
        EngineKind::Redb => Ok(Box::new(redb_engine::RedbEngine::open(settings)?)),
        #[cfg(feature = "tidesdb")]
        EngineKind::TidesDb => Ok(Box::new(tidesdb_engine::TidesDbEngine::open(settings)?)),
        other => Err(BenchError::Missing(format!(
            "kingtide-bench-peers was built without {}; `scripts/peers crates` builds it with all",
            other.name()
        ))),
    }
}

/// An error of an engine.
#[cfg(any(feature = "fjall", feature = "redb"))]
fn failed(engine: &'static str) -> impl Fn(&dyn std::fmt::Display) -> BenchError {
    move |source| BenchError::Engine(format!("{engine}: {source}"))
}

#[cfg(test)]
mod tests {
    use kingtide_bench::{EngineKind, Event, Step, Workload, run_with};

    use super::{BenchError, Settings, open};

    /// Goal: the engines answer rightly. Method: every workload on a small run, for those that are built in.
    #[test]
    fn engines_that_are_built_in_pass_every_workload() {
        for engine in [EngineKind::Fjall, EngineKind::Redb, EngineKind::TidesDb] {
            let directory = tempfile::tempdir().expect("temporary directory");
            let mut workloads = Workload::ALL.to_vec();
            workloads.sort_by_key(|workload| *workload == Workload::Delete);
            let step = |workload: &Workload| Step {
                threads: 2,
                batch_operations: 7,
                ..Step::new(
                    *workload,
                    if *workload == Workload::Write {
                        1000
                    } else {
                        100
                    },
                )
            };
            let settings = Settings {
                keys: 1000,
                families: 3,
                steps: workloads.iter().map(step).collect(),
                ..Settings::new(engine, directory.path().join("db"))
            };
            let outcome = run_with(&settings, open, &mut |event| {
                if let Event::Step(report) = event {
                    assert!(report.is_right(), "{report:?}");
                }
            });
            match outcome {
                Ok(end) => assert!(end.closed_bytes > 0, "{end:?}"),
                Err(BenchError::Missing(text)) => assert!(text.contains("built without"), "{text}"),
                Err(source) => panic!("{source}"),
            }
        }
    }
}
