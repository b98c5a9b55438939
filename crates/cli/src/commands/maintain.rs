//! `compact` and `purge`: maintenance that a database does by itself, done now.

use std::ffi::OsString;

use kingtide::{ColumnFamily, Db};
use serde_json::json;

use crate::{
    args::{CompactArgs, Directory, Global},
    commands::{argument_bytes, open_for_writing},
    failure::Result,
    output::Output,
    text::size,
};

pub(super) fn compact(args: &CompactArgs, global: &Global, output: &mut Output) -> Result<()> {
    let bound = |argument: &OsString| argument_bytes(argument, args.hex);
    let from = args.from.as_ref().map(bound).transpose()?;
    let to = args.to.as_ref().map(bound).transpose()?;
    let db = open_for_writing(&args.at.directory, false)?;
    let family = db.family(global.family_name())?;
    let before = data_bytes(&db)?;
    if from.is_none() && to.is_none() {
        db.compact(&family)?;
    } else {
        db.compact_range(&family, from.as_deref(), to.as_deref())?;
    }
    tell(&db, before, output)
}

pub(super) fn purge(at: &Directory, global: &Global, output: &mut Output) -> Result<()> {
    let db = open_for_writing(&at.directory, false)?;
    let only: Option<ColumnFamily> = global
        .family
        .as_deref()
        .map(|name| db.family(name))
        .transpose()?;
    let before = data_bytes(&db)?;
    match only {
        Some(family) => db.purge_family(&family)?,
        None => db.purge()?,
    }
    tell(&db, before, output)
}

/// Bytes of tables and value files.
fn data_bytes(db: &Db) -> Result<u64> {
    Ok(db.stats()?.data_bytes)
}

fn tell(db: &Db, before: u64, output: &mut Output) -> Result<()> {
    let after = data_bytes(db)?;
    output.summary(
        &json!({"bytes_before": before, "bytes_after": after}),
        || format!("{} of tables became {}", size(before), size(after)),
    )?;
    Ok(db.close()?)
}
