//! `prepared`: transactions that wait for the outcome of a two-phase commit, and their outcome by hand.

use kingtide::{Db, ErrorKind, PreparedTransaction};
use serde_json::{Map, Value, json};

use crate::{
    args::{PreparedAction, PreparedArgs, Xid},
    commands::{argument_bytes, inspect::new_table, open_for_reading, open_for_writing},
    failure::{Failure, Result},
    output::Output,
    text::{Escape, escape, hex, insert_bytes, size},
};

pub(super) fn run(args: &PreparedArgs, output: &mut Output) -> Result<()> {
    let directory = &args.at.directory;
    match &args.action {
        None => list(&open_for_reading(directory)?, false, output),
        Some(PreparedAction::List { hex }) => list(&open_for_reading(directory)?, *hex, output),
        Some(PreparedAction::Commit(xid)) => {
            let db = open_for_writing(directory, false)?;
            let sequence = db.commit_prepared(&xid_of(xid)?).map_err(explain)?;
            output.summary(&json!({"sequence": sequence.0}), || {
                format!("committed as number {sequence}")
            })?;
            Ok(db.close()?)
        }
        Some(PreparedAction::Rollback(xid)) => {
            let db = open_for_writing(directory, false)?;
            db.rollback_prepared(&xid_of(xid)?).map_err(explain)?;
            output.summary(&json!({"rolled_back": true}), || "rolled back".to_owned())?;
            Ok(db.close()?)
        }
    }
}

fn xid_of(xid: &Xid) -> Result<Vec<u8>> {
    argument_bytes(&xid.xid, xid.hex)
}

fn explain(error: kingtide::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            Failure::EngineWithHint(error, "`kingtide prepared DIR` lists what is prepared")
        }
        _ => error.into(),
    }
}

fn list(db: &Db, in_hex: bool, output: &mut Output) -> Result<()> {
    let found = db.prepared()?;
    if output.json {
        return found
            .iter()
            .try_for_each(|prepared| output.object(&object(prepared, in_hex)));
    }
    if found.is_empty() {
        output.note("nothing is prepared");
        return Ok(());
    }
    let header = [
        "xid",
        "operations",
        "size",
        "seconds ago",
        "isolation",
        "families",
    ];
    let mut table = new_table(&header);
    for prepared in &found {
        let families: Vec<String> = prepared
            .families
            .iter()
            .map(|name| escape(name.as_bytes(), Escape::Field))
            .collect();
        table.add_row(vec![
            match in_hex {
                true => hex(&prepared.xid),
                false => escape(&prepared.xid, Escape::Field),
            },
            prepared.operation_count.to_string(),
            size(prepared.bytes),
            prepared.age.as_secs().to_string(),
            format!("{:?}", prepared.isolation),
            families.join(", "),
        ]);
    }
    output.line(&table.trim_fmt())
}

fn object(prepared: &PreparedTransaction, in_hex: bool) -> Value {
    let mut object = Map::new();
    if in_hex {
        object.insert("xid_hex".into(), Value::from(hex(&prepared.xid)));
    } else {
        insert_bytes(&mut object, "xid", &prepared.xid);
    }
    let isolation = format!("{:?}", prepared.isolation);
    let rest = [
        ("operations", json!(prepared.operation_count)),
        ("bytes", json!(prepared.bytes)),
        ("prepared_at", json!(prepared.prepared_at)),
        ("age_seconds", json!(prepared.age.as_secs())),
        ("isolation", json!(isolation)),
        ("families", json!(prepared.families)),
    ];
    object.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(object)
}
