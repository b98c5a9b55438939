//! The naive model: for each family an ordered map from key to all versions, and the list of commits.
//!
//! It answers what a read at any commit must see, and after a power cut it finds the prefix of the commit order that a
//! recovered database holds ([`Model::find_prefix`]). Commits are numbered from 1 without gaps.
//!
//! Time is known only as a span ([`ClockSpan`]): an entry that expires inside it may be there or not.
//!
//! What it does not do: isolation between threads. One thread drives the histories that are compared with it.

mod ranges;

use std::collections::BTreeMap;

use kingtide_base::KeyOrder;

use crate::{
    dump::Dump,
    order::{OrderedKey, key_order},
    violation::{Checked, Violation, ensure},
};

/// Names a family of the model for ever, also when it is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FamilyNumber(u64);

/// The clock was somewhere in this span when the database judged expiry, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct ClockSpan {
    /// The clock before the call.
    pub from_micros: u64,
    /// The clock after the call.
    pub to_micros: u64,
}

/// One write of a transaction.
#[derive(Clone, Debug)]
pub struct Write {
    /// The family.
    pub family: FamilyNumber,
    /// The key, or the first key of a range that is deleted.
    pub key: Vec<u8>,
    /// The first key behind the range; `None` for a write of one key.
    pub end: Option<Vec<u8>>,
    /// The new value; `None` deletes.
    pub value: Option<Vec<u8>>,
    /// Unix seconds at which the value expires; 0 or less for never.
    pub expires_at: i64,
}

/// What a read must answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected<'a> {
    /// Nothing.
    Absent,
    /// This value.
    Present(&'a [u8]),
    /// This value or nothing: it expires about now.
    Either(&'a [u8]),
}

impl Expected<'_> {
    /// Compares an answer.
    ///
    /// # Errors
    /// A violation that shows both.
    pub fn check(&self, found: Option<&[u8]>, what: impl FnOnce() -> String) -> Checked {
        let holds = match (self, found) {
            (Self::Absent | Self::Either(_), None) => true,
            (Self::Present(value) | Self::Either(value), Some(found)) => *value == found,
            (Self::Absent, Some(_)) | (Self::Present(_), None) => false,
        };
        ensure(holds, || {
            format!(
                "{}: found {}, expected {}",
                what(),
                show(found),
                self.describe()
            )
        })
    }

    fn describe(&self) -> String {
        match self {
            Self::Absent => "nothing".to_owned(),
            Self::Present(value) => show(Some(value)),
            Self::Either(value) => format!("{} or nothing", show(Some(value))),
        }
    }
}

/// A value for people: its length and its first bytes.
#[must_use]
pub fn show(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let head = &value[..value.len().min(24)];
            format!("{} bytes \"{}\"", value.len(), head.escape_ascii())
        }
    }
}

/// An entry that an iterator must visit, or may visit when it is not certain.
#[derive(Clone, Debug)]
pub struct ExpectedEntry {
    /// The key.
    pub key: OrderedKey,
    /// The value.
    pub value: Vec<u8>,
    /// False when the entry expires about now.
    pub is_certain: bool,
}

#[derive(Clone, Debug)]
struct Version {
    commit: u64,
    value: Option<Vec<u8>>,
    expires_at: i64,
}

impl Version {
    fn expected(&self, clock: ClockSpan) -> Expected<'_> {
        judge_expiry(self.value.as_deref(), self.expires_at, clock)
    }
}

impl Write {
    /// What a read in the writing transaction must answer for the key.
    #[must_use]
    pub fn expected(&self, clock: ClockSpan) -> Expected<'_> {
        judge_expiry(self.value.as_deref(), self.expires_at, clock)
    }
}

fn judge_expiry(value: Option<&[u8]>, expires_at: i64, clock: ClockSpan) -> Expected<'_> {
    let Some(value) = value else {
        return Expected::Absent;
    };
    if expires_at <= 0 {
        return Expected::Present(value);
    }
    let expiry_micros = expires_at.unsigned_abs().saturating_mul(1_000_000);
    // One second of slack: the contract counts seconds and leaves open which side the second itself is on.
    if expiry_micros.saturating_add(1_000_000) <= clock.from_micros {
        Expected::Absent
    } else if expiry_micros > clock.to_micros {
        Expected::Present(value)
    } else {
        Expected::Either(value)
    }
}

#[derive(Clone, Debug)]
struct ModelFamily {
    order: KeyOrder,
    keys: BTreeMap<OrderedKey, Vec<Version>>,
    /// Oldest first.
    deleted: Vec<ranges::DeletedRange>,
}

impl ModelFamily {
    fn newest(&self, key: &OrderedKey, at: u64) -> Option<&Version> {
        self.keys
            .get(key)?
            .iter()
            .rev()
            .find(|version| version.commit <= at)
    }
}

/// The state of a database, with all versions.
#[derive(Clone, Debug, Default)]
pub struct Model {
    families: BTreeMap<FamilyNumber, ModelFamily>,
    names: BTreeMap<String, FamilyNumber>,
    families_created: u64,
    /// The keys that each commit wrote; commit 1 first.
    commits: Vec<Vec<(FamilyNumber, OrderedKey)>>,
}

impl Model {
    /// The number of the newest commit; 0 before the first.
    #[must_use]
    pub fn last_commit(&self) -> u64 {
        self.commits.len() as u64
    }

    /// The names of the families, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// The family of that name.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<FamilyNumber> {
        self.names.get(name).copied()
    }

    /// The order of a family; byte order for one that was dropped.
    #[must_use]
    pub fn order(&self, family: FamilyNumber) -> KeyOrder {
        self.families
            .get(&family)
            .map_or(KeyOrder::BYTEWISE, |family| family.order.clone())
    }

    fn add(&mut self, name: &str, family: ModelFamily) -> FamilyNumber {
        self.families_created += 1;
        let number = FamilyNumber(self.families_created);
        self.families.insert(number, family);
        self.names.insert(name.to_owned(), number);
        number
    }

    /// Creates a family sorted by the comparator of that name.
    pub fn create(&mut self, name: &str, comparator: &str) -> FamilyNumber {
        let family = ModelFamily {
            order: key_order(comparator),
            keys: BTreeMap::new(),
            deleted: Vec::new(),
        };
        self.add(name, family)
    }

    /// Drops a family.
    pub fn drop_family(&mut self, name: &str) {
        if let Some(number) = self.names.remove(name) {
            self.families.remove(&number);
        }
    }

    /// Renames a family.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(number) = self.names.remove(from) {
            self.names.insert(to.to_owned(), number);
        }
    }

    /// Gives the present content of a family a second name and a life of its own.
    pub fn clone_family(&mut self, from: &str, to: &str) -> Option<FamilyNumber> {
        let family = self.families.get(self.names.get(from)?)?.clone();
        Some(self.add(to, family))
    }

    /// Commits `writes`; of several to one key the last wins. The number of the commit.
    pub fn commit(&mut self, writes: &[Write]) -> u64 {
        let commit = self.last_commit() + 1;
        let mut touched = Vec::new();
        for write in writes {
            let Some(family) = self.families.get_mut(&write.family) else {
                continue;
            };
            if let Some(end) = &write.end {
                let keys = family.delete_range(commit, &write.key, end);
                touched.extend(keys.into_iter().map(|key| (write.family, key)));
                continue;
            }
            let key = OrderedKey::new(&family.order, &write.key);
            let version = Version {
                commit,
                value: write.value.clone(),
                expires_at: write.expires_at,
            };
            let versions = family.keys.entry(key.clone()).or_default();
            if versions.last().is_some_and(|last| last.commit == commit) {
                versions.pop();
            }
            versions.push(version);
            touched.push((write.family, key));
        }
        self.commits.push(touched);
        commit
    }

    /// The commit that wrote `key` last, or deleted a range with it; 0 when none did.
    #[must_use]
    pub fn written_at(&self, family: FamilyNumber, key: &[u8]) -> u64 {
        self.families.get(&family).map_or(0, |model| {
            let key = OrderedKey::new(&model.order, key);
            let version = model.newest(&key, u64::MAX);
            let written = version.map_or(0, |version| version.commit);
            written.max(model.range_deleted_at(&key))
        })
    }

    /// The newest commit that wrote to `family`; 0 when none did.
    #[must_use]
    pub fn last_commit_of(&self, family: FamilyNumber) -> u64 {
        let newest = |versions: &Vec<Version>| versions.last().map_or(0, |version| version.commit);
        let of_keys = self.families.get(&family).map_or(0, |model| {
            model.keys.values().map(newest).max().unwrap_or(0)
        });
        of_keys.max(self.last_range_of(family))
    }

    /// What a read of `key` at commit `at` must answer.
    #[must_use]
    pub fn get(&self, family: FamilyNumber, key: &[u8], at: u64, clock: ClockSpan) -> Expected<'_> {
        self.families
            .get(&family)
            .and_then(|model| model.newest(&OrderedKey::new(&model.order, key), at))
            .map_or(Expected::Absent, |version| version.expected(clock))
    }

    /// What an iterator over the whole family at commit `at`, with `writes` of its own transaction on top, must visit.
    #[must_use]
    pub fn entries(
        &self,
        family: FamilyNumber,
        at: u64,
        clock: ClockSpan,
        writes: &[Write],
    ) -> Vec<ExpectedEntry> {
        let Some(model) = self.families.get(&family) else {
            return Vec::new();
        };
        let mut visible: BTreeMap<OrderedKey, Version> = BTreeMap::new();
        for key in model.keys.keys() {
            if let Some(version) = model.newest(key, at) {
                visible.insert(key.clone(), version.clone());
            }
        }
        for write in writes.iter().filter(|write| write.family == family) {
            if write.end.is_some() {
                visible.retain(|key, _| !write.concerns(&model.order, &key.bytes));
                continue;
            }
            let version = Version {
                commit: u64::MAX,
                value: write.value.clone(),
                expires_at: write.expires_at,
            };
            visible.insert(OrderedKey::new(&model.order, &write.key), version);
        }
        visible
            .into_iter()
            .filter_map(|(key, version)| {
                let (value, is_certain) = match version.expected(clock) {
                    Expected::Absent => return None,
                    Expected::Present(value) => (value.to_vec(), true),
                    Expected::Either(value) => (value.to_vec(), false),
                };
                Some(ExpectedEntry {
                    key,
                    value,
                    is_certain,
                })
            })
            .collect()
    }

    /// Finds the longest prefix of the commits, not shorter than `floor`, after which the database would look like
    /// `dump`, and forgets the commits behind it.
    ///
    /// # Errors
    /// A violation when there is none, which shows what differs from the nearest prefix, or when the names differ.
    pub fn find_prefix(&mut self, dump: &Dump, floor: u64, clock: ClockSpan) -> Checked<u64> {
        let names = self.names();
        let found: Vec<String> = dump.keys().cloned().collect();
        ensure(found == names, || {
            format!("the families are {found:?}, expected {names:?}")
        })?;
        let actual = self.index(dump);
        let last = self.last_commit();
        let mut wrong: BTreeMap<(FamilyNumber, OrderedKey), String> = BTreeMap::new();
        let keys: Vec<(FamilyNumber, OrderedKey)> = self
            .families
            .iter()
            .flat_map(|(number, family)| family.keys.keys().map(|key| (*number, key.clone())))
            .chain(actual.keys().cloned())
            .collect();
        for place in keys {
            self.judge(&place, &actual, clock, &mut wrong);
        }
        let mut nearest = (wrong.clone(), last);
        loop {
            if wrong.is_empty() {
                return Ok(self.last_commit());
            }
            if wrong.len() < nearest.0.len() {
                nearest = (wrong.clone(), self.last_commit());
            }
            if self.last_commit() <= floor {
                break;
            }
            for place in self.undo() {
                self.judge(&place, &actual, clock, &mut wrong);
            }
        }
        let differences: Vec<String> = nearest.0.into_values().take(5).collect();
        Err(Violation::new(format!(
            "no prefix of commits {floor} to {last} matches; the nearest is {}, which differs in {}",
            nearest.1,
            differences.join("; ")
        )))
    }

    fn index(&self, dump: &Dump) -> BTreeMap<(FamilyNumber, OrderedKey), Vec<u8>> {
        let mut actual = BTreeMap::new();
        for (name, entries) in dump {
            let Some(number) = self.family(name) else {
                continue;
            };
            let order = self.order(number);
            for (key, value) in entries {
                actual.insert((number, OrderedKey::new(&order, key)), value.clone());
            }
        }
        actual
    }

    /// Records whether the newest version of one key agrees with what was found.
    fn judge(
        &self,
        place: &(FamilyNumber, OrderedKey),
        actual: &BTreeMap<(FamilyNumber, OrderedKey), Vec<u8>>,
        clock: ClockSpan,
        wrong: &mut BTreeMap<(FamilyNumber, OrderedKey), String>,
    ) {
        let Some(family) = self.families.get(&place.0) else {
            wrong.remove(place);
            return;
        };
        let expected = family
            .newest(&place.1, u64::MAX)
            .map_or(Expected::Absent, |version| version.expected(clock));
        let found = actual.get(place).map(Vec::as_slice);
        let answer = expected.check(found, || format!("family {:?} key {:?}", place.0, place.1));
        match answer {
            Ok(()) => wrong.remove(place),
            Err(violation) => wrong.insert(place.clone(), violation.to_string()),
        };
    }

    /// Forgets the commits behind `commit`.
    pub fn forget_behind(&mut self, commit: u64) {
        while self.last_commit() > commit {
            self.undo();
        }
    }

    /// Takes the newest commit back; the keys that it wrote.
    fn undo(&mut self) -> Vec<(FamilyNumber, OrderedKey)> {
        let commit = self.last_commit();
        let touched = self.commits.pop().unwrap_or_default();
        for family in self.families.values_mut() {
            family.deleted.retain(|range| range.commit != commit);
        }
        for (number, key) in &touched {
            let Some(family) = self.families.get_mut(number) else {
                continue;
            };
            if let Some(versions) = family.keys.get_mut(key) {
                versions.retain(|version| version.commit != commit);
                if versions.is_empty() {
                    family.keys.remove(key);
                }
            }
        }
        touched
    }
}

#[cfg(test)]
mod tests;
