//! The state of a shell: the database, the family in use, the transaction if one is open.

use std::os::unix::ffi::OsStrExt;

use kingtide::{ColumnFamily, Db, FamilyOptions, IsolationLevel, Transaction, TransactionOptions};
use serde_json::json;

use crate::{
    args::{DeletedKeys, ScanArgs},
    commands::{
        expiry_in,
        point::{Deletion, print_value},
        print_families, print_stats, scan,
    },
    failure::{Failure, Result},
    output::Output,
};

use super::command::{self, Command, Isolation, Request};

/// Entries that `scan` prints at a terminal when no limit is given.
const SCAN_ENTRIES_AT_TERMINAL: u64 = 100;

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Next,
    Exit,
}

pub(super) struct Session {
    db: Db,
    family: ColumnFamily,
    family_name: String,
    transaction: Option<Transaction>,
    interactive: bool,
}

impl Session {
    pub(super) fn new(db: Db, family: ColumnFamily, interactive: bool) -> Self {
        Self {
            db,
            family_name: family.name(),
            family,
            transaction: None,
            interactive,
        }
    }

    /// The family in use; a star while a transaction is open.
    pub(super) fn prompt(&self) -> String {
        let star = if self.transaction.is_some() { "*" } else { "" };
        format!("{}{star}> ", self.family_name)
    }

    /// Rolls an open transaction back, and says so.
    pub(super) fn end(&mut self, output: &Output) {
        if self.transaction.take().is_some() {
            output.note("the open transaction was rolled back");
        }
    }

    pub(super) fn run_line(&mut self, line: &[u8], output: &mut Output) -> Result<Step> {
        match command::parse(line)? {
            Request::Nothing => Ok(Step::Next),
            Request::Help(text) => {
                output.line(text.trim_end())?;
                Ok(Step::Next)
            }
            Request::Run(Command::Exit) => Ok(Step::Exit),
            Request::Run(command) => {
                self.run(command, output)?;
                Ok(Step::Next)
            }
        }
    }

    fn run(&mut self, command: Command, output: &mut Output) -> Result<()> {
        match command {
            Command::Get { key } => self.get(key.as_bytes(), output),
            Command::Put { key, value, ttl } => {
                let expires_at = ttl.map_or(0, expiry_in);
                self.put(key.as_bytes(), value.as_bytes(), expires_at)
            }
            Command::Delete(keys) => self.delete(&keys),
            Command::Scan(args) => self.scan(&args, output),
            Command::Begin { isolation } => self.begin(isolation),
            Command::Commit => {
                let mut transaction = self.take_transaction()?;
                let sequence = transaction.commit()?;
                output.summary(&json!({"committed": sequence.0}), || {
                    format!("committed as {sequence}")
                })
            }
            Command::Rollback => Ok(self.take_transaction()?.rollback()?),
            Command::Use { family } => {
                self.family = self.db.family(&family)?;
                self.family_name = family;
                Ok(())
            }
            Command::Families => print_families(&self.db, output),
            Command::CreateFamily { name } => {
                self.db.create_family(&name, FamilyOptions::default())?;
                Ok(())
            }
            Command::DropFamily { name } => self.drop_family(&name),
            Command::Flush => Ok(self.db.flush(&self.family)?),
            Command::Compact => Ok(self.db.compact(&self.family)?),
            Command::Stats => print_stats(&self.db, None, output),
            // Ends the loop before it comes here.
            Command::Exit => Ok(()),
        }
    }

    fn get(&self, key: &[u8], output: &mut Output) -> Result<()> {
        let value = match &self.transaction {
            None => self.db.get(&self.family, key)?,
            Some(transaction) => transaction.get(&self.family, key)?,
        };
        let found = print_value(output, key, value.as_deref(), false)?;
        if found || output.json {
            return Ok(());
        }
        output.line("(not found)")
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires_at: i64) -> Result<()> {
        match &mut self.transaction {
            None => self.db.put_expiring(&self.family, key, value, expires_at)?,
            Some(transaction) => transaction.put_expiring(&self.family, key, value, expires_at)?,
        }
        Ok(())
    }

    fn delete(&mut self, keys: &DeletedKeys) -> Result<()> {
        let deletion = Deletion::of(keys, false)?;
        if let Some(transaction) = &mut self.transaction {
            return deletion.apply(transaction, &self.family);
        }
        let mut transaction = self.db.begin()?;
        deletion.apply(&mut transaction, &self.family)?;
        transaction.commit()?;
        Ok(())
    }

    fn scan(&self, args: &ScanArgs, output: &mut Output) -> Result<()> {
        let default_limit = self.interactive.then_some(SCAN_ENTRIES_AT_TERMINAL);
        let limit = args.limit.or(default_limit);
        let mut iter = scan::iter_of(&self.db, self.transaction.as_ref(), &self.family, args)?;
        let more = scan::print_entries(&mut iter, args, limit, output)?;
        if more && args.limit.is_none() {
            output.flush()?;
            output.note("there are more; --limit COUNT prints them");
        }
        Ok(())
    }

    fn begin(&mut self, isolation: Isolation) -> Result<()> {
        if self.transaction.is_some() {
            return Err(Failure::Usage(
                "a transaction is open already".into(),
                "`commit` or `rollback` ends it",
            ));
        }
        let isolation = match isolation {
            Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            Isolation::Snapshot => IsolationLevel::Snapshot,
            Isolation::Serializable => IsolationLevel::Serializable,
        };
        self.transaction = Some(self.db.begin_with(TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        })?);
        Ok(())
    }

    fn take_transaction(&mut self) -> Result<Transaction> {
        self.transaction
            .take()
            .ok_or_else(|| Failure::Usage("no transaction is open".into(), "`begin` opens one"))
    }

    fn drop_family(&mut self, name: &str) -> Result<()> {
        if name == self.family_name {
            return Err(Failure::Usage(
                format!("the family {name:?} is in use here"),
                "`use` another one first",
            ));
        }
        Ok(self.db.drop_family(name)?)
    }
}
