//! `completions` and `man`: generated from the definitions in `args`.

use std::{fs, path::Path};

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

/// The page of the program, or of the command that these words name.
pub(super) fn man(words: &[String], output: &mut Output) -> Result<()> {
    let mut definition = definition();
    for (place, word) in words.iter().enumerate() {
        let found = visible(&definition).find(|candidate| candidate.get_name() == word);
        definition = found.cloned().ok_or_else(|| {
            let text = format!("there is no command {:?}", words[..=place].join(" "));
            Failure::Usage(text, "`kingtide help` lists the commands")
        })?;
    }
    output.raw(&page(definition)?)
}

/// Writes the page of the program and that of every command to `directory`, which is made if it is missing.
pub(super) fn all_man_pages(directory: &Path, output: &mut Output) -> Result<()> {
    fs::create_dir_all(directory).map_err(Failure::io(format!(
        "make the directory {}",
        directory.display()
    )))?;
    let mut left = vec![definition()];
    let mut written = 0;
    while let Some(definition) = left.pop() {
        left.extend(visible(&definition).cloned());
        let name = format!("{}.1", name_of(&definition));
        let path = directory.join(name);
        fs::write(&path, page(definition)?)
            .map_err(Failure::io(format!("write {}", path.display())))?;
        written += 1;
    }
    output.note(&format!("wrote {written} pages to {}", directory.display()));
    Ok(())
}

fn definition() -> clap::Command {
    let mut definition = Cli::command();
    // Fills in global options and full names of the subcommands.
    definition.build();
    definition
}

/// The subcommands that people see; `help` of one explains itself.
fn visible(definition: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    definition
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// `kingtide-bench-compare`.
fn name_of(definition: &clap::Command) -> String {
    definition
        .get_display_name()
        .unwrap_or_else(|| definition.get_name())
        .to_owned()
}

fn page(definition: clap::Command) -> Result<Vec<u8>> {
    let title = name_of(&definition).to_uppercase();
    let mut page = Vec::new();
    clap_mangen::Man::new(definition)
        .title(title)
        .source(concat!("kingtide ", env!("CARGO_PKG_VERSION")))
        .manual("Kingtide")
        .render(&mut page)
        .map_err(Failure::io("make the manual page"))?;
    Ok(page)
}
