//! The calls of commit hooks for one write set; the rules are in [`hook`](crate::family::hook).

use kingtide_base::{EntryKind, SeqNo};

use super::write_set::{Section, WriteSet};
use crate::{
    error::Result,
    family::hook::{self, CommitOperation, OperationList, PutOff},
};

impl WriteSet {
    /// Refuses what a hook writes to its own family.
    ///
    /// # Errors
    /// `Busy`.
    pub(super) fn check_hooks(&self) -> Result<()> {
        self.sections()
            .try_for_each(|section| section.family.hooks.check_outside())
    }

    /// Takes a ticket of every hooked family. Inside the ordered step, when nothing can fail any more.
    pub(super) fn take_hook_tickets(&mut self) {
        for section in self.sections_mut() {
            section.hook_ticket = section.family.hooks.ticket();
        }
    }

    /// Calls the hooks of the commit `sequence`, which is durable and visible; inside a hook, puts the calls off.
    pub(super) fn call_hooks(&mut self, sequence: SeqNo) {
        let mut has_called = false;
        for section in self.sections_mut() {
            let Some(ticket) = section.hook_ticket.take() else {
                continue;
            };
            let family = section.family.name();
            if let Err(message) = section.load_values() {
                ticket.fail(message);
                continue;
            }
            if hook::is_inside_any() {
                hook::put_off(PutOff {
                    ticket,
                    family,
                    sequence,
                    operations: Box::new(OwnedOperations::copy(section)),
                });
            } else {
                ticket.call(&family, sequence, section);
                section.unload_values();
                has_called = true;
            }
        }
        if has_called {
            hook::call_put_off();
        }
    }

    /// Gives the tickets up: it is not known whether the commit is there.
    pub(super) fn abandon_hooks(&mut self) {
        for section in self.sections_mut() {
            section.hook_ticket = None;
        }
    }
}

impl OperationList for Section {
    fn count(&self) -> usize {
        self.op_count()
    }

    fn operation(&self, index: usize) -> CommitOperation<'_> {
        let op = self.hooked(index);
        operation(op.kind, op.key, op.value, op.expires_at)
    }
}

fn operation<'a>(
    kind: EntryKind,
    key: &'a [u8],
    value: &'a [u8],
    expires_at: i64,
) -> CommitOperation<'a> {
    match kind {
        EntryKind::Delete => CommitOperation::Delete { key },
        EntryKind::SingleDelete => CommitOperation::SingleDelete { key },
        EntryKind::RangeDelete => CommitOperation::RangeDelete {
            start: key,
            end: value,
        },
        // Nothing writes merge operands.
        EntryKind::Put | EntryKind::PutSpilled | EntryKind::PutPacked | EntryKind::Merge => {
            CommitOperation::Put {
                key,
                value,
                expires_at,
            }
        }
    }
}

/// The operations of a transaction that may be gone when its hook is called.
struct OwnedOperations {
    bytes: Vec<u8>,
    operations: Vec<OwnedOperation>,
}

/// Where an operation ends in the bytes; it begins where the one before ends.
struct OwnedOperation {
    kind: EntryKind,
    expires_at: i64,
    key_end: usize,
    value_end: usize,
}

impl OwnedOperations {
    fn copy(section: &Section) -> Self {
        let mut copy = Self {
            bytes: Vec::new(),
            operations: Vec::with_capacity(section.op_count()),
        };
        for index in 0..section.op_count() {
            let op = section.hooked(index);
            copy.bytes.extend_from_slice(op.key);
            let key_end = copy.bytes.len();
            copy.bytes.extend_from_slice(op.value);
            copy.operations.push(OwnedOperation {
                kind: op.kind,
                expires_at: op.expires_at,
                key_end,
                value_end: copy.bytes.len(),
            });
        }
        copy
    }
}

impl OperationList for OwnedOperations {
    fn count(&self) -> usize {
        self.operations.len()
    }

    fn operation(&self, index: usize) -> CommitOperation<'_> {
        let start = match index.checked_sub(1) {
            Some(before) => self.operations[before].value_end,
            None => 0,
        };
        let op = &self.operations[index];
        let key = &self.bytes[start..op.key_end];
        let value = &self.bytes[op.key_end..op.value_end];
        operation(op.kind, key, value, op.expires_at)
    }
}
