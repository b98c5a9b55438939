//! Savepoints: marks in the sequence of writes to which the transaction can go back.

use super::Transaction;
use crate::{
    error::{Error, ErrorKind, Result},
    write::WriteMark,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Savepoint {
    name: String,
    mark: WriteMark,
}

impl Transaction {
    /// Marks the present state of the writes under `name`. Savepoints nest; a name that is in use moves here.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// let mut transaction = db.begin()?;
    /// transaction.put(&family, b"kept", b"1")?;
    /// transaction.savepoint("before the attempt")?;
    /// transaction.put(&family, b"kept", b"2")?;
    /// transaction.put(&family, b"gone", b"3")?;
    /// transaction.rollback_to("before the attempt")?;
    /// transaction.commit()?;
    /// assert_eq!(db.get(&family, b"kept")?.expect("was put"), b"1");
    /// assert!(db.get(&family, b"gone")?.is_none());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `Aborted`.
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        self.check_active()?;
        self.savepoints.retain(|savepoint| savepoint.name != name);
        let mark = self.writes.mark();
        self.savepoints.push(Savepoint {
            name: name.to_owned(),
            mark,
        });
        Ok(())
    }

    /// Takes back exactly the writes made after the savepoint `name`, and removes it and all that were made after it.
    /// What was read stays remembered for the commit, and iterators that are open stay as they are.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no savepoint, `NotFound` when none has this name, `Closed`, `Aborted`.
    pub fn rollback_to(&mut self, name: &str) -> Result<()> {
        let index = self.find_savepoint(name)?;
        let had_spilled = self.writes.has_spilled();
        self.writes.truncate_to(&self.savepoints[index].mark);
        if had_spilled {
            self.engine.tidy_spilled();
        }
        self.savepoints.truncate(index);
        self.make_room(0)
    }

    /// Removes the savepoint `name` alone; the writes stay, and so do the other savepoints.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&mut self, name: &str) -> Result<()> {
        let index = self.find_savepoint(name)?;
        self.savepoints.remove(index);
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.check_active()?;
        if self.savepoints.is_empty() {
            return Err(Error::invalid("the transaction has no savepoint"));
        }
        let has_name = |savepoint: &Savepoint| savepoint.name == name;
        self.savepoints.iter().position(has_name).ok_or_else(|| {
            let message = format!("the transaction has no savepoint {name:?}");
            Error::new(ErrorKind::NotFound, message)
        })
    }
}
