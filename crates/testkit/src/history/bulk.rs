//! Bulk loads of a history: one commit each, which is durable in every mode, or nothing.

use kingtide::{ErrorKind, SyncMode};

use super::driver::Driver;
use crate::violation::{Checked, Violation, ensure};

/// Entries of a load, at most.
const ENTRIES_MAX: usize = 400;

impl Driver {
    /// Loads entries in order, some of which other commits wrote before; sometimes the load is given up.
    pub(super) fn bulk_load(&mut self) -> Checked {
        let name = self.some_family();
        let order = self.model.order(self.families[&name].number);
        let count = self.random.between(1, ENTRIES_MAX);
        let mut writes = Vec::with_capacity(count);
        for _ in 0..count {
            let is_expiring = self.random.one_in(15);
            writes.push(self.some_write(&name, 0, is_expiring));
        }
        writes.sort_by(|left, right| order.compare(&left.key, &right.key));
        writes.dedup_by(|left, right| order.compare(&left.key, &right.key).is_eq());
        let is_given_up = self.random.one_in(10);
        let what = if is_given_up { ", given up" } else { "" };
        self.note(format!("bulk load of {} to {name}{what}", writes.len()));
        let is_in_use = self.is_in_use(&name);
        let mut loader = self.db.bulk_load(&self.families[&name].handle)?;
        for write in &writes {
            let value = write.value.as_deref().unwrap_or_default();
            loader.put_expiring(&write.key, value, write.expires_at)?;
        }
        if is_given_up {
            return Ok(());
        }
        match loader.finish() {
            Ok(_) if is_in_use => Err(Violation::new(
                "a load went to a family that a prepared transaction uses",
            )),
            Err(error) if is_in_use && error.kind() == ErrorKind::Busy => Ok(()),
            Err(error) => Err(Violation::from(error).within("bulk load")),
            Ok(report) => {
                ensure(report.entries == writes.len() as u64, || {
                    format!("a load of {} entries: {report:?}", writes.len())
                })?;
                self.check_sequence(report.sequence)?;
                self.committed(&writes, Some(SyncMode::Full));
                Ok(())
            }
        }
    }
}
