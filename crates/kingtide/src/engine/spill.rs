//! Spilled values on their way into the log, and those that did not get there.

use std::sync::Arc;

use kingtide_format::Edit;

use super::Engine;
use crate::{error::Result, output::Output, spill::Spilled, write::WriteSet};

impl Engine {
    /// Makes the durable manifest name the spilled values of `writes`, after their names are durable: what must be so
    /// before the log points to them.
    ///
    /// # Errors
    /// What the directory and the manifest answer; the values are then not to be pointed to.
    pub(crate) fn list_spilled(&self, writes: &WriteSet) -> Result<()> {
        let new: Vec<&Arc<Spilled>> = writes
            .spilled()
            .filter(|spilled| !spilled.is_listed())
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        self.settle_doubts()?;
        self.files.sync_value_names()?;
        let metas = || new.iter().map(|spilled| *spilled.meta());
        let mut edits = vec![Edit::NextFileId(self.files.next_id())];
        edits.extend(metas().map(Edit::AddValueFile));
        let mut manifest = self.manifest.lock();
        let appended = manifest.append(&edits);
        if appended.is_ok() {
            for spilled in &new {
                self.files.live.hold(spilled.meta().file);
                spilled.set_listed();
            }
        }
        drop(manifest);
        if let Err(error) = appended {
            // A crash may bring the edits back: the files are removed once it is certain that it does not.
            new.iter().for_each(|spilled| spilled.pin());
            self.reject_output(Output {
                value_files: metas().collect(),
                ..Output::default()
            });
            return Err(error);
        }
        Ok(())
    }

    /// Removes the files of spilled values that were taken back. What fails is tried again later; once the database is
    /// closed, the files stay for the next open to remove.
    pub(crate) fn tidy_spilled(&self) {
        // Held meanwhile, so that no later opening can have come to the names.
        let lock = self.lock.lock();
        if lock.is_some() && self.check_open().is_ok() {
            // Best effort, as said.
            let _ = self.sweep_files();
        }
    }
}
