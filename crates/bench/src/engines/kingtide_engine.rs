//! Kingtide, in process.

use std::time::Duration;

use kingtide::{
    ColumnFamily, Compression, Db, FamilyOptions, IterOptions, Options, SyncMode, Transaction,
};

use super::{Engine, Session};
use crate::{Codec, Result, Settings, SyncChoice};

const FAMILY: &str = "bench";

/// An open Kingtide database with one family.
pub(super) struct KingtideEngine {
    db: Db,
    family: ColumnFamily,
}

impl KingtideEngine {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let options = Options {
            flush_threads: 1,
            compaction_threads: settings.background_jobs.saturating_sub(1).max(1),
            block_cache_bytes: settings.cache_bytes,
            ..Options::default()
        };
        let db = Db::open(&settings.directory, options)?;
        let family = db.open_family(FAMILY, family_options(settings))?;
        Ok(Self { db, family })
    }
}

fn family_options(settings: &Settings) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: settings.memtable_bytes,
        compression: match settings.codec {
            Codec::None => Compression::None,
            Codec::Snappy => Compression::Snappy,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        },
        bloom_filter: settings.bloom_bits > 0.0,
        bloom_false_positive_rate: settings.false_positive_rate(),
        sync: match settings.sync {
            SyncChoice::None => SyncMode::None,
            SyncChoice::Interval => {
                SyncMode::Interval(Duration::from_millis(settings.sync_interval_millis))
            }
            SyncChoice::Full => SyncMode::Full,
        },
        ..FamilyOptions::default()
    }
}

impl Engine for KingtideEngine {
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(KingtideSession {
            db: &self.db,
            family: &self.family,
            transaction: None,
        }))
    }

    fn settle(&self) -> Result<()> {
        self.db.flush(&self.family)?;
        Ok(self.db.wait_idle()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// One thread's handle. The transaction is begun once and then reset, as the manual advises.
struct KingtideSession<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    transaction: Option<Transaction>,
}

impl KingtideSession<'_> {
    /// Takes the finished transaction of the batch before, begun again. It comes back only after a commit, so an
    /// error leaves no half-used transaction behind.
    fn begin(&mut self) -> Result<Transaction> {
        match self.transaction.take() {
            None => Ok(self.db.begin()?),
            Some(mut transaction) => {
                transaction.reset()?;
                Ok(transaction)
            }
        }
    }

    fn commit(&mut self, mut transaction: Transaction) -> Result<()> {
        transaction.commit()?;
        self.transaction = Some(transaction);
        Ok(())
    }
}

impl Session for KingtideSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        if let [(key, value)] = pairs {
            return Ok(self.db.put(self.family, key, value)?);
        }
        let mut transaction = self.begin()?;
        for (key, value) in pairs {
            transaction.put(self.family, key, value)?;
        }
        self.commit(transaction)
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.db.get(self.family, key)?;
        if let Some(bytes) = &found {
            value.extend_from_slice(bytes);
        }
        Ok(found.is_some())
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        if let [key] = keys {
            return Ok(self.db.delete(self.family, key)?);
        }
        let mut transaction = self.begin()?;
        for key in keys {
            transaction.delete(self.family, key)?;
        }
        self.commit(transaction)
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut iter = self.db.iter(self.family, IterOptions::default())?;
        let mut valid = if from.is_empty() {
            iter.seek_to_first()?
        } else {
            iter.seek(from)?
        };
        let mut key = Vec::new();
        let mut visited = 0;
        while valid && visited < limit {
            // The value borrows the iterator for writing, so the key is kept aside.
            key.clear();
            key.extend_from_slice(iter.key());
            visit(&key, iter.value()?);
            visited += 1;
            if visited < limit {
                valid = iter.next()?;
            }
        }
        Ok(visited)
    }
}
