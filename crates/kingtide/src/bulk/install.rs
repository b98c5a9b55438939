//! The installation of a load: its place in the order of commits, one manifest edit, then what readers see.
//!
//! 1. The family's memtables are flushed and the log is synced while commits go on: what is left for later is little.
//! 2. The [gate](crate::write::ClosedGate) is closed: nothing is ordered until the end. The rest of the memtables is
//!    flushed, because what is in memtables is read before tables and so must be newer, and the log is synced, because
//!    a load that survives a power cut must not survive commits before it.
//! 3. Under the manifest lock: the load gets the next sequence number; each table gets its [level](crate::engine::place); one
//!    edit adds all of them; the version is swapped; the number becomes visible; the gate opens.
//!
//! When the edit fails, it may come back after a crash, until another manifest has taken over: so its number is not
//! used again, and the files stay unless a new manifest without it is durable.

use std::sync::Arc;

use kingtide_base::SeqNo;
use kingtide_format::{Edit, TableMeta};

use crate::{
    engine::{Engine, place::Places},
    error::{Error, ErrorKind, Result},
    family::Family,
    flush::flush_oldest,
    output::{Output, discard_output},
    version::Version,
    write::{ClosedGate, load_unknown},
};

/// Makes `output`, whose entries carry the number `written_as`, part of `family`; answers the number it got.
///
/// # Errors
/// `Busy` when a prepared transaction uses the family; what flushing, the log and the manifest answer. The files are
/// removed then, except after `OutcomeUnknown`.
pub(super) fn install(
    engine: &Engine,
    family: &Arc<Family>,
    output: &mut Output,
    written_as: SeqNo,
) -> Result<SeqNo> {
    let gate = match make_way(engine, family) {
        Ok(gate) => gate,
        Err(error) => {
            discard_output(&engine.files, output);
            return Err(error);
        }
    };
    install_at_gate(engine, family, (output, written_as), &gate)
}

/// Steps 1 and 2.
fn make_way<'e>(engine: &'e Engine, family: &Arc<Family>) -> Result<ClosedGate<'e>> {
    engine.check_writable()?;
    engine.check_family(family)?;
    let active = Arc::clone(&family.load().active);
    if !active.table.is_empty() {
        engine.pipeline.rotate(family, &active, (0, 0))?;
    }
    // What waits now, and no more: writers may seal memtables as fast as they are flushed.
    for _ in 0..family.load().sealed.len() {
        flush_oldest(engine, family)?;
    }
    engine.pipeline.sync_log()?;
    let gate = engine.pipeline.close_gate()?;
    engine.pipeline.check_unprepared(family)?;
    gate.seal(family);
    while flush_oldest(engine, family)? {}
    engine.pipeline.sync_log()?;
    Ok(gate)
}

/// Step 3.
fn install_at_gate(
    engine: &Engine,
    family: &Arc<Family>,
    (output, written_as): (&mut Output, SeqNo),
    gate: &ClosedGate<'_>,
) -> Result<SeqNo> {
    let mut manifest = engine.manifest.lock();
    let sequence = gate.next_sequence();
    let planned = engine
        .check_family(family)
        .and_then(|()| plan(family, output, (written_as, sequence)));
    let (placed, version, places) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            discard_output(&engine.files, output);
            return Err(error);
        }
    };
    let mut edits = vec![
        Edit::NextFileId(engine.files.next_id()),
        Edit::LogDurable(engine.pipeline.order.durable()),
        // All its commits are in tables, and after a power cut no commit gets the number again.
        Edit::FlushedThrough {
            family: family.id,
            sequence,
        },
    ];
    let values = output.value_files.iter();
    edits.extend(values.map(|file| Edit::AddValueFile(*file)));
    edits.extend(placed.iter().map(|(level, meta)| Edit::AddTable {
        family: family.id,
        level: *level,
        meta: (**meta).clone(),
    }));
    if let Err(error) = manifest.append(&edits) {
        gate.abandon(sequence);
        // Begins a new manifest, which does not know of the load.
        return Err(
            match manifest.append(&[Edit::NextFileId(engine.files.next_id())]) {
                Ok(()) => {
                    discard_output(&engine.files, output);
                    error
                }
                Err(_) => load_unknown(&error),
            },
        );
    }
    for (_, table) in &placed {
        engine.files.live.add(table);
    }
    family.update(|current| current.with_version(Arc::clone(&version), None));
    drop(places);
    // Under the manifest lock: a copy that is made of the database has the tables and the number, or neither.
    gate.complete(sequence)?;
    drop(manifest);
    Ok(sequence)
}

/// Tables with their levels.
type Placed = Vec<(u8, Arc<TableMeta>)>;

/// Raises the numbers of the tables of `output` to `sequence` and finds their levels; answers them, and the version with
/// them. Until that is in place the levels are held for them: no merge may be planned across meanwhile.
fn plan<'f>(
    family: &'f Family,
    output: &mut Output,
    (written_as, sequence): (SeqNo, SeqNo),
) -> Result<(Placed, Arc<Version>, Places<'f>)> {
    let version = Arc::clone(&family.load().version);
    let base = SeqNo(sequence.0.saturating_sub(written_as.0));
    for table in &mut output.tables {
        table.raise_sequences(base);
    }
    let places = Places::find(family, &output.tables);
    let levels = places.levels().iter().copied();
    let tables = output.tables.iter().map(|table| Arc::new(table.clone()));
    let placed: Placed = levels.zip(tables).collect();
    let version = version
        .apply(&placed, &[], &[])
        .map_err(|fault| Error::new(ErrorKind::ReopenRequired, fault.to_string()))?;
    Ok((placed, Arc::new(version), places))
}
