//! Engines behind one small trait. An engine is told the same [`Settings`] as every other.

mod c_abi;
mod c_abi_api;
mod c_abi_source;
mod kingtide_engine;
mod lmdb;
mod lmdb_api;
mod peer_library;
mod rocksdb;
mod rocksdb_api;
mod syncer;

pub use c_abi_source::{FamilySettings, ForeignDatabase, ForeignEntry};

use crate::{BenchError, EngineKind, Result, Settings};

/// An open database. Shared by the threads of a run; each calls it through a session of its own.
pub trait Engine: Send + Sync {
    /// The version, or the file the engine was loaded from.
    fn version(&self) -> String;

    /// What a reader of the numbers should know about how the settings were mapped.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What one thread works with.
    ///
    /// # Errors
    /// What the engine answers.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Flushes the memtable and waits until no background work is left.
    ///
    /// # Errors
    /// What the engine answers.
    fn settle(&self) -> Result<()>;

    /// Closes the database.
    ///
    /// # Errors
    /// What the engine answers.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The calls of one thread. Buffers that an engine needs live here and are reused.
///
/// All calls but the last two are on the first family.
pub trait Session {
    /// Writes all pairs in one atomic batch.
    ///
    /// # Errors
    /// What the engine answers.
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()>;

    /// Copies the value of `key` over `value` and answers whether there is one.
    ///
    /// # Errors
    /// What the engine answers.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Deletes all keys in one atomic batch.
    ///
    /// # Errors
    /// What the engine answers.
    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()>;

    /// Visits at most `limit` entries from the first key >= `from` upwards and answers how many.
    ///
    /// # Errors
    /// What the engine answers.
    fn scan(&mut self, from: &[u8], limit: u64, visit: &mut dyn FnMut(&[u8], &[u8]))
    -> Result<u64>;

    /// As [`Session::scan`] through an iterator that the session keeps, where the engine has such: it may show the
    /// database as of the first call.
    ///
    /// # Errors
    /// What the engine answers.
    fn seek(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.scan(from, limit, visit)
    }

    /// Writes keys and values into families, given by number from 0, in one atomic batch.
    ///
    /// # Errors
    /// What the engine answers.
    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()>;

    /// As [`Session::get`], in the family of this number.
    ///
    /// # Errors
    /// What the engine answers.
    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
}

/// Opens the engine that `settings` name.
///
/// # Errors
/// [`BenchError::Missing`] when it is not on this machine, and what the engine answers.
pub fn open(settings: &Settings) -> Result<Box<dyn Engine>> {
    match settings.engine {
        EngineKind::Kingtide => Ok(Box::new(kingtide_engine::KingtideEngine::open(settings)?)),
        EngineKind::CAbi => Ok(Box::new(c_abi::CAbiEngine::open(settings)?)),
        EngineKind::Lmdb => Ok(Box::new(lmdb::LmdbEngine::open(settings)?)),
        EngineKind::RocksDb => Ok(Box::new(rocksdb::RocksDbEngine::open(settings)?)),
        EngineKind::Fjall | EngineKind::Redb | EngineKind::TidesDb => {
            Err(BenchError::Missing(format!(
                "{} is not in this program; kingtide-bench-peers runs it",
                settings.engine.name()
            )))
        }
    }
}
