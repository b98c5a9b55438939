//! Appends to a new file through a buffer, so that blocks of a few hundred bytes do not each cost a system call.

use std::sync::Arc;

use kingtide_base::{
    StorageError, StorageResult,
    planted::{self, Bug},
};
use kingtide_collections::{Account, Charge, MemoryBudget};
use kingtide_env::File;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// So many bytes of the buffer's memory are kept from one long value to the next.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// What is written at once of what does not go through the buffer, in bytes.
const WRITE_BYTES_MAX: usize = 8 << 20;
/// So many bytes are collected by the system before it is asked to begin writing them to the device.
const BEGIN_BYTES: u64 = 1 << 20;
/// The budget is told of changes in steps of so many bytes.
const CHARGE_STEP_BYTES: usize = 32 << 10;

/// The end of a file being written.
#[derive(Debug)]
pub struct Output {
    file: Arc<dyn File>,
    name: String,
    written: u64,
    /// What is on its way to the device.
    begun: u64,
    buffer: Vec<u8>,
    charge: Option<Charge>,
}

impl Output {
    /// Begins at offset 0 of `file`, which must be empty; `name` is for messages.
    pub fn new(file: Arc<dyn File>, name: String) -> Self {
        Self {
            file,
            name,
            written: 0,
            begun: 0,
            buffer: Vec::new(),
            charge: None,
        }
    }

    /// Counts the buffer, and what [`Output::account`] is told of besides, in `budget`.
    pub fn set_budget(&mut self, budget: &Arc<MemoryBudget>) {
        self.charge = Some(budget.charge(Account::Buffers, self.buffer.capacity()));
    }

    /// The one who writes the file holds `besides` bytes more than the buffer.
    pub fn account(&mut self, besides: usize) {
        if let Some(charge) = &mut self.charge {
            charge.follow(self.buffer.capacity() + besides, CHARGE_STEP_BYTES);
        }
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The file's name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The buffer, to be appended to only. Call [`Output::flush_if_full`] now and then.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out when there is enough in it.
    pub fn flush_if_full(&mut self) -> StorageResult<()> {
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the buffer out.
    pub fn flush(&mut self) -> StorageResult<()> {
        self.file
            .write_at(&self.buffer, self.written)
            .map_err(|error| StorageError::io(&self.name, "write", error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        // One huge value must not keep its size in memory for the rest of the file.
        self.buffer.shrink_to(KEPT_BYTES_MAX);
        self.begin_sync(BEGIN_BYTES);
        Ok(())
    }

    /// Has the system begin to write to the device what it has, if that is at least `bytes_min`.
    fn begin_sync(&mut self, bytes_min: u64) {
        let bytes = self.written - self.begun;
        if bytes >= bytes_min {
            self.file.begin_sync(self.begun, bytes);
            self.begun = self.written;
        }
    }

    /// Writes the buffer out, and `bytes` behind it without a copy.
    pub fn write_through(&mut self, bytes: &[u8]) -> StorageResult<()> {
        self.flush()?;
        for part in bytes.chunks(WRITE_BYTES_MAX) {
            self.file
                .write_at(part, self.written)
                .map_err(|error| StorageError::io(&self.name, "write", error))?;
            self.written += part.len() as u64;
            self.begin_sync(BEGIN_BYTES);
        }
        Ok(())
    }

    /// Writes `bytes` over what was written at `offset`, which the buffer holds no more.
    pub fn overwrite(&mut self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        debug_assert!(offset + bytes.len() as u64 <= self.written);
        self.file
            .write_at(bytes, offset)
            .map_err(|error| StorageError::io(&self.name, "write", error))
    }

    /// Writes the buffer out and makes the file durable; its length in bytes.
    pub fn sync(&mut self) -> StorageResult<u64> {
        self.flush()?;
        sync(&*self.file, &self.name)?;
        Ok(self.written)
    }

    /// Writes the buffer out; answers the length of the file in bytes, and the file, which is to be synced.
    pub fn end(mut self) -> StorageResult<(u64, Unsynced)> {
        self.flush()?;
        self.begin_sync(1);
        let Self { file, name, .. } = self;
        Ok((self.written, Unsynced { file, name }))
    }
}

/// A file that is written as a whole, on its way to the device, and not durable yet.
#[derive(Debug)]
#[must_use = "a file must be durable before anything relies on it"]
pub struct Unsynced {
    file: Arc<dyn File>,
    name: String,
}

impl Unsynced {
    /// Makes the file durable. The caller syncs the directory.
    ///
    /// # Errors
    /// When syncing fails; the file is then unusable.
    pub fn sync(self) -> StorageResult<()> {
        sync(&*self.file, &self.name)
    }
}

fn sync(file: &dyn File, name: &str) -> StorageResult<()> {
    if planted::is(Bug::TableNotSynced) {
        return Ok(());
    }
    file.sync()
        .map_err(|error| StorageError::io(name, "sync", error))
}
