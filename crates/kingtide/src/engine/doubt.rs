//! Outputs that could not be installed.
//!
//! When the manifest cannot be appended to, nobody knows how much of the batch reached its file: a crash may bring the
//! batch back, with the tables that it names. So these are kept until the manifest has gone on in a new file, which holds
//! the state without that batch. That is tried at once, and again before every flush and merge: while it fails, no more
//! tables are written that could not be installed either. After a failed sync of the manifest nothing is certain before
//! the next open, which keeps what is named and removes the rest.

use kingtide_base::FileId;
use kingtide_env::sync::Mutex;

use super::{Engine, ManifestSlot};
use crate::{
    error::Result,
    manifest::ManifestState,
    output::{Output, discard_output},
};

/// See the module.
#[derive(Default)]
pub(crate) struct Doubts {
    outputs: Mutex<Vec<Output>>,
    /// Value files that no table points to, which the manifest still names.
    dead_values: Mutex<Vec<FileId>>,
}

impl Doubts {
    /// Value files that could not be taken out of the manifest before, and `more`.
    pub(super) fn take_dead_values(&self, more: Vec<FileId>) -> Vec<FileId> {
        let mut dead = std::mem::take(&mut *self.dead_values.lock());
        dead.extend(more);
        dead
    }

    /// Value files that could not be taken out of the manifest: to be tried again.
    pub(super) fn keep_dead_values(&self, dead: Vec<FileId>) {
        self.dead_values.lock().extend(dead);
    }
}

impl Engine {
    /// `output` was not installed. Its files are removed as soon as it is certain that no crash brings it back.
    pub(crate) fn reject_output(&self, output: Output) {
        self.doubts.outputs.lock().push(output);
        // Tried again before the next flush or merge.
        let _ = self.settle_doubts();
    }

    /// Removes the files of outputs that were rejected.
    ///
    /// # Errors
    /// What the manifest answers; the files stay, and nothing can be installed now.
    pub(crate) fn settle_doubts(&self) -> Result<()> {
        if self.doubts.outputs.lock().is_empty() {
            return Ok(());
        }
        let outputs = {
            let mut manifest = self.manifest.lock();
            if let ManifestSlot::Writer(manifest) = &mut *manifest {
                manifest.settle()?;
            }
            // Whatever is listed by now was refused before the manifest was settled.
            let mut outputs = std::mem::take(&mut *self.doubts.outputs.lock());
            outputs.retain(|output| !is_named(manifest.state(), output));
            outputs
        };
        for output in &outputs {
            discard_output(&self.files, output);
        }
        Ok(())
    }
}

/// True when the durable state names a file of `output`: then it was installed after all, and must stay.
fn is_named(state: &ManifestState, output: &Output) -> bool {
    let tables = output.tables.iter().map(|table| table.file);
    let values = output.value_files.iter().map(|file| file.file);
    tables.chain(values).any(|file| state.is_file_used(file))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
