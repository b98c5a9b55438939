//! What all edits of a manifest amount to: families with their tables, value files, counters, and where the log begins.
//!
//! Edits are checked against the state they meet: a family or table twice, one that is missing, a value file removed
//! while tables point to it, a log start that goes back. Counters and marks take the maximum, so that their order in
//! and between batches does not matter. Whether the tables of a level are disjoint is judged by
//! [`Version`](crate::version::Version), which knows the order of the keys; here it is not known.
//!
//! A clone shares everything with its original until one of them changes, so that an append can try its batch on a
//! copy before a byte is written.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kingtide_base::{
    DatabaseId, FamilyId, FileId, Lsn, SegmentId, SeqNo,
    limits::{FAMILIES_MAX, FAMILY_NAME_BYTES_MAX, LEVELS_MAX},
};
use kingtide_format::{Edit, TableMeta, ValueFileMeta};

/// The state of a database, as far as the manifest knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    families: BTreeMap<FamilyId, Arc<FamilyState>>,
    /// The family of each name.
    names: Arc<BTreeMap<String, FamilyId>>,
    value_files: Arc<BTreeMap<FileId, ValueFileState>>,
    next_file_id: FileId,
    next_family_id: FamilyId,
    log_start: LogStart,
    log_durable: Lsn,
    identity: Option<DatabaseId>,
}

/// A family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FamilyState {
    /// Its name.
    pub(crate) name: String,
    /// Its settings, as names and values.
    pub(crate) options: Vec<(String, String)>,
    /// All its commits up to this one are in its tables.
    pub(crate) flushed_through: SeqNo,
    /// Its tables, each with its level.
    pub(crate) tables: BTreeMap<FileId, (u8, Arc<TableMeta>)>,
}

/// A value file and what tables of all families use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileState {
    /// The file.
    pub(crate) meta: ValueFileMeta,
    /// Tables that point to it.
    pub(crate) tables: u64,
    /// Records that tables point to.
    pub(crate) live_records: u64,
    /// Their length in the file, headers included, in bytes.
    pub(crate) live_bytes: u64,
}

/// Where replay of the log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogStart {
    /// The first life that counts; segments below are dead.
    pub(crate) segment: SegmentId,
    /// Commits up to this one need no replay.
    pub(crate) sequence: SeqNo,
    /// The position of the first frame that counts.
    pub(crate) position: Lsn,
}

/// Why an edit does not fit the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateFault {
    /// There is no such family.
    FamilyMissing(FamilyId),
    /// The id of a new family is or was in use.
    FamilyPresent(FamilyId),
    /// More than [`FAMILIES_MAX`] families.
    FamiliesMax,
    /// The name is in use, empty or too long.
    Name(String),
    /// There is no such level.
    Level(u8),
    /// The table is not on that level of the family.
    TableMissing { family: FamilyId, file: FileId },
    /// The family has the table already.
    TablePresent { family: FamilyId, file: FileId },
    /// There is no such value file.
    ValueFileMissing(FileId),
    /// The value file is there already.
    ValueFilePresent(FileId),
    /// Tables still point to the value file.
    ValueFileUsed(FileId),
    /// The start of the log goes back.
    LogStartBack(SegmentId),
    /// The database is another one already.
    IdentityPresent(DatabaseId),
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FamilyMissing(id) => write!(f, "there is no family {id}"),
            Self::FamilyPresent(id) => write!(f, "family {id} is there already"),
            Self::FamiliesMax => write!(f, "more than {FAMILIES_MAX} families"),
            Self::Name(name) => write!(f, "the family name {name:?} is in use or no name"),
            Self::Level(level) => write!(f, "there is no level {level}"),
            Self::TableMissing { family, file } => {
                write!(f, "table {file} is not on that level of family {family}")
            }
            Self::TablePresent { family, file } => {
                write!(f, "table {file} is in family {family} already")
            }
            Self::ValueFileMissing(file) => write!(f, "there is no value file {file}"),
            Self::ValueFilePresent(file) => write!(f, "value file {file} is there already"),
            Self::ValueFileUsed(file) => write!(f, "tables still point to value file {file}"),
            Self::LogStartBack(segment) => write!(f, "the log start goes back to {segment}"),
            Self::IdentityPresent(database) => write!(f, "this is database {database} already"),
        }
    }
}

impl std::error::Error for StateFault {}

impl ManifestState {
    /// The families by id.
    pub(crate) fn families(&self) -> impl Iterator<Item = (FamilyId, &FamilyState)> {
        self.families.iter().map(|(id, family)| (*id, &**family))
    }

    /// The family with this id.
    pub(crate) fn family(&self, id: FamilyId) -> Option<&FamilyState> {
        self.families.get(&id).map(|family| &**family)
    }

    /// The value files by id.
    pub(crate) fn value_files(&self) -> &BTreeMap<FileId, ValueFileState> {
        &self.value_files
    }

    /// True when a table of some family, or a value file, has this id.
    pub(crate) fn is_file_used(&self, file: FileId) -> bool {
        self.value_files.contains_key(&file)
            || self
                .families
                .values()
                .any(|family| family.tables.contains_key(&file))
    }

    /// Larger than the id of every file that was ever recorded.
    pub(crate) fn next_file_id(&self) -> FileId {
        self.next_file_id
    }

    /// Larger than the id of every family that ever was.
    pub(crate) fn next_family_id(&self) -> FamilyId {
        self.next_family_id
    }

    /// Where replay of the log begins.
    pub(crate) fn log_start(&self) -> LogStart {
        self.log_start
    }

    /// The log was durable up to here.
    pub(crate) fn log_durable(&self) -> Lsn {
        self.log_durable
    }

    /// Which database this is; `None` until the first opening for writing by a version that knows identities.
    pub(crate) fn identity(&self) -> Option<DatabaseId> {
        self.identity
    }

    /// Makes one change. After a fault the state is as before.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), StateFault> {
        match edit {
            Edit::NextFileId(id) => self.next_file_id = self.next_file_id.max(*id),
            Edit::NextFamilyId(id) => self.next_family_id = self.next_family_id.max(*id),
            Edit::LogDurable(position) => self.log_durable = self.log_durable.max(*position),
            Edit::LogStart {
                segment,
                sequence,
                position,
            } => {
                return self.start_log(LogStart {
                    segment: *segment,
                    sequence: *sequence,
                    position: *position,
                });
            }
            Edit::AddFamily { id, name, options } => return self.add_family(*id, name, options),
            Edit::DropFamily { id } => return self.drop_family(*id),
            Edit::RenameFamily { id, name } => return self.rename_family(*id, name),
            Edit::SetFamilyOptions { id, options } => {
                self.family_mut(*id)?.options.clone_from(options);
            }
            Edit::AddTable {
                family,
                level,
                meta,
            } => return self.add_table(*family, *level, meta),
            Edit::RemoveTable {
                family,
                level,
                file,
            } => return self.remove_table(*family, *level, *file),
            Edit::MoveTable {
                family,
                from,
                to,
                file,
            } => {
                check_level(*to)?;
                self.table_level_mut(*family, *from, *file)
                    .map(|level| *level = *to)?;
            }
            Edit::AddValueFile(meta) => return self.add_value_file(meta),
            Edit::RemoveValueFile(file) => return self.remove_value_file(*file),
            Edit::FlushedThrough { family, sequence } => {
                let family = self.family_mut(*family)?;
                family.flushed_through = family.flushed_through.max(*sequence);
            }
            Edit::Identity(database) => return self.set_identity(*database),
        }
        Ok(())
    }

    /// The edits that make this state out of an empty one.
    pub(crate) fn to_edits(&self) -> impl Iterator<Item = Edit> {
        let counters = [
            Edit::NextFileId(self.next_file_id),
            Edit::NextFamilyId(self.next_family_id),
            Edit::LogStart {
                segment: self.log_start.segment,
                sequence: self.log_start.sequence,
                position: self.log_start.position,
            },
            Edit::LogDurable(self.log_durable),
        ];
        let value_files = self
            .value_files
            .values()
            .map(|file| Edit::AddValueFile(file.meta));
        // Ids in use lie below the counter, which an added family may not: the counter comes last.
        let [next_file, next_family, log_start, log_durable] = counters;
        let identity = self.identity.map(Edit::Identity);
        identity
            .into_iter()
            .chain([next_file, log_start, log_durable])
            .chain(value_files)
            .chain(self.families().flat_map(|(id, family)| family.to_edits(id)))
            .chain([next_family])
    }

    /// Dates the tombstones of tables that an older version recorded, which did not: they are there since `now`, in Unix
    /// seconds. Dates that lie ahead, which a wrong clock left, become `now` too, or they would never come to an age.
    pub(super) fn date_tombstones(&mut self, now: u64) {
        let needs_date = |table: &TableMeta| {
            let since = table.oldest_tombstone.since;
            table.has_tombstones() && (since == 0 || since > now)
        };
        for family in self.families.values_mut() {
            if !family.tables.values().any(|(_, table)| needs_date(table)) {
                continue;
            }
            for (_, table) in Arc::make_mut(family).tables.values_mut() {
                if needs_date(table) {
                    let table = Arc::make_mut(table);
                    table.oldest_tombstone.since = now.max(1);
                    // Unknown before: not larger than any in the table.
                    if table.oldest_tombstone.sequence == SeqNo::ZERO {
                        table.oldest_tombstone.sequence = table.sequence_min;
                    }
                }
            }
        }
    }

    fn set_identity(&mut self, database: DatabaseId) -> Result<(), StateFault> {
        match self.identity.replace(database) {
            Some(present) if present != database => {
                self.identity = Some(present);
                Err(StateFault::IdentityPresent(present))
            }
            _ => Ok(()),
        }
    }

    fn start_log(&mut self, start: LogStart) -> Result<(), StateFault> {
        let now = self.log_start;
        if start.segment < now.segment
            || start.sequence < now.sequence
            || start.position < now.position
        {
            return Err(StateFault::LogStartBack(start.segment));
        }
        self.log_start = start;
        Ok(())
    }

    fn add_family(
        &mut self,
        id: FamilyId,
        name: &str,
        options: &[(String, String)],
    ) -> Result<(), StateFault> {
        if self.families.contains_key(&id) {
            return Err(StateFault::FamilyPresent(id));
        }
        if self.families.len() >= FAMILIES_MAX {
            return Err(StateFault::FamiliesMax);
        }
        self.check_name(name)?;
        let family = FamilyState {
            name: name.to_owned(),
            options: options.to_vec(),
            flushed_through: SeqNo::ZERO,
            tables: BTreeMap::new(),
        };
        self.families.insert(id, Arc::new(family));
        Arc::make_mut(&mut self.names).insert(name.to_owned(), id);
        self.next_family_id = self.next_family_id.max(id.next());
        Ok(())
    }

    fn drop_family(&mut self, id: FamilyId) -> Result<(), StateFault> {
        let family = self
            .families
            .remove(&id)
            .ok_or(StateFault::FamilyMissing(id))?;
        Arc::make_mut(&mut self.names).remove(&family.name);
        for (_, table) in family.tables.values() {
            self.release_value_files(table);
        }
        Ok(())
    }

    fn rename_family(&mut self, id: FamilyId, name: &str) -> Result<(), StateFault> {
        let old = self
            .family(id)
            .ok_or(StateFault::FamilyMissing(id))?
            .name
            .clone();
        if old == name {
            return Ok(());
        }
        self.check_name(name)?;
        self.family_mut(id)?.name = name.to_owned();
        let names = Arc::make_mut(&mut self.names);
        names.remove(&old);
        names.insert(name.to_owned(), id);
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), StateFault> {
        let is_name = (1..=FAMILY_NAME_BYTES_MAX).contains(&name.len());
        if !is_name || self.names.contains_key(name) {
            return Err(StateFault::Name(name.to_owned()));
        }
        Ok(())
    }

    fn add_table(&mut self, id: FamilyId, level: u8, meta: &TableMeta) -> Result<(), StateFault> {
        check_level(level)?;
        let file = meta.file;
        let family = self.family(id).ok_or(StateFault::FamilyMissing(id))?;
        if family.tables.contains_key(&file) {
            return Err(StateFault::TablePresent { family: id, file });
        }
        let missing = meta
            .value_files
            .iter()
            .find(|used| !self.value_files.contains_key(&used.file));
        if let Some(missing) = missing {
            return Err(StateFault::ValueFileMissing(missing.file));
        }
        if !meta.value_files.is_empty() {
            let value_files = Arc::make_mut(&mut self.value_files);
            for used in &meta.value_files {
                if let Some(target) = value_files.get_mut(&used.file) {
                    target.tables += 1;
                    target.live_records = target.live_records.saturating_add(used.records);
                    target.live_bytes = target.live_bytes.saturating_add(used.bytes);
                }
            }
        }
        let tables = &mut self.family_mut(id)?.tables;
        tables.insert(file, (level, Arc::new(meta.clone())));
        self.next_file_id = self.next_file_id.max(file.next());
        Ok(())
    }

    fn remove_table(&mut self, id: FamilyId, level: u8, file: FileId) -> Result<(), StateFault> {
        self.table_level_mut(id, level, file)?;
        if let Some((_, table)) = self.family_mut(id)?.tables.remove(&file) {
            self.release_value_files(&table);
        }
        Ok(())
    }

    /// The level of a table, which must be `level`.
    fn table_level_mut(
        &mut self,
        id: FamilyId,
        level: u8,
        file: FileId,
    ) -> Result<&mut u8, StateFault> {
        match self.family_mut(id)?.tables.get_mut(&file) {
            Some((found, _)) if *found == level => Ok(found),
            _ => Err(StateFault::TableMissing { family: id, file }),
        }
    }

    /// A table that points to value files is gone.
    fn release_value_files(&mut self, table: &TableMeta) {
        if table.value_files.is_empty() {
            return;
        }
        let value_files = Arc::make_mut(&mut self.value_files);
        for used in &table.value_files {
            if let Some(target) = value_files.get_mut(&used.file) {
                target.tables = target.tables.saturating_sub(1);
                target.live_records = target.live_records.saturating_sub(used.records);
                target.live_bytes = target.live_bytes.saturating_sub(used.bytes);
            }
        }
    }

    fn add_value_file(&mut self, meta: &ValueFileMeta) -> Result<(), StateFault> {
        let file = meta.file;
        if self.value_files.contains_key(&file) {
            return Err(StateFault::ValueFilePresent(file));
        }
        let state = ValueFileState {
            meta: *meta,
            tables: 0,
            live_records: 0,
            live_bytes: 0,
        };
        Arc::make_mut(&mut self.value_files).insert(file, state);
        self.next_file_id = self.next_file_id.max(file.next());
        Ok(())
    }

    fn remove_value_file(&mut self, file: FileId) -> Result<(), StateFault> {
        let tables = self.value_files.get(&file).map(|state| state.tables);
        match tables {
            None => Err(StateFault::ValueFileMissing(file)),
            Some(0) => {
                Arc::make_mut(&mut self.value_files).remove(&file);
                Ok(())
            }
            Some(_) => Err(StateFault::ValueFileUsed(file)),
        }
    }

    fn family_mut(&mut self, id: FamilyId) -> Result<&mut FamilyState, StateFault> {
        self.families
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or(StateFault::FamilyMissing(id))
    }
}

impl FamilyState {
    /// The edits that make this family.
    fn to_edits(&self, id: FamilyId) -> impl Iterator<Item = Edit> {
        let add = Edit::AddFamily {
            id,
            name: self.name.clone(),
            options: self.options.clone(),
        };
        let flushed = Edit::FlushedThrough {
            family: id,
            sequence: self.flushed_through,
        };
        let tables = self
            .tables
            .values()
            .map(move |(level, table)| Edit::AddTable {
                family: id,
                level: *level,
                meta: (**table).clone(),
            });
        [add, flushed].into_iter().chain(tables)
    }
}

fn check_level(level: u8) -> Result<(), StateFault> {
    if (1..=LEVELS_MAX).contains(&usize::from(level)) {
        Ok(())
    } else {
        Err(StateFault::Level(level))
    }
}

#[cfg(test)]
mod tests;
