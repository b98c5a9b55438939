//! The families of an open database, by name. Guarded by one short lock; handles keep families alive.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use kingtide_env::sync::Mutex;

use super::Family;
use crate::error::{Error, ErrorKind, Result};

/// See the module.
#[derive(Default)]
pub(crate) struct Registry {
    by_name: Mutex<BTreeMap<String, Arc<Family>>>,
}

impl Registry {
    /// The family `name`.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Family>> {
        self.by_name.lock().get(name).cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no column family named {name:?}"),
            )
        })
    }

    /// True when the name is taken.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.lock().contains_key(name)
    }

    /// Adds a family.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub(crate) fn add(&self, family: Arc<Family>) -> Result<()> {
        match self.by_name.lock().entry(family.name()) {
            Entry::Occupied(taken) => Err(already_exists(taken.key())),
            Entry::Vacant(free) => {
                free.insert(family);
                Ok(())
            }
        }
    }

    /// Takes a family out.
    pub(crate) fn remove(&self, name: &str) {
        self.by_name.lock().remove(name);
    }

    /// Gives a family another name.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        let mut families = self.by_name.lock();
        if let Some(family) = families.remove(from) {
            family.set_name(to);
            families.insert(to.to_owned(), family);
        }
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.by_name.lock().keys().cloned().collect()
    }

    /// All families, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<Family>> {
        self.by_name.lock().values().cloned().collect()
    }
}

/// The error for a taken name.
pub(crate) fn already_exists(name: &str) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("a column family named {name:?} exists already"),
    )
}
