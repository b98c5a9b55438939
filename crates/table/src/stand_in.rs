//! Stands in for the block cache and the filter.

use std::collections::HashMap;
use std::sync::Arc;

use kingtide_base::FileId;
use kingtide_env::sync::Mutex;

/// A cache.
#[derive(Debug)]
pub struct BlockCache<V>(usize, Mutex<HashMap<(FileId, u64), Arc<V>>>);

impl<V> BlockCache<V> {
    /// New.
    pub fn new(bytes: usize) -> Self {
        Self(bytes, Mutex::new(HashMap::new()))
    }
    /// Get.
    pub fn get(&self, key: &(FileId, u64)) -> Option<Arc<V>> {
        self.1.lock().get(key).cloned()
    }
    /// Insert.
    pub fn insert(&self, key: (FileId, u64), value: Arc<V>, _charge: usize) -> Arc<V> {
        if self.0 > 0 {
            self.1.lock().insert(key, Arc::clone(&value));
        }
        value
    }
}

/// A filter.
#[derive(Debug)]
pub struct FilterBuilder(Vec<u8>);
impl FilterBuilder {
    /// New.
    pub fn new(_fpr: f64) -> Self {
        Self(Vec::new())
    }
    /// Add.
    pub fn add_hash(&mut self, hash: u64) {
        self.0.extend_from_slice(&hash.to_le_bytes());
    }
    /// Finish.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// A filter.
#[derive(Debug)]
pub struct Filter(std::collections::HashSet<u64>);
impl Filter {
    /// New.
    pub fn new(bytes: Vec<u8>) -> Result<Self, ()> {
        Ok(Self(
            bytes
                .chunks_exact(8)
                .map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()))
                .collect(),
        ))
    }
    /// May contain.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.0.contains(&hash)
    }
}
