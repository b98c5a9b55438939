//! Which files are in use. A table is used by every family whose current version names it (clones share tables), and by
//! every reader that holds an older version; a value file is used by the tables that point to it, and by whoever holds the
//! spilled value in it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kingtide_base::FileId;
use kingtide_env::sync::Mutex;
use kingtide_format::TableMeta;

/// See the module.
#[derive(Default)]
pub(crate) struct LiveFiles {
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    /// How many families name a table now.
    families: HashMap<FileId, usize>,
    /// How many tables on disk point to a value file, and one for those who hold it as a spilled value.
    values: HashMap<FileId, usize>,
    /// Value files whose last use was as a spilled value.
    released: Vec<FileId>,
    /// Tables that no family names any more; readers may.
    obsolete: BTreeMap<FileId, Arc<TableMeta>>,
}

impl LiveFiles {
    /// A family names `table` from now on.
    pub(crate) fn add(&self, table: &TableMeta) {
        let mut state = self.state.lock();
        let families = state.families.entry(table.file).or_default();
        *families += 1;
        if *families == 1 {
            for used in &table.value_files {
                *state.values.entry(used.file).or_default() += 1;
            }
        }
    }

    /// A family no longer names `table`, and the durable manifest says so.
    pub(crate) fn remove(&self, table: &Arc<TableMeta>) {
        let mut state = self.state.lock();
        let Some(families) = state.families.get_mut(&table.file) else {
            return;
        };
        *families -= 1;
        if *families == 0 {
            state.families.remove(&table.file);
            state.obsolete.insert(table.file, Arc::clone(table));
        }
    }

    /// Takes out the obsolete tables that no version names: nobody can come to read them.
    pub(super) fn take_unread(&self) -> Vec<Arc<TableMeta>> {
        let mut state = self.state.lock();
        // The list's own reference is the last one; versions, the only other holders, can then no longer clone it.
        let unread: Vec<FileId> = state
            .obsolete
            .iter()
            .filter(|(_, meta)| Arc::strong_count(meta) == 1)
            .map(|(file, _)| *file)
            .collect();
        unread
            .iter()
            .filter_map(|file| state.obsolete.remove(file))
            .collect()
    }

    /// A removal failed: it will be tried again.
    pub(super) fn put_back(&self, meta: Arc<TableMeta>) {
        self.state.lock().obsolete.insert(meta.file, meta);
    }

    /// The table `meta` is gone from the disk; answers the value files that no table points to since.
    pub(super) fn release_values(&self, meta: &TableMeta) -> Vec<FileId> {
        let mut state = self.state.lock();
        let mut dead = Vec::new();
        for used in &meta.value_files {
            if let Some(tables) = state.values.get_mut(&used.file) {
                *tables -= 1;
                if *tables == 0 {
                    state.values.remove(&used.file);
                    dead.push(used.file);
                }
            }
        }
        dead
    }

    /// Somebody holds the value file from now on, as a spilled value.
    pub(crate) fn hold(&self, file: FileId) {
        *self.state.lock().values.entry(file).or_default() += 1;
    }

    /// Nobody holds the spilled value any more.
    pub(super) fn release_held(&self, file: FileId) {
        let mut state = self.state.lock();
        let Some(uses) = state.values.get_mut(&file) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            state.values.remove(&file);
            state.released.push(file);
        }
    }

    /// Takes out the value files that were last used as spilled values.
    pub(super) fn take_released(&self) -> Vec<FileId> {
        std::mem::take(&mut self.state.lock().released)
    }

    /// True when some table on disk points to the value file.
    pub(crate) fn uses_values(&self, file: FileId) -> bool {
        self.state.lock().values.contains_key(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kingtide_base::SeqNo;
    use kingtide_format::ValueFileUse;

    fn table(file: u64, values: &[u64]) -> Arc<TableMeta> {
        let use_of = |file: &u64| ValueFileUse {
            file: FileId(*file),
            records: 1,
            bytes: 1,
        };
        Arc::new(TableMeta {
            file: FileId(file),
            file_bytes: 1,
            footer_checksum: 0,
            smallest: vec![0],
            largest: vec![1],
            sequence_min: SeqNo(1),
            sequence_max: SeqNo(1),
            sequence_base: SeqNo::ZERO,
            entries: 1,
            tombstones: 0,
            oldest_tombstone: kingtide_format::OldestTombstone::default(),
            range_deletes: 0,
            is_largest_excluded: false,
            raw_bytes: 1,
            value_files: values.iter().map(use_of).collect(),
        })
    }

    #[test]
    fn a_shared_table_dies_with_its_last_family_and_its_last_reader() {
        let live = LiveFiles::default();
        let shared = table(1, &[7]);
        live.add(&shared);
        live.add(&shared);
        live.remove(&shared);
        assert!(
            live.state.lock().obsolete.is_empty(),
            "a clone still names it"
        );
        live.remove(&shared);
        assert!(live.take_unread().is_empty(), "a reader still holds it");
        drop(shared);
        let unread = live.take_unread();
        assert_eq!(unread.len(), 1);
        assert!(live.uses_values(FileId(7)));
        assert_eq!(live.release_values(&unread[0]), [FileId(7)]);
        assert!(!live.uses_values(FileId(7)));
    }

    #[test]
    fn a_value_file_dies_with_the_last_table_that_points_to_it() {
        let live = LiveFiles::default();
        let (first, second) = (table(1, &[7, 8]), table(2, &[7]));
        live.add(&first);
        live.add(&second);
        assert_eq!(live.release_values(&first), [FileId(8)]);
        assert_eq!(live.release_values(&second), [FileId(7)]);
    }
}
