//! `completions` and `man`: generated from the definitions in `args`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    args::Cli,
    failure::{Failure, Result},
    output::Output,
};

// Both generators treat a write error as a bug in the program, so they write into memory.

pub(super) fn completions(shell: Shell, output: &mut Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kingtide", &mut script);
    output.raw(&script)
}

pub(super) fn man(command: Option<&str>, output: &mut Output) -> Result<()> {
    let mut definition = Cli::command();
    // Fills in global options and full names of the subcommands.
    definition.build();
    if let Some(name) = command {
        let found = definition
            .get_subcommands()
            .find(|candidate| candidate.get_name() == name && !candidate.is_hide_set())
            .cloned()
            .ok_or_else(|| {
                Failure::Usage(
                    format!("there is no command {name:?}"),
                    "`kingtide help` lists the commands",
                )
            })?;
        definition = found;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(definition)
        .render(&mut page)
        .map_err(Failure::io("make the manual page"))?;
    output.raw(&page)
}
