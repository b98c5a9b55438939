//! `put`, `get` and `delete`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Cursor, Read},
    path::Path,
};

use kingtide::{ColumnFamily, Db, FamilyOptions, Transaction};
use serde_json::{Map, Value};

use crate::{
    args::{DeleteArgs, DeletedKeys, GetArgs, Global, PutArgs},
    commands::{argument_bytes, expiry_in, open_for_reading, open_for_writing},
    failure::{Failure, Result},
    output::Output,
    text::{Escape, escape, hex, insert_bytes},
};

pub(super) fn put(args: &PutArgs, global: &Global) -> Result<()> {
    let key = argument_bytes(&args.key, args.hex)?;
    let mut source = source_of(args)?;
    let db = open_for_writing(&args.at.directory, true)?;
    let family = db.open_family(global.family_name(), FamilyOptions::default())?;
    let expires_at = args.ttl.map_or(0, expiry_in);
    let mut transaction = db.begin()?;
    transaction.put_from_expiring(&family, &key, &mut source, expires_at)?;
    transaction.commit()?;
    drop(transaction);
    Ok(db.close()?)
}

/// What yields the value.
fn source_of(args: &PutArgs) -> Result<Box<dyn Read>> {
    if let Some(value) = &args.value {
        let value = argument_bytes(value, args.hex)?;
        return Ok(Box::new(Cursor::new(value)));
    }
    match &args.value_file {
        // The parser lets no command through that has neither.
        None => Ok(Box::new(io::empty())),
        Some(path) if path == Path::new("-") => Ok(Box::new(io::stdin().lock())),
        Some(path) => {
            let opened = File::open(path);
            let file =
                opened.map_err(|error| Failure::Io(format!("open {}", path.display()), error))?;
            Ok(Box::new(file))
        }
    }
}

/// Writes the value of `key` to the new file `path`. A file that is not complete is removed.
fn get_to_file(db: &Db, family: &ColumnFamily, key: &[u8], path: &Path) -> Result<()> {
    let failed = |error| Failure::Io(format!("write {}", path.display()), error);
    if !db.contains(family, key)? {
        return Err(Failure::KeyMissing);
    }
    let mut file = File::create_new(path).map_err(failed)?;
    let written = db.get_to(family, key, &mut file);
    let done = match written {
        Ok(Some(_)) => file.sync_all().map_err(failed),
        Ok(None) => Err(Failure::KeyMissing),
        Err(error) => Err(error.into()),
    };
    if done.is_err() {
        // Best effort: what stays is an incomplete copy, and the command says that it failed.
        let _ = fs::remove_file(path);
    }
    done
}

pub(super) fn get(args: &GetArgs, global: &Global, output: &mut Output) -> Result<()> {
    let key = argument_bytes(&args.key, args.hex)?;
    let db = open_for_reading(&args.at.directory)?;
    let family = db.family(global.family_name())?;
    if let Some(path) = &args.output {
        return get_to_file(&db, &family, &key, path);
    }
    let value = db.get(&family, &key)?;
    if args.raw {
        let value = value.ok_or(Failure::KeyMissing)?;
        return output.raw(&value);
    }
    let found = print_value(output, &key, value.as_deref(), args.hex)?;
    // With --json the answer says `"found":false`, and the exit code does; an error besides would be a second answer.
    match (found, global.json || global.quiet) {
        (true, _) => Ok(()),
        (false, false) => Err(Failure::KeyMissing),
        (false, true) => Err(Failure::KeyMissingToldAlready),
    }
}

/// Prints what a read of `key` found, and answers whether it found something. Without JSON, nothing is printed for a
/// missing key.
pub(crate) fn print_value(
    output: &mut Output,
    key: &[u8],
    value: Option<&[u8]>,
    in_hex: bool,
) -> Result<bool> {
    if output.json {
        let mut object = Map::new();
        if in_hex {
            object.insert("key_hex".into(), Value::from(hex(key)));
        } else {
            insert_bytes(&mut object, "key", key);
        }
        object.insert("found".into(), Value::from(value.is_some()));
        match value {
            Some(value) if in_hex => {
                object.insert("value_hex".into(), Value::from(hex(value)));
            }
            Some(value) => insert_bytes(&mut object, "value", value),
            None => {}
        }
        output.object(&Value::Object(object))?;
    } else if let Some(value) = value {
        let text = if in_hex {
            hex(value)
        } else {
            escape(value, Escape::Text)
        };
        output.line(&text)?;
    }
    Ok(value.is_some())
}

pub(super) fn delete(args: &DeleteArgs, global: &Global) -> Result<()> {
    let deletion = Deletion::of(&args.keys, args.hex)?;
    let db = open_for_writing(&args.at.directory, false)?;
    let family = db.family(global.family_name())?;
    let mut transaction = db.begin()?;
    deletion.apply(&mut transaction, &family)?;
    transaction.commit()?;
    Ok(db.close()?)
}

/// What is to be deleted.
pub(crate) enum Deletion {
    Key(Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
    Prefix(Vec<u8>),
}

impl Deletion {
    /// What the arguments say.
    ///
    /// # Errors
    /// When they are not hexadecimal but should be.
    pub(crate) fn of(keys: &DeletedKeys, in_hex: bool) -> Result<Self> {
        let bytes = |argument: &OsString| argument_bytes(argument, in_hex);
        // The parser lets exactly one of the three pass.
        Ok(match (&keys.range, &keys.prefix, &keys.key) {
            (Some(ends), _, _) => {
                let end = |index: usize| ends.get(index).map_or(Ok(Vec::new()), bytes);
                Self::Range(end(0)?, end(1)?)
            }
            (None, Some(prefix), _) => Self::Prefix(bytes(prefix)?),
            (None, None, key) => Self::Key(key.as_ref().map_or(Ok(Vec::new()), bytes)?),
        })
    }

    /// Does it, in `transaction`.
    ///
    /// # Errors
    /// What the database answers.
    pub(crate) fn apply(&self, transaction: &mut Transaction, family: &ColumnFamily) -> Result<()> {
        match self {
            Self::Key(key) => transaction.delete(family, key)?,
            Self::Range(start, end) => transaction.delete_range(family, start, end)?,
            Self::Prefix(prefix) => transaction.delete_prefix(family, prefix)?,
        }
        Ok(())
    }
}
