//! Writing spilled values, and taking their files back.

use std::sync::Arc;

use kingtide_base::{
    FileId, KeyOrder, StorageError, StorageResult, ValuePointer,
    planted::{self, Bug},
};
use kingtide_format::{CodecId, ValueFileMeta};
use kingtide_table::SpilledValueWriter;

use super::{Files, NewFile};
use crate::{
    error::Result,
    spill::{SpillOwner, Spilled},
};

impl Files {
    /// Writes a value of `key`, a key as its order identifies it, to a file of its own: `write` appends the chunks. The file is whole and
    /// synced then; nothing knows of it yet.
    ///
    /// # Errors
    /// What `write` and the system answer; nothing is left behind then.
    pub(crate) fn spill(
        self: &Arc<Self>,
        key: &[u8],
        codec: CodecId,
        write: &mut dyn FnMut(&mut SpilledValueWriter) -> Result<()>,
    ) -> Result<Arc<Spilled>> {
        let id = self.take_id();
        let file = self.create_vlog(id)?;
        let mut writer = SpilledValueWriter::new(file, (id, codec), key, &self.budget);
        let written = match write(&mut writer) {
            Ok(()) => writer.finish().map_err(Into::into),
            Err(error) => {
                drop(writer);
                Err(error)
            }
        };
        match written {
            Ok(written) => {
                self.values.expect(&written.0);
                let owner: Arc<dyn SpillOwner> = self.clone();
                Ok(Arc::new(Spilled::written(written, owner)))
            }
            Err(error) => {
                self.remove_new(NewFile::Vlog(id));
                Err(error)
            }
        }
    }

    /// A spilled value that the log points to and the manifest names, from an earlier opening. Counts as held.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        meta: ValueFileMeta,
        pointer: ValuePointer,
    ) -> Arc<Spilled> {
        self.live.hold(pointer.file);
        let owner: Arc<dyn SpillOwner> = self.clone();
        let spilled = Spilled::written((meta, pointer), owner);
        spilled.set_listed();
        spilled.pin();
        Arc::new(spilled)
    }

    /// Makes the names of new value files durable.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn sync_value_names(&self) -> StorageResult<()> {
        if planted::is(Bug::DirectoryNotSynced) {
            return Ok(());
        }
        self.vlog
            .sync()
            .map_err(|error| StorageError::io("vlog", "sync", error))
    }

    /// Hands the separated value of `key` to `sink`, piece by piece.
    ///
    /// # Errors
    /// As [`Files::read_value_into`], and what `sink` answers.
    pub(crate) fn stream_value(
        &self,
        pointer: &ValuePointer,
        (key, order): (&[u8], &KeyOrder),
        sink: &mut dyn FnMut(&[u8]) -> StorageResult<()>,
    ) -> StorageResult<()> {
        self.values.stream(pointer, &order.identity(key), sink)
    }
}

impl SpillOwner for Files {
    fn discard(&self, file: FileId) {
        self.leftovers.lock().push(NewFile::Vlog(file));
    }

    fn release(&self, file: FileId) {
        self.live.release_held(file);
    }

    fn read(&self, pointer: &ValuePointer, key: &[u8]) -> StorageResult<Vec<u8>> {
        self.values.read(pointer, key)
    }
}
