//! Opening with what `tidesdb_config_t` has no room for.

use std::{ffi::c_int, mem, sync::Arc};

use crate::{
    border::{Failure, Outcome, answer},
    comparator::Registered,
    db,
    kt::events::EventFn,
    objects::{DatabaseHandle, handle_place},
    pointer::{Context, GrowingStruct, In, InSized, Out, Text},
    types::{ComparatorFn, Config},
};

/// `kt_comparator_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ComparatorEntry {
    name: Text,
    compare: ComparatorFn,
    ctx_str: Text,
    ctx: Context,
}

/// `kt_open_options_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    size: usize,
    comparators: In<ComparatorEntry>,
    comparator_count: usize,
    read_only: c_int,
    must_exist: c_int,
    event_fn: EventFn,
    event_ctx: Context,
    transaction_bytes_max: usize,
}

// SAFETY: repr(C), begins with its size; pointers and integers, of which any bit pattern is one.
unsafe impl GrowingStruct for OpenOptions {
    fn defaults() -> Self {
        Self {
            size: mem::size_of::<Self>(),
            comparators: In::null(),
            comparator_count: 0,
            read_only: 0,
            must_exist: 0,
            event_fn: None,
            event_ctx: Context::default(),
            transaction_bytes_max: 0,
        }
    }
}

/// More orders than this are a mistake.
const COMPARATORS_MAX: usize = 10_000;

/// The orders of the options, each name once.
fn comparators(options: &OpenOptions) -> Outcome<Vec<Arc<Registered>>> {
    if options.comparator_count > COMPARATORS_MAX {
        return Err(Failure::invalid("comparator_count: impossibly large"));
    }
    let entries = options
        .comparators
        .array(options.comparator_count, "comparators")?;
    let mut known: Vec<Arc<Registered>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let order = Registered::new(entry.name, entry.compare, entry.ctx_str, entry.ctx)?;
        if known.iter().any(|other| other.has_name_of(&order)) {
            return Err(Failure::invalid("comparators: a name twice"));
        }
        known.push(Arc::new(order));
    }
    Ok(known)
}

/// Opens a database.
#[unsafe(no_mangle)]
pub extern "C" fn kt_open(
    config: In<Config>,
    options: InSized<OpenOptions>,
    db: Out<DatabaseHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(db, DatabaseHandle::NULL, "db")?;
        let config = config.require("config")?;
        let given = options.read("options")?;
        let extras = db::Extras {
            comparators: comparators(&given)?,
            events: given.event_fn,
            context: given.event_ctx,
        };
        let handle = db::open(config, extras, |options| {
            options.transaction_bytes_max = given.transaction_bytes_max;
            options.read_only = given.read_only != 0;
            options.create_if_missing = given.must_exist == 0 && given.read_only == 0;
        })?;
        place.set(handle);
        Ok(())
    })
}
