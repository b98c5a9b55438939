//! `bench show`: the tables and the page of results that were kept, as at the end of the run that measured them.

use kingtide_bench::{Row, suite::Options};

use super::{built_in, failed, result_file::Older, results::Results, usage};
use crate::{
    args::ShowArgs,
    failure::{Failure, Result},
    output::Output,
};

pub(super) fn run(args: &ShowArgs, output: &mut Output) -> Result<()> {
    let mut rows = Vec::new();
    for file in &args.files {
        rows.extend(Row::read_file(file).map_err(failed)?);
    }
    let Some(first) = rows.first() else {
        return Err(Failure::Benchmark("the files have no rows".into()));
    };
    let targets = match &args.suite {
        Some(name) => {
            built_in(name, &Options::default(), 1.0)
                .map_err(usage)?
                .targets
        }
        None => Vec::new(),
    };
    let mut results = Results::create(&args.files_out, &args.files, &targets, &first.engine)?;
    results.add(&rows, output).map_err(failed)?;
    results
        .finish(&[], None, Older::Replaced, output)
        .map(|_| ())
}
