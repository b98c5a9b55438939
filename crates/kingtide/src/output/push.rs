//! The writer as a bulk load uses it: entries are handed over one by one, nothing is filtered.

use kingtide_base::{EntryRef, StorageResult};

use super::{Output, TableWriter};

impl TableWriter<'_> {
    /// Adds an entry behind the one before. Keys ascend in the family's order. After an error only
    /// [`TableWriter::abandon`] makes sense.
    ///
    /// # Errors
    /// What writing answers.
    pub(crate) fn push(&mut self, entry: EntryRef<'_>) -> StorageResult<()> {
        self.start_key(entry.key, entry.sequence)?;
        self.add(entry)
    }

    /// Makes everything durable: the files, then their names.
    ///
    /// # Errors
    /// What writing answers; nothing is left behind then.
    pub(crate) fn complete(mut self) -> StorageResult<Output> {
        match self.close_all() {
            Ok(()) => Ok(self.output),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// Removes what was written.
    pub(crate) fn abandon(mut self) {
        self.give_up();
    }

    fn close_all(&mut self) -> StorageResult<()> {
        self.close_files()?;
        if !self.output.tables.is_empty() {
            self.files
                .sync_directories(!self.output.value_files.is_empty())?;
        }
        Ok(())
    }
}
