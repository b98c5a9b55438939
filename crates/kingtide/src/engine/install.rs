//! Installing: the durable manifest first, then what readers see. Everything here runs under the manifest lock.

use std::sync::Arc;

use kingtide_base::{
    FileId, SegmentId,
    planted::{self, Bug},
};
use kingtide_format::{Edit, TableMeta};

use super::{Engine, ManifestSlot, place::Places};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    files::NewFile,
    manifest::ManifestState,
    memtable::Memory,
    output::Output,
    version::{TableMove, Version, VersionFault},
};

impl ManifestSlot {
    /// Makes `edits` durable, all or nothing.
    ///
    /// # Errors
    /// What writing answers; `ReadOnly` in a read-only opening.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> Result<()> {
        match self {
            Self::Writer(manifest) => Ok(manifest.append(edits)?),
            Self::ReadOnly(_) => Err(Error::new(
                ErrorKind::ReadOnly,
                "the database is open for reading only",
            )),
        }
    }

    /// What the durable manifest says.
    pub(crate) fn state(&self) -> &ManifestState {
        match self {
            Self::Writer(manifest) => manifest.state(),
            Self::ReadOnly(state) => state,
        }
    }
}

impl Engine {
    /// Puts the flush of `memory` in place: its tables [as deep as they may go](super::place), the memtable gone, the log's
    /// start moved. Answers the oldest segment of the log that is still needed, for [`Engine::retire_log`].
    ///
    /// # Errors
    /// As [`ManifestSlot::append`]; `NotFound` when the family was dropped meanwhile. Nothing is installed then.
    pub(crate) fn install_flush(
        &self,
        family: &Arc<Family>,
        memory: &Arc<Memory>,
        output: &Output,
    ) -> Result<SegmentId> {
        self.unpin_log(Some(memory));
        let mut manifest = self.manifest.lock();
        self.check_family(family)?;
        let needed = self.log_needed(Some(memory));
        let mut edits: Vec<Edit> = vec![
            Edit::NextFileId(self.files.next_id()),
            Edit::LogStart {
                segment: needed.segment,
                sequence: needed.sequence,
                position: needed.position,
            },
            Edit::LogDurable(self.pipeline.order.durable()),
            Edit::FlushedThrough {
                family: family.id,
                sequence: if planted::is(Bug::FlushedTooFar) {
                    self.visible()
                } else {
                    memory.table.largest_sequence()
                },
            },
        ];
        edits.extend(
            output
                .value_files
                .iter()
                .map(|file| Edit::AddValueFile(*file)),
        );
        let places = Places::find(family, &output.tables);
        edits.extend(add_tables(family, places.levels(), output));
        manifest.append(&edits)?;
        self.swap_version(family, Some(memory), shared(output), |version, added| {
            version.apply(&at_levels(places.levels(), added), &[], &[])
        })?;
        drop(places);
        drop(manifest);
        let spilled = memory.spilled.all();
        spilled.iter().for_each(|value| value.unpin());
        let spilled_bytes: u64 = spilled.iter().map(|value| value.meta().file_bytes).sum();
        family.counters.note_flush(output.bytes() + spilled_bytes);
        family.add_rest_credit(output.table_bytes());
        Ok(needed.segment)
    }

    /// Puts a merge in place: `inputs` (level and file) go, the output's tables join `target_level`.
    ///
    /// # Errors
    /// As [`Engine::install_flush`].
    pub(crate) fn install_merge(
        &self,
        family: &Arc<Family>,
        inputs: &[(u8, Arc<TableMeta>)],
        target_level: u8,
        output: &Output,
    ) -> Result<()> {
        let inputs = match inputs.split_last() {
            Some((_, rest)) if planted::is(Bug::InputLeft) => rest,
            _ => inputs,
        };
        if planted::is(Bug::RemovedBeforeInstalled) {
            for (_, table) in inputs {
                let _ = self.files.remove_klog(table.file);
            }
        }
        let mut manifest = self.manifest.lock();
        self.check_family(family)?;
        let mut edits = vec![Edit::NextFileId(self.files.next_id())];
        edits.extend(inputs.iter().map(|(level, table)| Edit::RemoveTable {
            family: family.id,
            level: *level,
            file: table.file,
        }));
        edits.extend(
            output
                .value_files
                .iter()
                .map(|file| Edit::AddValueFile(*file)),
        );
        let levels = vec![target_level; output.tables.len()];
        edits.extend(add_tables(family, &levels, output));
        manifest.append(&edits)?;
        let removed: Vec<_> = inputs
            .iter()
            .map(|(level, table)| (*level, table.file))
            .collect();
        self.swap_version(family, None, shared(output), |version, added| {
            version.apply(&at_levels(&levels, added), &removed, &[])
        })?;
        drop(manifest);
        for (_, table) in inputs {
            self.files.live.remove(table);
            // Its file stays while an older version is read, or a clone has it. Whoever reads it opens it again.
            self.files.tables.forget(table.file);
        }
        let bytes_read = inputs.iter().map(|(_, table)| table.file_bytes).sum();
        family.counters.note_merge(bytes_read, output.bytes());
        Ok(())
    }

    /// Moves tables to another level without rewriting them.
    ///
    /// # Errors
    /// As [`Engine::install_flush`].
    pub(crate) fn install_moves(
        &self,
        family: &Arc<Family>,
        inputs: &[(u8, Arc<TableMeta>)],
        target_level: u8,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.check_family(family)?;
        let moves: Vec<TableMove> = inputs
            .iter()
            .map(|(from, table)| TableMove {
                file: table.file,
                from: *from,
                to: target_level,
            })
            .collect();
        let edits: Vec<Edit> = moves
            .iter()
            .map(|moved| Edit::MoveTable {
                family: family.id,
                from: moved.from,
                to: moved.to,
                file: moved.file,
            })
            .collect();
        manifest.append(&edits)?;
        self.swap_version(family, None, Vec::new(), |version, _| {
            version.apply(&[], &[], &moves)
        })
    }

    fn swap_version(
        &self,
        family: &Arc<Family>,
        flushed: Option<&Arc<Memory>>,
        added: Vec<Arc<TableMeta>>,
        change: impl FnOnce(&Version, &[Arc<TableMeta>]) -> std::result::Result<Version, VersionFault>,
    ) -> Result<()> {
        for table in &added {
            self.files.live.add(table);
        }
        let version = change(&family.load().version, &added)
            .map_err(|fault| Error::new(ErrorKind::ReopenRequired, fault.to_string()))?;
        let version = Arc::new(version);
        family.update(|current| current.with_version(Arc::clone(&version), flushed));
        Ok(())
    }

    /// Gives back log segments that the durable manifest no longer asks for.
    pub(crate) fn retire_log(&self, oldest_needed: SegmentId) {
        let names = {
            let mut state = self.pipeline.order.lock();
            state.log.tail.retire(self.env.as_ref(), oldest_needed)
        };
        self.remove_segments(names);
    }

    /// Removes segment files whose records are all in tables.
    pub(crate) fn remove_segments(&self, names: Vec<String>) {
        for name in names {
            // What cannot be removed now is ignored by every replay, and removed by the next open.
            let _ = self.wal.remove(&name);
        }
    }

    /// Removes dead tables, and the value files that no table points to since.
    ///
    /// # Errors
    /// What the manifest answers; the value files then stay until the next call.
    pub(crate) fn sweep_files(&self) -> Result<()> {
        self.files.remove_leftovers();
        self.remove_value_files(self.files.sweep_tables())
    }

    /// Removes value files that no table points to: first from the manifest, then from the disk.
    ///
    /// # Errors
    /// What the manifest answers; the files then stay until the next call.
    pub(crate) fn remove_value_files(&self, dead: Vec<FileId>) -> Result<()> {
        let dead = self.doubts.take_dead_values(dead);
        if dead.is_empty() {
            return Ok(());
        }
        let edits: Vec<Edit> = dead
            .iter()
            .map(|file| Edit::RemoveValueFile(*file))
            .collect();
        let appended = self.manifest.lock().append(&edits);
        if let Err(error) = appended {
            self.doubts.keep_dead_values(dead);
            return Err(error);
        }
        for file in dead {
            self.files.remove_new(NewFile::Vlog(file));
        }
        Ok(())
    }
}

/// `levels`: of each table.
fn add_tables(family: &Family, levels: &[u8], output: &Output) -> impl Iterator<Item = Edit> {
    let family = family.id;
    let tables = levels.iter().zip(&output.tables);
    tables.map(move |(level, meta)| Edit::AddTable {
        family,
        level: *level,
        meta: meta.clone(),
    })
}

fn shared(output: &Output) -> Vec<Arc<TableMeta>> {
    output
        .tables
        .iter()
        .map(|meta| Arc::new(meta.clone()))
        .collect()
}

fn at_levels(levels: &[u8], tables: &[Arc<TableMeta>]) -> Vec<(u8, Arc<TableMeta>)> {
    let tables = tables.iter().map(Arc::clone);
    levels.iter().copied().zip(tables).collect()
}
