//! `lsm`: which files a database has, as text, as JSON or as a page.
//!
//! It reads the manifest and the heads of the log's files, takes no lock and writes nothing in the directory, so it works
//! beside a program that has the database open, and on databases with damaged tables or unknown key orders.

mod page;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use kingtide::{FamilyLayout, Layout, Options, SegmentLayout, SegmentState, TableLayout};

use crate::{
    args::{Global, LsmArgs},
    commands::inspect::new_table,
    failure::{Failure, Result},
    output::Output,
    text::{Escape, escape, size},
};

/// Tables of one level, and value files, that are listed as text: JSON and the page have all.
const ROWS_MAX: usize = 24;

pub(super) fn run(args: &LsmArgs, global: &Global, output: &mut Output) -> Result<()> {
    let mut layout = Layout::read(&args.at.directory, &Options::default())?;
    if let Some(name) = &global.family {
        layout.families.retain(|family| family.name == *name);
        if layout.families.is_empty() {
            let text = format!("there is no family {name:?}");
            return Err(Failure::Usage(text, "`kingtide families` lists them"));
        }
    }
    let data = page::data(&layout, &args.at.directory);
    if let Some(target) = &args.html {
        write_new(target, &page::render(&data))?;
        output.note(&format!("wrote {}", target.display()));
        // The page is what was asked for; the text would repeat it.
        return if output.json {
            output.object(&data)
        } else {
            Ok(())
        };
    }
    if output.json {
        output.object(&data)
    } else {
        print(&layout, output)
    }
}

/// Writes a file that is whole when it has its name, in place of one that is there.
fn write_new(target: &Path, content: &str) -> Result<()> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let written = tempfile::Builder::new()
        .prefix(".kingtide-page-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.persist(target).map_err(io::Error::from)
        });
    written
        .map(drop)
        .map_err(Failure::io(format!("write {}", target.display())))
}

fn print(layout: &Layout, output: &mut Output) -> Result<()> {
    for (index, family) in layout.families.iter().enumerate() {
        if index > 0 {
            output.line("")?;
        }
        print_family(family, output)?;
    }
    if !layout.value_files.is_empty() {
        output.line("")?;
        let mut table = new_table(&["value file", "size", "live", "", "records", "tables"]);
        let mut files: Vec<_> = layout.value_files.iter().collect();
        files.sort_by(|a, b| a.live_share().total_cmp(&b.live_share()));
        let (shown, rest) = files.split_at(files.len().min(ROWS_MAX));
        for file in shown {
            table.add_row(vec![
                file.file.clone(),
                size(file.bytes),
                size(file.live_bytes),
                percent(file.live_share()),
                format!("{} of {}", file.live_records, file.records),
                file.tables.to_string(),
            ]);
        }
        if !rest.is_empty() {
            table.add_row(vec![more(rest.len())]);
        }
        output.line(&table.to_string())?;
    }
    print_segments(&layout.segments, output)
}

fn print_family(family: &FamilyLayout, output: &mut Output) -> Result<()> {
    let mut levels: BTreeMap<u8, Vec<&TableLayout>> = BTreeMap::new();
    for table in &family.tables {
        levels.entry(table.level).or_default().push(table);
    }
    let bytes: u64 = family.tables.iter().map(|table| table.bytes).sum();
    output.line(&format!(
        "{}: {} tables, {}",
        escape(family.name.as_bytes(), Escape::Field),
        family.tables.len(),
        size(bytes)
    ))?;
    if !family.is_order_known {
        let comparator = escape(family.comparator.as_bytes(), Escape::Field);
        output.line(&format!("  its key order {comparator} is not known here"))?;
    }
    if family.tables.is_empty() {
        return Ok(());
    }
    let mut table = new_table(&[
        "  level",
        "file",
        "size",
        "entries",
        "tombstones",
        "values",
        "first key",
        "last key",
    ]);
    for (level, tables) in levels {
        let (shown, rest) = tables.split_at(tables.len().min(ROWS_MAX));
        for entry in shown {
            let tombstones = entry.tombstones as f64 / entry.entries.max(1) as f64;
            table.add_row(vec![
                format!("  {level}"),
                entry.file.clone(),
                size(entry.bytes),
                entry.entries.to_string(),
                percent(tombstones),
                size(entry.value_bytes),
                page::key_text(&family.boundaries[entry.smallest]),
                page::key_text(&family.boundaries[entry.largest]),
            ]);
        }
        if !rest.is_empty() {
            table.add_row(vec![format!("  {level}"), more(rest.len())]);
        }
    }
    output.line(&table.to_string())
}

fn print_segments(segments: &[SegmentLayout], output: &mut Output) -> Result<()> {
    if segments.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let mut table = new_table(&["log file", "size", "state"]);
    for segment in segments {
        table.add_row(vec![
            segment.file.clone(),
            size(segment.bytes),
            state_name(segment.state).to_owned(),
        ]);
    }
    output.line(&table.to_string())
}

fn state_name(state: SegmentState) -> &'static str {
    match state {
        SegmentState::Live { .. } => "live",
        SegmentState::Retired => "retired",
        SegmentState::Blank => "blank",
    }
}

fn more(count: usize) -> String {
    format!("and {count} more")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
