//! The file `WITNESS`: how far which manifest was durable.
//!
//! A manifest that lost its end exactly between two batches is a whole, shorter manifest, and so is an older copy of it.
//! Nothing inside can tell, and the tables that only the lost batches name would be taken for leftovers. So after a batch
//! has been synced, its end is written to a second file, with the database that the manifest is of: a manifest of another
//! one must not make leftovers of the tables either.
//!
//! The witness is never ahead of the manifest: what it says was synced before it is written. It may lag behind, be torn or
//! be missing, since it is not synced itself and a failure to write it is passed over: then it tells less, and nothing that
//! is not so. A damaged one counts for nothing.

use std::sync::Arc;

use kingtide_base::{DatabaseId, StorageError, StorageResult};
use kingtide_env::{Directory, File, OpenMode};
use kingtide_format::{ManifestWitness, WITNESS_BYTES};

/// The name of the witness.
const NAME: &str = "WITNESS";

/// The witness of a database that is open for writing.
#[derive(Debug)]
pub(super) struct Witness {
    /// `None` when it could not be opened: then there is no witness in this opening.
    file: Option<Arc<dyn File>>,
}

impl Witness {
    /// Opens the witness, or begins one.
    pub(super) fn open(directory: &dyn Directory) -> Self {
        let file = directory
            .open(NAME, OpenMode::ReadWrite)
            .or_else(|_| directory.open(NAME, OpenMode::CreateNew));
        Self { file: file.ok() }
    }

    /// Notes that manifest `number`, of `database`, is durable up to `durable_bytes`.
    pub(super) fn note(&mut self, number: u64, durable_bytes: u64, database: Option<DatabaseId>) {
        let witness = ManifestWitness {
            number,
            durable_bytes,
            database,
        };
        if let Some(file) = &self.file {
            // What cannot be written is a witness less.
            let _ = file.write_at(&witness.encode(), 0);
        }
    }

    /// Removes the witness of a database that is gone, before another begins in its directory.
    pub(super) fn remove(directory: &dyn Directory) {
        // Mostly there is none. One that stays refuses the opening of a younger database, and loses nothing.
        let _ = directory.remove(NAME);
    }
}

/// What the witness says; `None` when there is none that can be believed. To be read before the manifest: a writer may
/// be at work.
///
/// # Errors
/// What the system answers, unless it is that there is no such file.
pub(super) fn read(directory: &dyn Directory) -> StorageResult<Option<ManifestWitness>> {
    let file = match directory.open(NAME, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| StorageError::io(NAME, "open", error))?,
    };
    let mut bytes = [0; WITNESS_BYTES];
    let count = file
        .read_at(&mut bytes, 0)
        .map_err(|error| StorageError::io(NAME, "read", error))?;
    Ok(ManifestWitness::decode(&bytes[..count]).ok())
}

/// The database that the witness is of; `None` when it does not say.
///
/// # Errors
/// As [`read`].
pub(crate) fn witnessed_database(directory: &dyn Directory) -> StorageResult<Option<DatabaseId>> {
    Ok(read(directory)?.and_then(|witness| witness.database))
}

/// Manifest `number` of `database`, whose valid frames end at `end`, is not less than its witness says, nor another's.
///
/// # Errors
/// `Corruption` when it is.
pub(super) fn check(
    witness: Option<ManifestWitness>,
    name: &str,
    (number, end): (u64, u64),
    database: Option<DatabaseId>,
) -> StorageResult<()> {
    let Some(witness) = witness else {
        return Ok(());
    };
    if number < witness.number {
        let what = "an older manifest than the newest: a newer one was durable and is gone";
        return Err(StorageError::checksum(
            name,
            0,
            what,
            witness.number,
            number,
        ));
    }
    if number == witness.number && end < witness.durable_bytes {
        let what = "the end of the manifest is missing: it was durable beyond";
        return Err(StorageError::checksum(
            name,
            end,
            what,
            witness.durable_bytes,
            end,
        ));
    }
    match witness.database {
        Some(expected) if database != Some(expected) => {
            let found = database.map_or("none".to_owned(), |database| database.to_string());
            let what = format!(
                "the manifest is of database {found}, and the file {NAME} beside it of {expected}"
            );
            Err(StorageError::malformed(name, 0, what))
        }
        _ => Ok(()),
    }
}
