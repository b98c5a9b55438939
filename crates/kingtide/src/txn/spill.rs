//! Long values: written to a file of their own when they are put, so that neither side holds more than a piece of one.
//!
//! The rules of such files are in [`crate::spill`]. Which values are spilled: those of [`Options::spill_bytes_min`] or more,
//! in families that separate values of that length anyway.
//!
//! [`Options::spill_bytes_min`]: crate::Options::spill_bytes_min

use std::{
    io::{ErrorKind as IoErrorKind, Read, Write},
    sync::Arc,
};

use kingtide_base::{EntryKind, StorageError, limits};
use kingtide_collections::Account;
use kingtide_format::Op;
use kingtide_table::SpilledValueWriter;

use super::{
    Transaction,
    reads::Remembered,
    view::Answer,
    writes::{OP_BYTES, check_key, too_long},
};
use crate::{
    engine::Engine,
    error::{Error, Result},
    family::{ColumnFamily, Family},
    output::codec_of,
    read::get::Found,
};

/// More than a pointer takes.
const POINTER_BYTES_MAX: usize = 32;

/// Values of so many bytes are spilled in `family`; `None`: none are.
fn spill_bytes_min(engine: &Engine, family: &Family) -> Option<usize> {
    let threshold = family.options().value_threshold_bytes;
    match (engine.options.spill_bytes_min, threshold) {
        (0, _) | (_, 0) => None,
        (bytes, threshold) => Some(bytes.max(threshold)),
    }
}

impl Transaction {
    /// True when a value of `bytes` put into `family` is spilled.
    pub(super) fn spills(&self, family: &ColumnFamily, bytes: usize) -> bool {
        spill_bytes_min(&self.engine, &family.family).is_some_and(|least| bytes >= least)
    }

    /// Sets `key` to what `source` yields to its end; how many bytes that is. A long value
    /// ([`Options::spill_bytes_min`](crate::Options::spill_bytes_min)) is never in memory as a whole: it goes to a file of
    /// its own, piece by piece, and the transaction holds a pointer to it. The file is synced when this returns; it is
    /// removed when the put is taken back. A shorter value is put as by [`Transaction::put`].
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    /// use std::io::Read;
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let films = db.open_family("films", FamilyOptions::default())?;
    /// let mut transaction = db.begin()?;
    /// let mut source = std::io::repeat(b'x').take(20 << 20);
    /// assert_eq!(transaction.put_from(&films, b"first", &mut source)?, 20 << 20);
    /// transaction.put(&films, b"newest", b"first")?;
    /// transaction.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`], `Io` when `source` fails, and `DiskFull` and `Io` when the file cannot be written; nothing
    /// was put then, and what was read of `source` stays read. `TooLarge` when it yields more than a value may have.
    pub fn put_from(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        source: &mut dyn Read,
    ) -> Result<u64> {
        self.put_from_expiring(family, key, source, 0)
    }

    /// As [`Transaction::put_from`], until `expires_at`, in seconds since 1970; 0 or less means for ever.
    ///
    /// # Errors
    /// As [`Transaction::put_from`].
    pub fn put_from_expiring(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        source: &mut dyn Read,
        expires_at: i64,
    ) -> Result<u64> {
        self.check_put(family, key)?;
        let least = spill_bytes_min(&self.engine, &family.family);
        // One byte more than any value may have tells that it is too long.
        let first_max = least.unwrap_or(limits::VALUE_BYTES_MAX + 1);
        let mut first = Vec::new();
        let mut limited = source.take(first_max as u64);
        limited.read_to_end(&mut first).map_err(source_failed)?;
        if least.is_none_or(|least| first.len() < least) {
            self.put_expiring(family, key, &first, expires_at)?;
            return Ok(first.len() as u64);
        }
        let budget = Arc::clone(&self.engine.files.budget);
        self.put_spilled(family, key, expires_at, &mut |writer| {
            append_all(writer, &std::mem::take(&mut first))?;
            let mut chunk = vec![0; SpilledValueWriter::CHUNK_BYTES];
            let _charge = budget.charge(Account::Buffers, chunk.len());
            loop {
                let bytes = fill(source, &mut chunk)?;
                if bytes == 0 {
                    return Ok(());
                }
                if writer.value_bytes() + bytes as u64 > limits::VALUE_BYTES_MAX as u64 {
                    return Err(too_long(writer.value_bytes() + bytes as u64));
                }
                writer.append(&chunk[..bytes])?;
            }
        })
    }

    /// Puts `value`, which is long, and not too long.
    ///
    /// # Errors
    /// As [`Transaction::put_from`].
    pub(super) fn put_long(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        expires_at: i64,
    ) -> Result<()> {
        self.check_put(family, key)?;
        self.put_spilled(family, key, expires_at, &mut |writer| {
            append_all(writer, value)
        })
        .map(|_| ())
    }

    fn check_put(&self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.check_active()?;
        self.engine.check_writable()?;
        self.engine.check_family(&family.family)?;
        check_key(key)?;
        let disk = &self.engine.pipeline.disk;
        disk.check_bytes(family.family.disk_free_bytes_min())
    }

    /// Puts the value that `write` appends to a new file.
    fn put_spilled(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        expires_at: i64,
        write: &mut dyn FnMut(&mut SpilledValueWriter) -> Result<()>,
    ) -> Result<u64> {
        self.make_room(key.len() + POINTER_BYTES_MAX + OP_BYTES)?;
        let (family, files) = (&family.family, &self.engine.files);
        family.hooks.check_outside()?;
        let codec = codec_of(family.options().compression);
        let spilled = files.spill(&family.order.identity(key), codec, write)?;
        let bytes = u64::from(spilled.pointer().value_bytes);
        let mut value = Vec::with_capacity(POINTER_BYTES_MAX);
        spilled.pointer().encode(&mut value);
        let op = Op {
            kind: EntryKind::PutSpilled,
            key,
            value: &value,
            expires_at: expires_at.max(0),
        };
        let pushed = self.writes.push_spilled(family, &op, spilled);
        if pushed.is_err() {
            self.engine.tidy_spilled();
        }
        pushed.map(|()| bytes)
    }

    /// Writes the value of `key`, as [`Transaction::get`] would answer it, to `sink`: how many bytes that is, or `None`
    /// when there is none, and nothing is written. Of a long value that was spilled when it was put, no more than a piece
    /// is in memory, and every piece is verified before it is written.
    ///
    /// # Errors
    /// As [`Transaction::get`], and `Io` when `sink` fails. What was written before stays written: it is a beginning of the
    /// value.
    pub fn get_to(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        sink: &mut dyn Write,
    ) -> Result<Option<u64>> {
        self.find(family, key, Remembered::ByLevel, |answer| {
            answer.write_to(sink)
        })
    }
}

impl Answer<'_> {
    /// Writes the value, if there is one, to `sink`, a long one piece by piece; its bytes.
    ///
    /// # Errors
    /// As [`Transaction::get_to`].
    pub(crate) fn write_to(self, sink: &mut dyn Write) -> Result<Option<u64>> {
        let (files, place) = (&self.engine.files, (self.key, self.order));
        let mut bytes = 0;
        let mut write = |piece: &[u8]| {
            bytes += piece.len() as u64;
            sink.write_all(piece).map_err(sink_failed)
        };
        match self.found {
            None => return Ok(None),
            Some(Found::Separated(pointer)) => files.stream_value(&pointer, place, &mut write)?,
            Some(found) => found.look(files, place, write)??,
        }
        Ok(Some(bytes))
    }
}

/// Fills `chunk` from `source`, less only at its end; how many bytes that is.
fn fill(source: &mut dyn Read, chunk: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match source.read(&mut chunk[filled..]) {
            Ok(0) => break,
            // A source that says that it read more than it was given room for has broken its contract.
            Ok(bytes) => filled = (filled + bytes).min(chunk.len()),
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => return Err(source_failed(error)),
        }
    }
    Ok(filled)
}

fn append_all(writer: &mut SpilledValueWriter, value: &[u8]) -> Result<()> {
    for chunk in value.chunks(SpilledValueWriter::CHUNK_BYTES) {
        writer.append(chunk)?;
    }
    Ok(())
}

fn source_failed(error: std::io::Error) -> Error {
    StorageError::io("the source of the value", "read", error).into()
}

fn sink_failed(error: std::io::Error) -> StorageError {
    StorageError::io("the sink of the value", "write", error)
}
