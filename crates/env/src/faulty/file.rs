//! An open file of a world with faults.

use std::{any::Any, io, sync::Arc};

use super::rules::{Fault, Name, Operation, Rules};
use crate::{File, memory::MemoryFile};

#[derive(Debug)]
pub(super) struct FaultyFile {
    inner: Arc<dyn File>,
    name: String,
    rules: Arc<Rules>,
}

impl FaultyFile {
    pub(super) fn new(inner: Arc<dyn File>, name: &str, rules: Arc<Rules>) -> Self {
        Self {
            inner,
            name: name.to_owned(),
            rules,
        }
    }

    fn check(&self, operation: Operation) -> io::Result<Option<Fault>> {
        self.rules.check(operation, Name::Plain(&self.name))
    }

    /// Leaves the fate of the unsynced bytes open, also when the file lies below several layers of faults.
    fn abandon_unsynced(&self) {
        let inner: &dyn Any = self.inner.as_ref();
        if let Some(file) = inner.downcast_ref::<MemoryFile>() {
            file.abandon_unsynced();
        } else if let Some(file) = inner.downcast_ref::<Self>() {
            file.abandon_unsynced();
        }
    }
}

impl File for FaultyFile {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let judged = self.check(Operation::Read)?;
        let count = self.inner.read_at(target, offset)?;
        match judged.or(self.rules.read_fault(Name::Plain(&self.name))) {
            None => Ok(count),
            Some(Fault::ShortRead) => Ok(count / 2),
            Some(Fault::FlipBit(bit)) => {
                if count > 0 {
                    let bit = bit % (count as u64 * 8);
                    target[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                Ok(count)
            }
        }
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.check(Operation::Write) {
            // The error of the rule is the answer, whether or not the half could be written.
            let _ = self.inner.write_at(&source[..source.len() / 2], offset);
            return Err(error);
        }
        self.inner.write_at(source, offset)
    }

    fn prepare_window(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.check(Operation::Window)?;
        self.inner.prepare_window(offset, bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(Operation::Allocate)?;
        self.inner.allocate(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check(Operation::Allocate)?;
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.check(Operation::Length)?;
        self.inner.len()
    }

    fn sync(&self) -> io::Result<()> {
        if let Err(error) = self.check(Operation::Sync) {
            self.abandon_unsynced();
            return Err(error);
        }
        self.inner.sync()
    }

    fn begin_sync(&self, offset: u64, bytes: u64) {
        self.inner.begin_sync(offset, bytes);
    }
}
