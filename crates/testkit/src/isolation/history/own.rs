//! What a transaction has written so far, savepoints taken into account.

use super::record::{Key, Number, Operation};

/// The writes of one transaction, the last one of each key. Keeps its memory from one transaction to the next.
#[derive(Debug, Default)]
pub struct Own {
    writes: Vec<(Key, Option<Number>)>,
    saved: Option<Vec<(Key, Option<Number>)>>,
}

impl Own {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.saved = None;
    }

    /// Takes an operation; reads change nothing.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Read { .. } => {}
            Operation::Write(key, number) => self.put(*key, *number),
            Operation::Clear(keys) => keys.clone().for_each(|key| self.put(key, None)),
            Operation::Save => self.saved = Some(self.writes.clone()),
            Operation::Undo => {
                if let Some(saved) = self.saved.take() {
                    self.writes = saved;
                }
            }
        }
    }

    fn put(&mut self, key: Key, number: Option<Number>) {
        match self.writes.iter_mut().find(|write| write.0 == key) {
            Some(write) => write.1 = number,
            None => self.writes.push((key, number)),
        }
    }

    /// What it wrote under `key`: nothing, a number, or a deletion.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Option<Number>> {
        let write = self.writes.iter().find(|write| write.0 == key);
        write.map(|write| write.1)
    }

    /// All writes.
    #[must_use]
    pub fn writes(&self) -> &[(Key, Option<Number>)] {
        &self.writes
    }
}
