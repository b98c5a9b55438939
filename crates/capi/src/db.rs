//! Opening and closing databases.

use std::{
    collections::HashMap,
    ffi::{c_int, c_long},
    fs,
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use kingtide::{Db, LogLevel, Options};

use crate::{
    alloc::initialise_by_itself,
    border::{Failure, Outcome, answer, answer_with, code, not_in_callback, not_in_hook},
    comparator::Registered,
    config::{database_options, unified_sync},
    kt::events::{EventFn, Teller},
    log,
    objects::{DATABASES, Database, DatabaseHandle, FAMILIES, handle_place, no_handle},
    pointer::{Context, In, Out, Text},
    types::Config,
};

/// Opens a database, and creates it when there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_open(config: In<Config>, db: Out<DatabaseHandle>) -> c_int {
    answer(|| {
        let place = handle_place(db, DatabaseHandle::NULL, "db")?;
        let config = config.require("config")?;
        place.set(open(config, Extras::default(), |_| {})?);
        Ok(())
    })
}

/// What an open may come with.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) comparators: Vec<Arc<Registered>>,
    pub(crate) events: EventFn,
    pub(crate) context: Context,
}

/// Opens a database with what comes beside its settings, after `adjust` had its say.
///
/// # Errors
/// As `tidesdb_open`.
pub(crate) fn open(
    config: &Config,
    extras: Extras,
    adjust: impl FnOnce(&mut Options),
) -> Outcome<DatabaseHandle> {
    not_in_callback()?;
    initialise_by_itself();
    let path = Text::from_raw(config.db_path);
    let path = path.path("db_path")?;
    let mut options = database_options(config)?;
    let unified_sync = unified_sync(config)?;
    let (log_options, standard_error) = log::options(config)?;
    log::aim_at_standard_error(log_options.level);
    if !config.object_store.is_null() {
        log::write(
            LogLevel::Error,
            "open: object stores are not supported yet; open without one",
        );
        return Err(Failure::invalid(
            "object_store: object stores are not supported yet",
        ));
    }
    let teller = Teller {
        standard_error,
        function: extras.events,
        context: extras.context,
    };
    if teller.is_needed() {
        options.listener = Some(Arc::new(teller));
    }
    options.log = log_options;
    options.defer_missing_comparators = true;
    options.comparators = extras
        .comparators
        .iter()
        .map(|order| Arc::clone(order) as _)
        .collect();
    adjust(&mut options);
    if options.create_if_missing && !options.read_only {
        create_directory(path)?;
    }
    let db = Db::open(path, options)?;
    let database = Arc::new(Database {
        db,
        families: Mutex::new(HashMap::new()),
        family_changes: Mutex::new(()),
        comparators: Mutex::new(extras.comparators),
        unified_sync,
        is_unified: config.unified_memtable != 0,
        is_closed: AtomicBool::new(false),
    });
    log::aim_at(&database);
    let handle = DATABASES.insert(database).ok_or_else(no_handle)?;
    Ok(DatabaseHandle::from_number(handle))
}

/// The directory, with the mode that callers expect: the engine alone would make one for its owner only.
fn create_directory(path: &Path) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path);
    made.map_err(|error| {
        Failure::new(
            code::IO,
            format!("cannot create the directory {}: {error}", path.display()),
        )
    })
}

/// Closes a database. Its handle and those of its families end here.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_close(db: DatabaseHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        not_in_hook()?;
        let database = DATABASES
            .remove(db.number())
            .map_err(|refused| Failure::handle("db", refused))?;
        // Release: pairs with `check_open`.
        database.is_closed.store(true, Ordering::Release);
        let outcome = database.db.close();
        let _changes = crate::objects::lock(&database.family_changes);
        let families: Vec<u64> = database
            .families()
            .drain()
            .map(|(_, handle)| handle)
            .collect();
        for family in families {
            // A handle of a family that is being dropped has gone already.
            let _ = FAMILIES.remove(family);
        }
        outcome.map_err(Failure::from)
    })
}

/// Raises the limit of open files of the process; answers the one in force.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_raise_open_file_limit(desired: c_long) -> c_long {
    answer_with(|| Ok(kingtide::raise_open_file_limit(desired)), |_| -1)
}

/// Makes a replica a primary. There are no replicas yet.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_promote_to_primary(db: DatabaseHandle) -> c_int {
    answer(|| {
        db.get()?;
        log::write(
            LogLevel::Error,
            "promote_to_primary: this database is no replica; object stores are not supported yet",
        );
        Err(Failure::invalid("the database is no replica"))
    })
}
