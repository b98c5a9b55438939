//! Kingtide, in process.

use std::{env, fs::File, hash::Hasher, io, time::Duration};

use kingtide::{
    ColumnFamily, Compression, Db, FamilyOptions, Iter, IterOptions, Options, SyncMode, Transaction,
};

use twox_hash::XxHash3_64;

use super::{Engine, Session};
use crate::{Codec, Result, Settings, SyncChoice};

/// The name of the first family; others have their number behind it.
const FAMILY: &str = "bench";

/// An open Kingtide database and its families, of which there is at least one.
pub(super) struct KingtideEngine {
    db: Db,
    families: Vec<ColumnFamily>,
}

impl KingtideEngine {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let options = Options {
            flush_threads: 1,
            compaction_threads: settings.merging_threads(),
            block_cache_bytes: settings.cache_bytes,
            trace: settings.trace.clone(),
            ..Options::default()
        };
        let db = Db::open(&settings.directory, options)?;
        let mut families = vec![db.open_family(FAMILY, family_options(settings))?];
        for number in 1..settings.families {
            let name = format!("{FAMILY}{number}");
            families.push(db.open_family(&name, family_options(settings))?);
        }
        Ok(Self { db, families })
    }
}

/// A number that tells this program from others of the same release: from its own bytes.
fn build() -> io::Result<u32> {
    struct Hash(XxHash3_64);
    impl io::Write for Hash {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hash = Hash(XxHash3_64::with_seed(0));
    io::copy(&mut File::open(env::current_exe()?)?, &mut hash)?;
    Ok((hash.0.finish() >> 32) as u32)
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
        block_index: settings.block_index,
        sync: match settings.sync {
            SyncChoice::None => SyncMode::None,
            SyncChoice::Interval => {
                SyncMode::Interval(Duration::from_millis(settings.sync_interval_millis))
            }
            SyncChoice::Full => SyncMode::Full,
        },
        // Other engines use what there is, and this database is thrown away.
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

impl Engine for KingtideEngine {
    fn version(&self) -> String {
        let release = env!("CARGO_PKG_VERSION");
        match build() {
            Ok(build) => format!("{release}, build {build:08x}"),
            Err(_) => release.to_owned(),
        }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(KingtideSession {
            db: &self.db,
            family: &self.families[0],
            families: &self.families,
            transaction: None,
            iter: None,
        }))
    }

    fn settle(&self) -> Result<()> {
        for family in &self.families {
            self.db.flush(family)?;
        }
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
    families: &'a [ColumnFamily],
    transaction: Option<Transaction>,
    /// Of the seeks.
    iter: Option<Iter>,
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
        get(self.db, self.family, key, value)
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
        walk(&mut iter, from, limit, visit)
    }

    fn seek(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let iter = match &mut self.iter {
            Some(iter) => iter,
            empty => empty.insert(self.db.iter(self.family, IterOptions::default())?),
        };
        walk(iter, from, limit, visit)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let mut transaction = self.begin()?;
        for (family, key, value) in writes {
            transaction.put(&self.families[*family], key, value)?;
        }
        self.commit(transaction)
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        get(self.db, &self.families[family], key, value)
    }
}

fn get(db: &Db, family: &ColumnFamily, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    Ok(db.get_into(family, key, value)?)
}

/// Visits at most `limit` entries from the first key at or behind `from`; answers how many.
fn walk(
    iter: &mut Iter,
    from: &[u8],
    limit: u64,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<u64> {
    let mut valid = if from.is_empty() {
        iter.seek_to_first()?
    } else {
        iter.seek(from)?
    };
    let mut visited = 0;
    while valid && visited < limit {
        let (key, value) = iter.entry()?;
        visit(key, value);
        visited += 1;
        if visited < limit {
            valid = iter.next()?;
        }
    }
    Ok(visited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;

    #[test]
    fn writes_go_on_as_long_as_there_is_room() {
        let options = family_options(&Settings::new(EngineKind::Kingtide, "db".into()));
        assert_eq!(options.disk_free_bytes_min, 0);
    }

    #[test]
    fn a_program_has_one_build() {
        let first = build().expect("it reads itself");
        assert_eq!(build().expect("it reads itself"), first);
        assert_ne!(first, 0);
    }
}
