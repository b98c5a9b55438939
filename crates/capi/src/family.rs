//! Column families: create, drop, rename, clone, look up, list.

use std::{
    ffi::{c_char, c_int},
    sync::{Arc, Mutex},
};

use kingtide::{BUILT_IN_COMPARATORS, ColumnFamily, limits};

use crate::{
    alloc::{Pending, copy_array, copy_text},
    border::{Failure, Outcome, answer, answer_with, code, not_in_callback},
    config::family_options,
    objects::{Database, DatabaseHandle, FAMILIES, Family, FamilyHandle, lock, no_handle},
    pointer::{Context, In, Out, Text},
    types::FamilyConfig,
};

/// Creates an empty family.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_create_column_family(
    db: DatabaseHandle,
    name: Text,
    config: In<FamilyConfig>,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let name = name.name(limits::FAMILY_NAME_BYTES_MAX, "name")?;
        let config = config.require("config")?;
        let options = family_options(config)?;
        let is_built_in = BUILT_IN_COMPARATORS.contains(&options.comparator.as_str());
        if database.is_unified && !is_built_in {
            return Err(Failure::invalid(
                "comparator_name: a unified memtable has no orders of the user",
            ));
        }
        if !is_built_in && database.comparator(&options.comparator).is_none() {
            return Err(Failure::new(
                code::NOT_FOUND,
                format!(
                    "comparator_name: {:?} is not registered",
                    options.comparator
                ),
            ));
        }
        let _changes = lock(&database.family_changes);
        let family = database.db.create_family(name, options)?;
        if config.commit_hook_fn.is_none() {
            return Ok(());
        }
        // Nobody has the family's handle yet; who commits at once through another way is not told.
        let handle = adopt(&database, name, family)?;
        FamilyHandle::from_number(handle)
            .get()?
            .set_hook(config.commit_hook_fn, Context(config.commit_hook_ctx))
    })
}

/// Drops a family by its name.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_drop_column_family(db: DatabaseHandle, name: Text) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let name = name.name(limits::FAMILY_NAME_BYTES_MAX, "name")?;
        let _changes = lock(&database.family_changes);
        drop_family(&database, name)
    })
}

/// Drops a family by its handle.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_delete_column_family(db: DatabaseHandle, cf: FamilyHandle) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let family = cf.get()?;
        check_owner(&database, &family)?;
        let _changes = lock(&database.family_changes);
        // Dropped between the look-up and the lock: its name may be another family's by now.
        cf.get()?;
        drop_family(&database, &family.family.name())
    })
}

/// Called with `family_changes` locked.
fn drop_family(database: &Database, name: &str) -> Outcome<()> {
    database.db.drop_family(name)?;
    let handle = database.families().remove(name);
    if let Some(handle) = handle {
        // Closing the database may have been faster.
        let _ = FAMILIES.remove(handle);
    }
    Ok(())
}

/// # Errors
/// `TDB_ERR_INVALID_ARGS` for a family of another database.
pub(crate) fn check_owner(database: &Arc<Database>, family: &Family) -> Outcome<()> {
    if Arc::ptr_eq(database, &family.database) {
        return Ok(());
    }
    Err(Failure::invalid("cf: belongs to another database"))
}

/// Gives a family another name; handles stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_rename_column_family(
    db: DatabaseHandle,
    old_name: Text,
    new_name: Text,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let from = old_name.name(limits::FAMILY_NAME_BYTES_MAX, "old_name")?;
        let to = new_name.name(limits::FAMILY_NAME_BYTES_MAX, "new_name")?;
        let _changes = lock(&database.family_changes);
        database.db.rename_family(from, to)?;
        let mut families = database.families();
        if let Some(handle) = families.remove(from) {
            families.insert(to.to_owned(), handle);
        }
        Ok(())
    })
}

/// Copies a family.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_clone_column_family(
    db: DatabaseHandle,
    src_name: Text,
    dst_name: Text,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let from = src_name.name(limits::FAMILY_NAME_BYTES_MAX, "src_name")?;
        let to = dst_name.name(limits::FAMILY_NAME_BYTES_MAX, "dst_name")?;
        let _changes = lock(&database.family_changes);
        database.db.clone_family(from, to)?;
        Ok(())
    })
}

/// The handle of a family; null when there is none of that name.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_column_family(db: DatabaseHandle, name: Text) -> FamilyHandle {
    answer_with(
        || {
            let database = db.get()?;
            let name = name.name(limits::FAMILY_NAME_BYTES_MAX, "name")?;
            let known = database.families().get(name).copied();
            if let Some(handle) = known {
                return Ok(FamilyHandle::from_number(handle));
            }
            // Creating and dropping wait for the disk; a callback must not wait for them.
            not_in_callback()?;
            let _changes = lock(&database.family_changes);
            let family = database.db.family(name)?;
            adopt(&database, name, family).map(FamilyHandle::from_number)
        },
        |_| FamilyHandle::NULL,
    )
}

/// The handle of `family`, made if there is none. Called with `family_changes` locked.
fn adopt(database: &Arc<Database>, name: &str, family: ColumnFamily) -> Outcome<u64> {
    let mut families = database.families();
    if let Some(handle) = families.get(name) {
        return Ok(*handle);
    }
    // Checked with the map locked: closing empties it once.
    database.check_open()?;
    let object = Family {
        family,
        database: Arc::clone(database),
        hook: Mutex::new(None),
    };
    let handle = FAMILIES.insert(Arc::new(object)).ok_or_else(no_handle)?;
    families.insert(name.to_owned(), handle);
    Ok(handle)
}

/// The names of all families, in an array that the caller frees, names first.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_list_column_families(
    db: DatabaseHandle,
    names: Out<*mut *mut c_char>,
    count: Out<c_int>,
) -> c_int {
    answer(|| {
        let names_place = names.require("names")?;
        let count_place = count.require("count")?;
        let database = db.get()?;
        let all = database.db.families();
        let mut pending = Pending::default();
        let mut texts = Vec::with_capacity(all.len());
        for name in &all {
            texts.push(pending.keep(copy_text(name)?));
        }
        let array = pending.keep(copy_array(&texts)?);
        let number = c_int::try_from(all.len())
            .map_err(|_| Failure::new(code::TOO_LARGE, "more families than an int counts"))?;
        names_place.set(array);
        count_place.set(number);
        pending.release();
        Ok(())
    })
}
