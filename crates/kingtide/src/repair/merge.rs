//! The live entries of a family: of each key the newest whole version, unless that is a delete, is hidden by a range
//! delete or has expired.
//!
//! Every table is a sorted source of its own, opened when the merge reaches its first key and let go behind its last, so
//! that few are open at a time. Sources are taken by key, then newest first.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use kingtide_base::{
    EntryKind, FileId, Fragments, KeyOrder, RangeTombstone, SeqNo, StorageError, ValuePointer,
};
use kingtide_table::{
    ScannedEntries, ScannedEntry, ScannedTable, ScannedValue, klog_name, scan_value, vlog_name,
};

use super::{
    foreign::{FoundFile, value_file},
    report::{RepairLoss, RepairedFamily},
    source::Source,
    survey::Plan,
};
use crate::error::Result;

/// Takes key, value and expiry.
pub(super) type Sink<'a> = dyn FnMut(&[u8], &[u8], i64) -> Result<()> + 'a;
/// Value files kept open.
const FILES_OPEN_MAX: usize = 64;

/// Hands the live entries of a family to `sink`, in order; counts them, and tells which values are lost.
///
/// # Errors
/// What reading and the sink answer.
pub(super) fn live_entries(
    source: &Source,
    plan: &Plan,
    now: i64,
    (found, losses): (&mut RepairedFamily, &mut Vec<RepairLoss>),
    sink: &mut Sink<'_>,
) -> Result<()> {
    let order = &plan.order;
    let ranges = ranges_of(plan);
    let mut values = Values::new(source, plan);
    let mut merge = Merge::new(source, plan);
    let mut last_key: Option<Vec<u8>> = None;
    while let Some(entry) = merge.next()? {
        let is_same = |last: &Vec<u8>| order.compare(last, &entry.key).is_eq();
        if last_key.as_ref().is_some_and(is_same) {
            continue;
        }
        last_key = Some(entry.key.clone());
        let is_hidden = ranges.cover(order, &entry.key, SeqNo::MAX) > entry.sequence;
        let is_expired = entry.expires_at != 0 && entry.expires_at <= now;
        if entry.kind != EntryKind::Put || is_hidden || is_expired {
            continue;
        }
        let value = match entry.value {
            ScannedValue::Inline(value) => Some(value),
            ScannedValue::Separated(pointer) => values.read(&pointer, (order, &entry.key))?,
        };
        match value {
            Some(value) => {
                found.entries += 1;
                sink(&entry.key, &value, entry.expires_at)?;
            }
            None => found.lost_keys += 1,
        }
    }
    losses.extend(values.into_losses(&plan.name));
    Ok(())
}

/// The range deletes of tables and log.
fn ranges_of(plan: &Plan) -> Fragments {
    let mut raised = Vec::new();
    for (_, table) in &plan.tables {
        let fragments = table.properties.iter().flat_map(|told| &told.ranges);
        for fragment in fragments {
            raised.push((&*fragment.start, &*fragment.end, fragment.newest()));
        }
    }
    let deletes = plan.log.iter();
    let deletes = deletes.filter(|entry| entry.kind == EntryKind::RangeDelete);
    raised.extend(deletes.map(|entry| (&*entry.key, &*entry.value, entry.sequence)));
    let tombstones = raised
        .into_iter()
        .map(|(start, end, sequence)| RangeTombstone {
            start,
            end,
            sequence,
        });
    Fragments::build(&plan.order, tombstones, &[SeqNo::MAX])
}

/// Where entries come from.
enum Origin {
    /// A table that the merge has not reached.
    Waiting(Arc<ScannedTable>, FileId),
    Table(ScannedEntries),
    /// What is left of the log, from its next entry on.
    Log(usize),
}

/// A source by its next entry.
struct Head {
    entry: ScannedEntry,
    origin: Origin,
    order: KeyOrder,
}

impl Ord for Head {
    /// The largest is taken first: the smallest key, of it the newest version. A table that waits goes before all
    /// versions of its first key.
    fn cmp(&self, other: &Self) -> Ordering {
        self.order
            .compare(&other.entry.key, &self.entry.key)
            .then(self.entry.sequence.cmp(&other.entry.sequence))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

struct Merge<'a> {
    source: &'a Source,
    plan: &'a Plan,
    heads: BinaryHeap<Head>,
}

impl<'a> Merge<'a> {
    fn new(source: &'a Source, plan: &'a Plan) -> Self {
        let mut merge = Self {
            source,
            plan,
            heads: BinaryHeap::new(),
        };
        for (file, table) in &plan.tables {
            let Some(key) = table.first_key.clone() else {
                continue;
            };
            let entry = ScannedEntry {
                key,
                sequence: SeqNo::MAX,
                kind: EntryKind::Delete,
                expires_at: 0,
                value: ScannedValue::Inline(Vec::new()),
            };
            merge.push(entry, Origin::Waiting(Arc::clone(table), *file));
        }
        merge.push_log(0);
        merge
    }

    fn push(&mut self, entry: ScannedEntry, origin: Origin) {
        let order = self.plan.order.clone();
        self.heads.push(Head {
            entry,
            origin,
            order,
        });
    }

    fn push_log(&mut self, from: usize) {
        let rest = self.plan.log.iter().enumerate().skip(from);
        let mut points = rest.filter(|(_, entry)| entry.kind != EntryKind::RangeDelete);
        if let Some((index, entry)) = points.next() {
            let (kind, value) = match (entry.kind, ValuePointer::decode(&entry.value)) {
                (EntryKind::PutSpilled, Some(pointer)) => {
                    (EntryKind::Put, ScannedValue::Separated(pointer))
                }
                (kind, _) => (kind, ScannedValue::Inline(entry.value.clone())),
            };
            let entry = ScannedEntry {
                key: entry.key.clone(),
                sequence: entry.sequence,
                kind,
                expires_at: entry.expires_at,
                value,
            };
            self.push(entry, Origin::Log(index + 1));
        }
    }

    fn next(&mut self) -> Result<Option<ScannedEntry>> {
        while let Some(Head { entry, origin, .. }) = self.heads.pop() {
            match origin {
                Origin::Waiting(table, file) => {
                    let name = klog_name(file);
                    let opened = self.source.klog.read(&name)?.ok_or_else(|| gone(&name))?;
                    self.advance(table.entries(opened))?;
                }
                Origin::Table(entries) => {
                    self.advance(entries)?;
                    return Ok(Some(entry));
                }
                Origin::Log(next) => {
                    self.push_log(next);
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    fn advance(&mut self, mut entries: ScannedEntries) -> Result<()> {
        if let Some(entry) = entries.step()? {
            self.push(entry, Origin::Table(entries));
        }
        Ok(())
    }
}

fn gone(name: &str) -> StorageError {
    let error = std::io::ErrorKind::NotFound.into();
    StorageError::io(format!("klog/{name}"), "open", error)
}

/// Reads separated values, and remembers which are lost.
pub(super) struct Values<'a> {
    source: &'a Source,
    plan: &'a Plan,
    open: BTreeMap<FileId, FoundFile>,
    /// Lost values by file: how many, the first damage, and the first and the last key.
    lost: BTreeMap<FileId, (u64, String, Vec<u8>, Vec<u8>)>,
}

impl<'a> Values<'a> {
    /// Of the family of `plan` in the database at `source`.
    pub(super) fn new(source: &'a Source, plan: &'a Plan) -> Self {
        Self {
            source,
            plan,
            open: BTreeMap::new(),
            lost: BTreeMap::new(),
        }
    }

    /// The value that `pointer` leads to; `None` when it is lost.
    pub(super) fn read(
        &mut self,
        pointer: &ValuePointer,
        (order, key): (&KeyOrder, &[u8]),
    ) -> Result<Option<Vec<u8>>> {
        let name = vlog_name(pointer.file);
        if self.open.len() >= FILES_OPEN_MAX && !self.open.contains_key(&pointer.file) {
            self.open.clear();
        }
        let file = match self.open.get(&pointer.file) {
            Some(file) => file.clone(),
            None => {
                let file = value_file(self.source, self.plan, (pointer.file, &name))?;
                self.open.insert(pointer.file, file.clone());
                file
            }
        };
        let what = match file {
            Err(what) => what.to_owned(),
            Ok(file) => {
                let path = self.source.vlog.path(&name);
                match scan_value(&*file, &path, pointer, (order, key)) {
                    Ok(value) => return Ok(Some(value)),
                    Err(StorageError::Corruption(damage)) => {
                        format!("{} at offset {}", damage.what, damage.offset)
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let lost = self
            .lost
            .entry(pointer.file)
            .or_insert_with(|| (0, what, key.to_vec(), Vec::new()));
        lost.0 += 1;
        lost.3 = key.to_vec();
        Ok(None)
    }

    /// The values that were asked for and are lost; `family` is whose.
    pub(super) fn into_losses(self, family: &str) -> impl Iterator<Item = RepairLoss> {
        let family = family.to_owned();
        self.lost
            .into_iter()
            .map(move |(file, (count, what, first, last))| RepairLoss {
                file: format!("vlog/{}", vlog_name(file)),
                offset: 0,
                bytes: 0,
                what: format!("the newest values of {count} keys ({what})"),
                families: vec![family.clone()],
                has_keys: true,
                keys: (Some(first), Some(last)),
            })
    }
}
