//! Installing: the durable manifest first, then what readers see. Everything here runs under the manifest lock.

use std::sync::Arc;

use kingtide_base::FileId;
use kingtide_format::{Edit, TableMeta};

use super::{Counters, Engine, ManifestSlot};
use crate::{
    error::{Error, ErrorKind, Result},
    family::Family,
    memtable::Memory,
    output::Output,
    version::Change,
};

impl ManifestSlot {
    /// Makes `edits` durable, all or nothing.
    ///
    /// # Errors
    /// What writing answers; `ReadOnly` in a read-only opening.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(Error::new(ErrorKind::ReadOnly, "the database is open for reading only"));
        };
        writer.append(&mut self.state, edits)?;
        Ok(())
    }
}

impl Engine {
    /// Puts the flush of `memory` in place: its tables on level 1, the memtable gone, the log's start moved.
    ///
    /// # Errors
    /// As [`ManifestSlot::append`]; `NotFound` when the family was dropped meanwhile. Nothing is installed then.
    pub(crate) fn install_flush(
        &self,
        family: &Arc<Family>,
        memory: &Arc<Memory>,
        output: &Output,
    ) -> Result<()> {
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
            Edit::FlushedThrough { family: family.id, sequence: memory.table.largest_sequence() },
        ];
        edits.extend(output.value_files.iter().map(|file| Edit::AddValueFile(*file)));
        edits.extend(add_tables(family, 1, output));
        manifest.append(&edits)?;
        let change = Change { added: shared(1, output), ..Change::default() };
        self.swap_version(family, change, Some(memory))?;
        drop(manifest);
        self.retire_log(needed.segment);
        self.pipeline.stall.subtract(memory.table.bytes());
        Counters::add(&self.counters.flushes, 1);
        Counters::add(&self.counters.table_bytes_written, output.bytes());
        Ok(())
    }

    /// Puts a merge in place: `inputs` (level and file) go, the output's tables join `target_level`.
    ///
    /// # Errors
    /// As [`Engine::install_flush`].
    pub(crate) fn install_merge(
        &self,
        family: &Arc<Family>,
        inputs: &[(usize, Arc<TableMeta>)],
        target_level: usize,
        output: &Output,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.check_family(family)?;
        let mut edits = vec![Edit::NextFileId(self.files.next_id())];
        edits.extend(inputs.iter().map(|(level, table)| Edit::RemoveTable {
            family: family.id,
            level: *level as u8,
            file: table.file,
        }));
        edits.extend(output.value_files.iter().map(|file| Edit::AddValueFile(*file)));
        edits.extend(add_tables(family, target_level, output));
        manifest.append(&edits)?;
        let change = Change {
            added: shared(target_level, output),
            removed: inputs.iter().map(|(level, table)| (*level, table.file)).collect(),
            ..Change::default()
        };
        self.swap_version(family, change, None)?;
        drop(manifest);
        for (_, table) in inputs {
            self.files.live.remove(table);
        }
        Counters::add(&self.counters.merges, 1);
        Counters::add(&self.counters.table_bytes_written, output.bytes());
        Ok(())
    }

    /// Moves tables to another level without rewriting them.
    ///
    /// # Errors
    /// As [`Engine::install_flush`].
    pub(crate) fn install_moves(
        &self,
        family: &Arc<Family>,
        inputs: &[(usize, Arc<TableMeta>)],
        target_level: usize,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.check_family(family)?;
        let moves = inputs.iter().map(|(level, table)| Edit::MoveTable {
            family: family.id,
            from: *level as u8,
            to: target_level as u8,
            file: table.file,
        });
        manifest.append(&moves.collect::<Vec<_>>())?;
        let moved = inputs.iter().map(|(level, table)| (*level, target_level, table.file));
        let change = Change { moved: moved.collect(), ..Change::default() };
        self.swap_version(family, change, None)
    }

    fn swap_version(
        &self,
        family: &Arc<Family>,
        change: Change,
        flushed: Option<&Arc<Memory>>,
    ) -> Result<()> {
        for (_, table) in &change.added {
            self.files.live.add(table);
        }
        let version = family
            .load()
            .version
            .apply(&change, &family.order)
            .map_err(|fault| Error::new(ErrorKind::ReopenRequired, fault.to_string()))?;
        let version = Arc::new(version);
        family.update(|current| current.with_version(Arc::clone(&version), flushed));
        Ok(())
    }

    /// Gives back log segments that the durable manifest no longer asks for.
    pub(crate) fn retire_log(&self, oldest_needed: kingtide_base::SegmentId) {
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
    /// What the manifest answers; the value files then stay until the next open.
    pub(crate) fn sweep_files(&self) -> Result<()> {
        let dead: Vec<FileId> = self.files.sweep_tables();
        if dead.is_empty() {
            return Ok(());
        }
        let edits: Vec<Edit> = dead.iter().map(|file| Edit::RemoveValueFile(*file)).collect();
        self.manifest.lock().append(&edits)?;
        for file in dead {
            // As for segments: a leftover is harmless.
            let _ = self.files.remove_vlog(file);
        }
        Ok(())
    }
}

fn add_tables(
    family: &Family,
    level: usize,
    output: &Output,
) -> impl Iterator<Item = Edit> {
    let family = family.id;
    output.tables.iter().map(move |meta| Edit::AddTable {
        family,
        level: level as u8,
        meta: meta.clone(),
    })
}

fn shared(level: usize, output: &Output) -> Vec<(usize, Arc<TableMeta>)> {
    output.tables.iter().map(|meta| (level, Arc::new(meta.clone()))).collect()
}
