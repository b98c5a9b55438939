//! The tables of one family at one moment, as an immutable value.
//!
//! A change makes a new version that shares the levels it does not touch; readers keep the old one for as long as they
//! need it. Every version is checked when it is made: no table twice, deeper levels disjoint under the family's order,
//! removed and moved tables there. A violation is an answer, not a panic: the versions come from the manifest.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kingtide_base::{FileId, KeyOrder, limits::LEVELS_MAX};
use kingtide_format::TableMeta;

use super::{Level, LevelTotals};

/// The tables of one family.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    order: KeyOrder,
    /// Level 1 first; the last one is not empty.
    levels: Vec<Arc<Level>>,
    /// The level of every table.
    table_levels: Arc<BTreeMap<FileId, u8>>,
}

/// A table that goes to another level as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableMove {
    /// The table.
    pub(crate) file: FileId,
    /// Its level so far.
    pub(crate) from: u8,
    /// Its level from now on.
    pub(crate) to: u8,
}

/// Why a set of tables is not a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionFault {
    /// A table to remove or to move is not on that level.
    Missing { file: FileId, level: u8 },
    /// A table is there already.
    Duplicate { file: FileId },
    /// Two tables of a level below the first share keys.
    Overlap {
        level: u8,
        left: FileId,
        right: FileId,
    },
    /// A table's smallest key is larger than its largest.
    KeyRange { file: FileId },
    /// There is no such level.
    Level(u8),
}

impl fmt::Display for VersionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file, level } => write!(f, "table {file} is not on level {level}"),
            Self::Duplicate { file } => write!(f, "table {file} is there twice"),
            Self::Overlap { level, left, right } => {
                write!(f, "tables {left} and {right} of level {level} overlap")
            }
            Self::KeyRange { file } => write!(f, "the keys of table {file} are out of order"),
            Self::Level(level) => write!(f, "there is no level {level}"),
        }
    }
}

impl std::error::Error for VersionFault {}

/// The tables of each level while a version is being made; index 0 is level 1.
type Draft = Vec<Vec<Arc<TableMeta>>>;

impl Version {
    /// A family without tables.
    pub(crate) fn empty(order: KeyOrder) -> Self {
        Self {
            order,
            levels: Vec::new(),
            table_levels: Arc::default(),
        }
    }

    /// A family with these tables, each with its level.
    pub(crate) fn from_tables(
        order: KeyOrder,
        tables: impl IntoIterator<Item = (u8, Arc<TableMeta>)>,
    ) -> Result<Self, VersionFault> {
        let added: Vec<_> = tables.into_iter().collect();
        Self::empty(order).apply(&added, &[], &[])
    }

    /// The version after a change. Removals come first, then moves, then additions.
    pub(crate) fn apply(
        &self,
        added: &[(u8, Arc<TableMeta>)],
        removed: &[(u8, FileId)],
        moved: &[TableMove],
    ) -> Result<Self, VersionFault> {
        let mut table_levels = (*self.table_levels).clone();
        let mut draft: Draft = self.levels.iter().map(|_| Vec::new()).collect();
        let mut touched = vec![false; self.levels.len()];
        let levels = removed
            .iter()
            .map(|(level, _)| *level)
            .chain(moved.iter().flat_map(|moved| [moved.from, moved.to]))
            .chain(added.iter().map(|(level, _)| *level));
        for level in levels {
            let index = index_of(level)?;
            if draft.len() <= index {
                draft.resize_with(index + 1, Vec::new);
                touched.resize(index + 1, false);
            }
            if !touched[index] {
                touched[index] = true;
                draft[index] = self
                    .level(level)
                    .map_or_else(Vec::new, |level| level.tables().to_vec());
            }
        }
        for (level, file) in removed {
            take(&mut draft, &mut table_levels, *level, *file)?;
        }
        for moved in moved {
            let table = take(&mut draft, &mut table_levels, moved.from, moved.file)?;
            put(&mut draft, &mut table_levels, moved.to, table)?;
        }
        for (level, table) in added {
            put(&mut draft, &mut table_levels, *level, table.clone())?;
        }
        self.sealed(draft, &touched, table_levels)
    }

    /// Checks the touched levels and shares the others.
    fn sealed(
        &self,
        draft: Draft,
        touched: &[bool],
        table_levels: BTreeMap<FileId, u8>,
    ) -> Result<Self, VersionFault> {
        let mut levels = Vec::with_capacity(draft.len());
        for (number, (tables, touched)) in (1..).zip(draft.into_iter().zip(touched)) {
            let unchanged = self.levels.get(levels.len()).filter(|_| !touched);
            levels.push(match unchanged {
                Some(level) => level.clone(),
                None => Arc::new(Level::new(number, tables, &self.order)?),
            });
        }
        while levels.pop_if(|level| level.tables().is_empty()).is_some() {}
        Ok(Self {
            order: self.order.clone(),
            levels,
            table_levels: Arc::new(table_levels),
        })
    }

    /// The tables under `level` alone. Whoever needs no others holds no others: they may die meanwhile.
    pub(crate) fn below(&self, level: u8) -> Self {
        if level >= self.depth() {
            return Self::empty(self.order.clone());
        }
        let emptied = usize::from(level);
        let kept = self.levels[emptied..].iter().cloned();
        let levels = std::iter::repeat_with(Arc::default).take(emptied);
        let table_levels = self.table_levels.iter().map(|(file, of)| (*file, *of));
        Self {
            order: self.order.clone(),
            levels: levels.chain(kept).collect(),
            table_levels: Arc::new(table_levels.filter(|(_, of)| *of > level).collect()),
        }
    }

    /// The levels, level 1 first; the last one has tables.
    pub(crate) fn levels(&self) -> impl ExactSizeIterator<Item = &Arc<Level>> {
        self.levels.iter()
    }

    /// The number of the deepest level with tables; 0 without tables.
    pub(crate) fn depth(&self) -> u8 {
        self.levels.len() as u8
    }

    /// True without tables.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The level with this number, counted from 1; `None` when it and all below have no tables.
    pub(crate) fn level(&self, number: u8) -> Option<&Level> {
        let index = usize::from(number).checked_sub(1)?;
        self.levels.get(index).map(|level| &**level)
    }

    /// All tables with their levels, in read order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableMeta>)> {
        (1..)
            .zip(self.levels())
            .flat_map(|(number, level)| level.tables().iter().map(move |table| (number, table)))
    }

    /// The tables of a level whose key range holds `key`, in read order: on level 1 the newest first, below at most one.
    pub(crate) fn tables_for_key<'a>(
        &'a self,
        level: u8,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<TableMeta>> + use<'a> {
        let level = self.level(level);
        level
            .into_iter()
            .flat_map(move |level| level.for_key(&self.order, key))
    }

    /// True when a table of `level` has keys between the first and the last of `keys`, both included. The excluded end of a
    /// table's range deletes counts as held.
    pub(crate) fn has_between(&self, level: u8, keys: (&[u8], &[u8])) -> bool {
        self.level(level)
            .is_some_and(|level| level.has_between(&self.order, keys))
    }

    /// The tables of all levels whose key range holds `key`, in read order.
    pub(crate) fn all_tables_for_key<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<TableMeta>> + use<'a> {
        self.levels
            .iter()
            .flat_map(move |level| level.for_key(&self.order, key))
    }

    /// Sums over one level.
    pub(crate) fn level_totals(&self, number: u8) -> LevelTotals {
        let mut totals = LevelTotals::default();
        if let Some(level) = self.level(number) {
            level.add_to(&mut totals);
        }
        totals
    }
}

fn index_of(level: u8) -> Result<usize, VersionFault> {
    match usize::from(level).checked_sub(1) {
        Some(index) if index < LEVELS_MAX => Ok(index),
        _ => Err(VersionFault::Level(level)),
    }
}

/// Takes a table out of a level of the draft.
fn take(
    draft: &mut Draft,
    table_levels: &mut BTreeMap<FileId, u8>,
    level: u8,
    file: FileId,
) -> Result<Arc<TableMeta>, VersionFault> {
    let tables = &mut draft[index_of(level)?];
    let index = tables
        .iter()
        .position(|table| table.file == file)
        .ok_or(VersionFault::Missing { file, level })?;
    table_levels.remove(&file);
    Ok(tables.swap_remove(index))
}

/// Puts a table into a level of the draft.
fn put(
    draft: &mut Draft,
    table_levels: &mut BTreeMap<FileId, u8>,
    level: u8,
    table: Arc<TableMeta>,
) -> Result<(), VersionFault> {
    if table_levels.insert(table.file, level).is_some() {
        return Err(VersionFault::Duplicate { file: table.file });
    }
    draft[index_of(level)?].push(table);
    Ok(())
}

#[cfg(test)]
mod tests;
