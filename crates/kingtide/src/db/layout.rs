//! The files of an open database.

use super::Db;
use crate::{
    error::Result,
    layout::{Layout, gather},
};

impl Db {
    /// Which files the database has, what they hold and which keys they cover, as of the last edit of the manifest. Reads
    /// the heads of the log's files.
    ///
    /// # Errors
    /// `Closed`, `Io`.
    pub fn layout(&self) -> Result<Layout> {
        let engine = self.engine();
        engine.check_open()?;
        // A clone shares everything with its original: the lock is not held while the log is listed.
        let state = engine.manifest.lock().state().clone();
        let comparators = engine.comparators.lock().clone();
        gather(&state, engine.wal.as_ref(), &comparators)
    }
}
