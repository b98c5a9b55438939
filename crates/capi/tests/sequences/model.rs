//! What a database should answer: families as ordered maps, transactions as lists of writes over a view.
//!
//! Whether a transaction gets a conflict is told from what it did as far as that is simple: it must when another one
//! changed a key that it writes, at the levels with one view; it must not when nothing else could be the cause.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// The entries of a family that a read finds.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// A family, whatever it is called.
pub type FamilyNumber = u32;

/// All families at one moment.
pub type State = BTreeMap<FamilyNumber, Rc<Entries>>;

/// One write.
#[derive(Clone, Debug)]
pub enum Change {
    /// A value, or none: deleted, or expired when it was put.
    Key(Vec<u8>, Option<Vec<u8>>),
    /// All keys from the first on and before the second; without a second one all that begin with the first.
    Range(Vec<u8>, Option<Vec<u8>>),
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        match self {
            Self::Key(key, Some(value)) => {
                entries.insert(key.clone(), value.clone());
            }
            Self::Key(key, None) => {
                entries.remove(key);
            }
            Self::Range(start, end) => entries.retain(|key, _| match end {
                Some(end) => key < start || key >= end,
                None => !key.starts_with(start),
            }),
        }
    }
}

/// A family and a write to it.
pub type Write = (FamilyNumber, Change);

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// From 0, read uncommitted, to 4, serializable.
    pub level: i32,
    /// What was committed when it began.
    pub view: State,
    /// Its writes in order.
    pub writes: Vec<Write>,
    /// Savepoints: names, and how many writes there were.
    pub savepoints: Vec<(String, usize)>,
    /// It read for update.
    pub has_locks: bool,
    /// Families that it touched in any way.
    pub touched: BTreeSet<FamilyNumber>,
}

impl Transaction {
    /// True from repeatable read on.
    pub fn has_one_view(&self) -> bool {
        self.level >= 2
    }

    /// Families that it writes to.
    pub fn written(&self) -> BTreeSet<FamilyNumber> {
        self.writes.iter().map(|(family, _)| *family).collect()
    }
}

/// The committed state and what waits.
#[derive(Default)]
pub struct Model {
    /// What is committed.
    pub committed: State,
    /// The families by name.
    pub names: BTreeMap<String, FamilyNumber>,
    /// Prepared transactions by xid.
    pub prepared: BTreeMap<Vec<u8>, Vec<Write>>,
    /// Xids that were ever prepared.
    pub used_xids: BTreeSet<Vec<u8>>,
    families_made: FamilyNumber,
}

impl Model {
    /// An empty family.
    pub fn create(&mut self, name: &str) {
        self.families_made += 1;
        self.committed
            .insert(self.families_made, Rc::new(Entries::new()));
        self.names.insert(name.to_owned(), self.families_made);
    }

    /// Drops a family.
    pub fn drop_family(&mut self, name: &str) {
        if let Some(number) = self.names.remove(name) {
            self.committed.remove(&number);
        }
    }

    /// Copies a family.
    pub fn clone_family(&mut self, from: &str, to: &str) {
        let entries = self
            .names
            .get(from)
            .and_then(|from| self.committed.get(from));
        let entries = entries.cloned().unwrap_or_default();
        self.create(to);
        self.committed.insert(self.families_made, entries);
    }

    /// A transaction that begins now.
    pub fn begin(&self, level: i32) -> Transaction {
        self.begin_at(level, self.committed.clone())
    }

    /// A transaction that reads at `view`.
    pub fn begin_at(&self, level: i32, view: State) -> Transaction {
        Transaction {
            level,
            view,
            writes: Vec::new(),
            savepoints: Vec::new(),
            has_locks: false,
            touched: BTreeSet::new(),
        }
    }

    /// Is a family of that number alive?
    pub fn lives(&self, family: FamilyNumber) -> bool {
        self.committed.contains_key(&family)
    }

    /// What `transaction` sees of a family; `None` when that is not known: the family is younger than the view.
    pub fn seen(&self, transaction: &Transaction, family: FamilyNumber) -> Option<Entries> {
        let below = if transaction.has_one_view() {
            &transaction.view
        } else {
            &self.committed
        };
        let mut entries = Entries::clone(below.get(&family)?);
        for (target, change) in &transaction.writes {
            if *target == family {
                change.apply(&mut entries);
            }
        }
        Some(entries)
    }

    /// Applies writes to what is committed.
    pub fn apply(&mut self, writes: &[Write]) {
        for (family, change) in writes {
            if let Some(entries) = self.committed.get_mut(family) {
                change.apply(Rc::make_mut(entries));
            }
        }
    }

    /// True when somebody changed a key that `transaction` writes.
    pub fn must_conflict(&self, transaction: &Transaction) -> bool {
        transaction.has_one_view()
            && transaction.writes.iter().any(|(family, change)| {
                let Change::Key(key, _) = change else {
                    return false;
                };
                let (Some(now), Some(then)) =
                    (self.committed.get(family), transaction.view.get(family))
                else {
                    return false;
                };
                now.get(key) != then.get(key)
            })
    }

    /// True when a conflict has a possible cause.
    pub fn may_conflict(&self, transaction: &Transaction) -> bool {
        let writes = !transaction.writes.is_empty();
        transaction.has_locks || writes && (transaction.has_one_view() || !self.prepared.is_empty())
    }

    /// True when a prepared transaction writes to the family.
    pub fn is_prepared_for(&self, family: FamilyNumber) -> bool {
        let mut writes = self.prepared.values().flatten();
        writes.any(|(target, _)| *target == family)
    }
}
