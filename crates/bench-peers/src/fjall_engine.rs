//! fjall, for comparison: the same settings as far as it has them; everything else is its default.
//!
//! A batch is a write batch of the database. `full` syncs in every commit; `none` leaves bytes in the kernel.
//! Its journal is always written.

use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry},
};
use kingtide_bench::{BenchError, Codec, Engine, Result, Session, Settings, SyncChoice};

use crate::failed;

/// An open database and its keyspaces, of which there is at least one.
pub(crate) struct FjallEngine {
    db: Database,
    keyspaces: Vec<Keyspace>,
    persist: PersistMode,
}

impl FjallEngine {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        let failed = failed("fjall");
        let persist = match settings.sync {
            SyncChoice::None => PersistMode::Buffer,
            SyncChoice::Full => PersistMode::SyncAll,
            SyncChoice::Interval => {
                let text = "fjall has no sync by interval here; use none or full";
                return Err(BenchError::Settings(text.into()));
            }
        };
        let compression = match settings.codec {
            Codec::None => CompressionType::None,
            Codec::Lz4 => CompressionType::Lz4,
            Codec::Snappy | Codec::Zstd => {
                return Err(BenchError::Settings(
                    "fjall compresses with lz4 or not at all".into(),
                ));
            }
        };
        let db = Database::builder(&settings.directory)
            .cache_size(settings.cache_bytes as u64)
            .worker_threads(settings.background_jobs)
            .open()
            .map_err(|source| failed(&source))?;
        let filter = if settings.bloom_bits > 0.0 {
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(
                settings.bloom_bits as f32,
            ))
        } else {
            FilterPolicyEntry::None
        };
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable_bytes as u64)
                .data_block_compression_policy(CompressionPolicy::all(compression))
                .filter_policy(FilterPolicy::all(filter))
        };
        let mut keyspaces = Vec::new();
        for number in 0..settings.families {
            let name = format!("bench{number}");
            keyspaces.push(
                db.keyspace(&name, options)
                    .map_err(|source| failed(&source))?,
            );
        }
        Ok(Self {
            db,
            keyspaces,
            persist,
        })
    }
}

impl Engine for FjallEngine {
    fn version(&self) -> String {
        "fjall 3".into()
    }

    fn notes(&self) -> Vec<String> {
        vec!["fjall: defaults of the crate for every setting not named on the command line".into()]
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession(self)))
    }

    fn settle(&self) -> Result<()> {
        let failed = failed("fjall");
        for keyspace in &self.keyspaces {
            keyspace
                .rotate_memtable_and_wait()
                .map_err(|source| failed(&source))?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let failed = failed("fjall");
        self.db
            .persist(PersistMode::SyncAll)
            .map_err(|source| failed(&source))
    }
}

/// One thread's view.
struct FjallSession<'a>(&'a FjallEngine);

impl Session for FjallSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = self.0.db.batch().durability(Some(self.0.persist));
        for (key, value) in pairs {
            batch.insert(&self.0.keyspaces[0], *key, *value);
        }
        batch.commit().map_err(|source| failed("fjall")(&source))
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut batch = self.0.db.batch().durability(Some(self.0.persist));
        for key in keys {
            batch.remove(&self.0.keyspaces[0], *key);
        }
        batch.commit().map_err(|source| failed("fjall")(&source))
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut visited = 0;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for entry in self.0.keyspaces[0].range(from..).take(limit) {
            let (key, value) = entry
                .into_inner()
                .map_err(|source| failed("fjall")(&source))?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let mut batch = self.0.db.batch().durability(Some(self.0.persist));
        for (family, key, value) in writes {
            batch.insert(&self.0.keyspaces[*family], *key, *value);
        }
        batch.commit().map_err(|source| failed("fjall")(&source))
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.0.keyspaces[family]
            .get(key)
            .map_err(|source| failed("fjall")(&source))?;
        if let Some(bytes) = &found {
            value.extend_from_slice(bytes);
        }
        Ok(found.is_some())
    }
}
