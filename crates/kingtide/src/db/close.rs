//! Closing. Nothing is lost in any mode: the log is synced, and it is kept unless everything in it is in tables.

use std::sync::Arc;

use kingtide_env::sync::atomic::Ordering;
use kingtide_format::Edit;

use super::families::{flush, flush_sealed};
use crate::{
    background::Background, engine::Engine, error::Result, events::Event, wal::segment_slot,
};

/// Closes the engine; a second call does nothing. Bounded, unless the options ask to finish merges: otherwise those that
/// run end at their next checkpoint.
///
/// # Errors
/// The failure of the last log sync. The directory is released all the same.
pub(super) fn close(engine: &Arc<Engine>, background: &Background) -> Result<()> {
    // AcqRel: pairs with the loads in `check_open`; one closer goes on.
    if engine.is_closed.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    engine.pipeline.close();
    clear_hooks(engine);
    if engine.options.finish_compactions_on_close && !engine.options.read_only {
        finish_merges(engine, background);
    }
    background.stop(engine);
    let outcome = if engine.options.read_only {
        Ok(())
    } else {
        settle(engine)
    };
    engine.events.emit(|| Event::Closed {
        failure: outcome.as_ref().err().map(ToString::to_string),
    });
    // The file `LOG` is written under the lock of the directory.
    engine.events.stop();
    engine.release_lock();
    outcome
}

/// Lets go of what hooks own, which may be a handle of this database. Calls of commits before this go on.
fn clear_hooks(engine: &Engine) {
    for family in engine.families.all() {
        let replaced = {
            let _commit_lock = engine.pipeline.order.lock();
            family.hooks.replace(None)
        };
        drop(replaced);
    }
}

/// Flushes everything and waits until no merge is due. What fails is left to the next opening.
fn finish_merges(engine: &Arc<Engine>, background: &Background) {
    for family in engine.families.all() {
        if flush(engine, &family).is_ok() {
            background.schedule_merge(engine, &family);
            background.schedule_collection(engine, &family);
        }
    }
    let _ = background.wait_idle();
}

fn settle(engine: &Arc<Engine>) -> Result<()> {
    engine.pipeline.sync_log()?;
    // The log is durable: whatever fails from here on, the next open replays it.
    let _ = empty_log(engine);
    Ok(())
}

/// Flushes everything, and ends the log when nothing in it is needed any more.
fn empty_log(engine: &Arc<Engine>) -> Result<()> {
    let mut families = engine.families.all();
    // Those have nothing in memory.
    families.retain(|family| !family.is_deferred());
    // First what waits already, in all families: they share the room for sealed memtables.
    for family in &families {
        flush_sealed(engine, family)?;
    }
    for family in &families {
        flush(engine, family)?;
    }
    let needed = engine.log_needed(None);
    let ends = {
        let state = engine.pipeline.order.lock();
        needed.position == state.log.tail.position()
    };
    if !ends {
        return Ok(());
    }
    let start = Edit::LogStart {
        segment: needed.segment.next(),
        sequence: needed.sequence,
        position: needed.position,
    };
    engine.manifest.lock().append(&[start])?;
    let entries = engine.wal.list().unwrap_or_default();
    let names = entries.into_iter().map(|entry| entry.name);
    engine.remove_segments(names.filter(|name| segment_slot(name).is_some()).collect());
    engine.sweep_files()
}
