//! The new database: made under a name of its own, renamed when it is whole and durable.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use kingtide_base::{EntryKind, StorageError};
use kingtide_env::{Directory, Env};

use super::{RepairOptions, log::PreparedFound, merge::Sink, survey::Plan};
use crate::{
    db::Db,
    error::{Error, ErrorKind, Result},
    options::{Options, TransactionOptions},
    txn::isolation_of,
};

/// What the name of an unfinished database ends with.
const UNFINISHED: &str = ".unfinished";

/// See the module.
pub(super) struct Target {
    parent: Arc<dyn Directory>,
    name: String,
    work_name: String,
    path: PathBuf,
    db: Db,
}

impl Target {
    /// Begins a database that will be at `path`.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, and what the system and opening answer.
    pub(super) fn make(env: &Arc<dyn Env>, path: &Path, options: &RepairOptions) -> Result<Self> {
        let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
            Error::invalid(format!("{} cannot name a new directory", path.display()))
        })?;
        let parent_path = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let fail = |error: io::Error| {
            let file = parent_path.display().to_string();
            Error::from(StorageError::io(file, "open", error))
        };
        let parent = env.open_directory(parent_path, true).map_err(fail)?;
        let work_name = format!("{name}{UNFINISHED}");
        for taken in [name, work_name.as_str()] {
            let is_free = match parent.open_directory(taken, false) {
                Ok(found) => found.list().map_err(fail)?.is_empty(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => false,
                Err(error) => return Err(fail(error)),
            };
            if !is_free {
                let text = format!(
                    "{} is there and not empty: name another directory, or remove it",
                    parent_path.join(taken).display()
                );
                return Err(Error::new(ErrorKind::AlreadyExists, text));
            }
        }
        let db = Db::open(
            parent_path.join(&work_name),
            Options {
                comparators: options.comparators.clone(),
                env: Some(Arc::clone(env)),
                ..Options::default()
            },
        )?;
        Ok(Self {
            parent,
            name: name.to_owned(),
            work_name,
            path: path.to_path_buf(),
            db,
        })
    }

    /// Makes the family of `plan` and loads what `entries` hands out.
    ///
    /// # Errors
    /// What creating and loading answer.
    pub(super) fn load(
        &self,
        plan: &Plan,
        entries: &mut dyn FnMut(&mut Sink<'_>) -> Result<()>,
    ) -> Result<()> {
        let family = self.db.create_family(&plan.name, plan.options.clone())?;
        let mut loader = self.db.bulk_load(&family)?;
        entries(&mut |key, value, expires_at| loader.put_expiring(key, value, expires_at))?;
        loader.finish().map(|_| ())
    }

    /// Prepares a transaction that waited for its outcome in the damaged database.
    ///
    /// # Errors
    /// What writing and preparing answer.
    pub(super) fn prepare(&self, plans: &[Plan], prepared: &PreparedFound) -> Result<()> {
        let mut transaction = self.db.begin_with(TransactionOptions {
            isolation: isolation_of(prepared.isolation),
            ..TransactionOptions::default()
        })?;
        for (id, op) in &prepared.operations {
            let Some(plan) = plans.iter().find(|plan| plan.id == *id) else {
                continue;
            };
            let family = self.db.family(&plan.name)?;
            match op.kind {
                EntryKind::Put => {
                    transaction.put_expiring(&family, &op.key, &op.value, op.expires_at)?;
                }
                EntryKind::RangeDelete => {
                    transaction.delete_range(&family, &op.key, &op.value)?;
                }
                _ => transaction.delete(&family, &op.key)?,
            }
        }
        transaction.prepare(&prepared.xid)
    }

    /// Closes the database and gives it its name.
    ///
    /// # Errors
    /// What closing and renaming answer.
    pub(super) fn finish(self) -> Result<()> {
        self.db.close()?;
        let fail = |operation, error| {
            let file = self.path.display().to_string();
            Error::from(StorageError::io(file, operation, error))
        };
        self.parent
            .rename(&self.work_name, &self.name)
            .map_err(|error| fail("rename to", error))?;
        self.parent.sync().map_err(|error| fail("sync", error))
    }
}
