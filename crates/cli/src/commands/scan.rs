//! `scan`: keys and values in order, either way.

use kingtide::{ColumnFamily, Db, Iter, IterOptions, Transaction};
use serde_json::{Map, Value};

use crate::{
    args::{Global, ScanArgs, ScanCommand},
    commands::{argument_bytes, open_for_reading},
    failure::Result,
    output::Output,
    text::{Escape, escape, hex, insert_bytes},
};

pub(super) fn run(args: &ScanCommand, global: &Global, output: &mut Output) -> Result<()> {
    let options = iter_options(&args.scan)?;
    let db = open_for_reading(&args.at.directory)?;
    let family = db.family(global.family_name())?;
    let mut iter = db.iter(&family, options)?;
    print_entries(&mut iter, &args.scan, args.scan.limit, output)?;
    Ok(())
}

/// The shell's scan: inside a transaction it sees the transaction's writes.
pub(crate) fn iter_of(
    db: &Db,
    transaction: Option<&Transaction>,
    family: &ColumnFamily,
    args: &ScanArgs,
) -> Result<Iter> {
    let options = iter_options(args)?;
    Ok(match transaction {
        None => db.iter(family, options)?,
        Some(transaction) => transaction.iter(family, options)?,
    })
}

fn iter_options(args: &ScanArgs) -> Result<IterOptions> {
    let bytes = |argument: &Option<std::ffi::OsString>| {
        argument
            .as_deref()
            .map(|argument| argument_bytes(argument, args.hex))
            .transpose()
    };
    Ok(IterOptions {
        lower: bytes(&args.from)?,
        upper: bytes(&args.to)?,
        prefix: bytes(&args.prefix)?,
    })
}

/// Prints at most `limit` entries; answers whether there are more.
pub(crate) fn print_entries(
    iter: &mut Iter,
    args: &ScanArgs,
    limit: Option<u64>,
    output: &mut Output,
) -> Result<bool> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut printed = 0;
    let mut line = Line::default();
    let mut valid = if args.reverse {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    };
    while valid {
        if printed == limit {
            return Ok(true);
        }
        line.key.clear();
        line.key.extend_from_slice(iter.key());
        line.expires_at = iter.expires_at();
        let value = if args.keys_only {
            None
        } else {
            Some(iter.value()?)
        };
        line.print(value, args.hex, output)?;
        printed += 1;
        valid = if args.reverse {
            iter.prev()?
        } else {
            iter.next()?
        };
    }
    Ok(false)
}

/// One entry on its way to the output. The iterator lends its value for writing, so the key is a copy.
#[derive(Default)]
struct Line {
    key: Vec<u8>,
    expires_at: Option<i64>,
}

impl Line {
    fn print(&self, value: Option<&[u8]>, in_hex: bool, output: &mut Output) -> Result<()> {
        if output.json {
            return output.object(&self.object(value, in_hex));
        }
        let text = |bytes: &[u8]| {
            if in_hex {
                hex(bytes)
            } else {
                escape(bytes, Escape::Field)
            }
        };
        let mut line = text(&self.key);
        if let Some(value) = value {
            line.push('\t');
            line.push_str(&text(value));
        }
        output.line(&line)
    }

    fn object(&self, value: Option<&[u8]>, in_hex: bool) -> Value {
        let mut object = Map::new();
        for (name, bytes) in [("key", Some(&self.key[..])), ("value", value)] {
            match bytes {
                Some(bytes) if in_hex => {
                    object.insert(format!("{name}_hex"), Value::from(hex(bytes)));
                }
                Some(bytes) => insert_bytes(&mut object, name, bytes),
                None => {}
            }
        }
        insert_expiry(&mut object, self.expires_at);
        Value::Object(object)
    }
}

/// Adds `expires_at` when there is one.
pub(super) fn insert_expiry(object: &mut Map<String, Value>, expires_at: Option<i64>) {
    if let Some(seconds) = expires_at.filter(|seconds| *seconds > 0) {
        object.insert("expires_at".into(), Value::from(seconds));
    }
}
