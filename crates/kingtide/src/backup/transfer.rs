//! Files from the database to the copy: by a second name, or byte by byte. A copied file is read back and verified, so
//! that a copy that succeeded is whole, and damage of the source is found now and not when the copy is needed. A file
//! with two names is one file; the source verifies it.

use std::{collections::BTreeMap, io, sync::Arc};

use kingtide_base::{FileId, StorageError, StorageResult};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::ValueFileMeta;
use kingtide_table::{klog_name, vlog_name};

use super::{BackupReport, Listed, Method, verify_unsorted};
use crate::{engine::Engine, error::Result, files::Files};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Transfer<'a> {
    engine: &'a Engine,
    target: &'a Files,
    method: Method,
    progress: Progress<'a>,
    buffer: Vec<u8>,
    linked: u64,
    copied: u64,
    bytes: u64,
}

/// Tells the caller how far the work is. A copied file counts half when it is copied, and whole when it is verified.
struct Progress<'a> {
    tell: &'a mut dyn FnMut(u64, u64),
    /// Bytes of files that are done.
    done: u64,
    total: u64,
}

impl Progress<'_> {
    fn within(&mut self, bytes: u64) {
        (self.tell)(self.done + bytes, self.total);
    }

    fn finish_file(&mut self, bytes: u64) {
        self.done += bytes;
        (self.tell)(self.done, self.total);
    }
}

impl<'a> Transfer<'a> {
    /// Into the directories of `target`; `bytes` is the length of everything that will be transferred.
    pub(super) fn new(
        engine: &'a Engine,
        target: &'a Files,
        method: Method,
        (bytes, tell): (u64, &'a mut dyn FnMut(u64, u64)),
    ) -> Self {
        Self {
            engine,
            target,
            method,
            progress: Progress {
                tell,
                done: 0,
                total: bytes,
            },
            buffer: Vec::new(),
            linked: 0,
            copied: 0,
            bytes: 0,
        }
    }

    /// Transfers tables.
    ///
    /// # Errors
    /// `Corruption` when a file is not what the manifest says, `Closed`, and what the system answers.
    pub(super) fn tables(&mut self, tables: &BTreeMap<FileId, Listed>) -> Result<()> {
        let (source, target) = (&self.engine.files.klog, &self.target.klog);
        for (id, listed) in tables {
            let meta = &listed.meta;
            let place = Place {
                folder: "klog",
                name: klog_name(*id),
                bytes: meta.file_bytes,
            };
            if self.file((source, target), &place)? {
                let half = place.bytes / 2;
                if listed.is_sorted {
                    let table = self.target.tables.get(meta, &listed.order)?;
                    table.verify(&mut |done| self.progress.within(half + done / 2))?;
                } else {
                    verify_unsorted(target.as_ref(), meta, listed.order.name())?;
                }
            }
            self.progress.finish_file(place.bytes);
        }
        Ok(())
    }

    /// Transfers value files.
    ///
    /// # Errors
    /// As [`Transfer::tables`].
    pub(super) fn values(&mut self, values: &BTreeMap<FileId, ValueFileMeta>) -> Result<()> {
        let (source, target) = (&self.engine.files.vlog, &self.target.vlog);
        for (id, meta) in values {
            let place = Place {
                folder: "vlog",
                name: vlog_name(*id),
                bytes: meta.file_bytes,
            };
            if self.file((source, target), &place)? {
                let half = place.bytes / 2;
                let mut tell = |done| self.progress.within(half + done / 2);
                self.target.values.verify_file(meta, &mut tell)?;
            }
            self.progress.finish_file(place.bytes);
        }
        Ok(())
    }

    /// Adds what was done to the report.
    pub(super) fn add_to(&self, report: &mut BackupReport) {
        report.files_linked += self.linked;
        report.files_copied += self.copied;
        report.bytes += self.bytes;
    }

    /// Transfers one file; true when it was copied.
    fn file(
        &mut self,
        (source, target): (&Arc<dyn Directory>, &Arc<dyn Directory>),
        place: &Place,
    ) -> Result<bool> {
        self.engine.check_open()?;
        self.bytes += place.bytes;
        if self.method == Method::Link && place.link(source.as_ref(), target.as_ref())? {
            self.linked += 1;
            return Ok(false);
        }
        self.copy(source.as_ref(), target.as_ref(), place)?;
        self.copied += 1;
        Ok(true)
    }

    fn copy(
        &mut self,
        source: &dyn Directory,
        target: &dyn Directory,
        place: &Place,
    ) -> Result<()> {
        let from = source
            .open(&place.name, OpenMode::Read)
            .map_err(|error| place.error("open", error))?;
        let to = target
            .open(&place.name, OpenMode::CreateNew)
            .map_err(|error| place.target_error(target, "create", error))?;
        self.buffer.resize(CHUNK_BYTES, 0);
        let mut done = 0;
        loop {
            self.engine.check_open()?;
            let count = from
                .read_at(&mut self.buffer, done)
                .map_err(|error| place.error("read", error))?;
            if count == 0 {
                break;
            }
            to.write_at(&self.buffer[..count], done)
                .map_err(|error| place.target_error(target, "write", error))?;
            done += count as u64;
            self.progress.within(done.min(place.bytes) / 2);
        }
        place.check_length(done)?;
        to.sync()
            .map_err(|error| place.target_error(target, "sync", error))?;
        Ok(())
    }
}

/// A file to transfer, in either directory.
struct Place {
    folder: &'static str,
    name: String,
    bytes: u64,
}

impl Place {
    /// Gives the file its second name; false where that cannot be done and copying can.
    fn link(&self, source: &dyn Directory, target: &dyn Directory) -> StorageResult<bool> {
        match source.link(&self.name, target, &self.name) {
            Ok(()) => Ok(true),
            Err(error) if is_unlinkable(error.kind()) => Ok(false),
            Err(error) => Err(self.target_error(target, "link", error)),
        }
    }

    fn check_length(&self, found: u64) -> StorageResult<()> {
        if found == self.bytes {
            return Ok(());
        }
        let what = "the file does not have the length that the manifest records";
        Err(StorageError::checksum(
            self.path(),
            found,
            what,
            self.bytes,
            found,
        ))
    }

    fn error(&self, operation: &'static str, source: io::Error) -> StorageError {
        StorageError::io(self.path(), operation, source)
    }

    fn target_error(
        &self,
        target: &dyn Directory,
        operation: &'static str,
        source: io::Error,
    ) -> StorageError {
        let path = target.path().join(&self.name);
        StorageError::io(path.display().to_string(), operation, source)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }
}

/// Another device, a file system without links, a file that is not ours to link, too many names already.
fn is_unlinkable(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::CrossesDevices
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::TooManyLinks
            | io::ErrorKind::Unsupported
    )
}
