//! Which families there are, with which order, and what is whole of their tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kingtide_base::{ComparatorRef, FamilyId, FileId, KeyOrder, SeqNo, built_in_comparator};
use kingtide_format::TableMeta;
use kingtide_table::{ScannedTable, klog_name, parse_klog_name, parse_vlog_name};

use super::{
    foreign,
    log::LogEntry,
    manifest::{Draft, FamilyDraft},
    report::{ManifestFound, RepairLoss, RepairReport},
    source::Source,
};
use crate::{
    error::{Error, ErrorKind, Result},
    family::{is_pending_name, validate_name, validate_options},
    options::FamilyOptions,
};

/// The order of a family of which nothing tells it.
const ORDER_DEFAULT: &str = "memcmp";

/// See the module.
pub(super) struct Survey {
    pub(super) draft: Draft,
    tables: BTreeMap<FileId, Arc<ScannedTable>>,
    /// Files that are whole enough to tell that they are not the ones which the manifest names.
    foreign: BTreeSet<FileId>,
}

/// What will be done for one family.
pub(super) struct Plan {
    pub(super) id: FamilyId,
    pub(super) name: String,
    pub(super) is_name_lost: bool,
    pub(super) are_settings_lost: bool,
    pub(super) options: FamilyOptions,
    pub(super) order: KeyOrder,
    /// Commits up to this one are in tables.
    pub(super) flushed_through: SeqNo,
    pub(super) tables: Vec<(FileId, Arc<ScannedTable>)>,
    /// What the log has for it.
    pub(super) log: Vec<LogEntry>,
    /// The footer checksums of value files, as far as the manifest tells them.
    pub(super) value_footers: Arc<BTreeMap<FileId, u64>>,
}

impl Survey {
    /// Reads the manifest and scans the tables. With `is_cut` it is known that the manifest lacks its end.
    ///
    /// # Errors
    /// `NewerVersion`, and what the system answers.
    pub(super) fn take(
        source: &Source,
        is_cut: bool,
        report: &mut RepairReport,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let (mut draft, loss) = Draft::read(source)?;
        report.losses.extend(loss);
        if foreign::is_manifest(source, &draft)? {
            report.losses.push(draft.disown());
        }
        let is_whole = draft.found == ManifestFound::Whole;
        if is_whole && (is_cut || leftovers_contradict(source, &draft)?) {
            report.losses.push(draft.distrust());
        }
        report.manifest = draft.found;
        let mut survey = Self {
            draft,
            tables: BTreeMap::new(),
            foreign: BTreeSet::new(),
        };
        survey.scan(source, report, progress)?;
        survey.attribute(report);
        survey.note_losses(report);
        Ok(survey)
    }

    /// Scans the tables that the manifest names; all there are when it is damaged.
    fn scan(
        &mut self,
        source: &Source,
        report: &mut RepairReport,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let families = self.draft.families.values();
        let named: BTreeMap<FileId, u64> = families
            .flat_map(|family| family.tables.values())
            .map(|meta| (meta.file, meta.footer_checksum))
            .collect();
        let mut wanted: BTreeSet<FileId> = named.keys().copied().collect();
        for (name, _) in &source.klog.files {
            let Some(file) = parse_klog_name(name) else {
                continue;
            };
            if self.draft.found != ManifestFound::Whole {
                wanted.insert(file);
            } else if !named.contains_key(&file) {
                report.leftovers.push(source.klog.path(name));
            }
        }
        self.note_value_leftovers(source, report);
        let bytes_all: u64 = source.klog.files.iter().map(|(_, bytes)| bytes).sum();
        let mut bytes_done = 0;
        for file_id in wanted {
            let name = klog_name(file_id);
            let path = source.klog.path(&name);
            let Some(file) = source.klog.read(&name)? else {
                continue;
            };
            let table = ScannedTable::scan(&*file, path, file_id)?;
            match (table.footer_checksum, named.get(&file_id)) {
                (Some(found), Some(&recorded)) if found != recorded => {
                    self.foreign.insert(file_id);
                }
                _ => {
                    self.tables.insert(file_id, Arc::new(table));
                }
            }
            report.tables += 1;
            let bytes = source.klog.files.iter().find(|(found, _)| *found == name);
            bytes_done += bytes.map_or(0, |(_, bytes)| *bytes);
            progress(bytes_done, bytes_all);
        }
        Ok(())
    }

    fn note_value_leftovers(&self, source: &Source, report: &mut RepairReport) {
        if self.draft.found != ManifestFound::Whole {
            return;
        }
        let families = self.draft.families.values();
        let used: BTreeSet<FileId> = families
            .flat_map(|family| family.tables.values())
            .flat_map(|table| table.value_files.iter().map(|used| used.file))
            .collect();
        for (name, _) in &source.vlog.files {
            if parse_vlog_name(name).is_some_and(|file| !used.contains(&file)) {
                report.leftovers.push(source.vlog.path(name));
            }
        }
    }

    /// Gives tables that no whole edit names to the family that they name themselves, and raises the numbers of those of
    /// bulk loads.
    fn attribute(&mut self, report: &mut RepairReport) {
        let draft = &mut self.draft;
        let mut bases = BTreeMap::new();
        let mut named = BTreeSet::new();
        for family in draft.families.values() {
            for meta in family.tables.values() {
                named.insert(meta.file);
                bases.insert(meta.file, meta.sequence_base);
            }
        }
        for (file, table) in &mut self.tables {
            if let (Some(base), Some(table)) = (bases.get(file), Arc::get_mut(table)) {
                table.sequence_base = *base;
            }
            if named.contains(file) {
                continue;
            }
            let told = table.properties.as_ref();
            let Some((id, properties)) =
                told.and_then(|told| Some((told.family.as_ref()?.0, told)))
            else {
                report.losses.push(RepairLoss {
                    file: format!("klog/{}", klog_name(*file)),
                    what: format!(
                        "a table of an unknown family, with {} entries",
                        table.entries
                    ),
                    ..RepairLoss::default()
                });
                continue;
            };
            if !draft.is_removed(id, *file) {
                let family = draft.families.entry(id).or_default();
                family.tables.insert(*file, properties.meta.clone());
            }
        }
    }

    /// Tells what is lost of tables, and of files that are missing.
    fn note_losses(&self, report: &mut RepairReport) {
        let mut owners: BTreeMap<FileId, Vec<String>> = BTreeMap::new();
        let mut metas = BTreeMap::new();
        for (id, family) in &self.draft.families {
            for (file, meta) in &family.tables {
                let name = family.name.clone().unwrap_or_else(|| lost_name(*id));
                owners.entry(*file).or_default().push(name);
                metas.insert(*file, meta);
            }
        }
        for (file, meta) in metas {
            let path = format!("klog/{}", klog_name(file));
            let families = owners.remove(&file).unwrap_or_default();
            let mut lose = |offset, bytes, what: String, keys: Option<_>| {
                report.losses.push(RepairLoss {
                    file: path.clone(),
                    offset,
                    bytes,
                    what,
                    families: families.clone(),
                    has_keys: keys.is_some(),
                    keys: keys.unwrap_or_default(),
                });
            };
            let Some(table) = self.tables.get(&file) else {
                let how = match self.foreign.contains(&file) {
                    true => "not the one that the manifest names, but of another database or time",
                    false => "missing",
                };
                let what = format!("the file is {how}, with {} entries", meta.entries);
                lose(0, meta.file_bytes, what, Some(ends_of(meta)));
                continue;
            };
            for damage in &table.damages {
                let what = match damage.may_hold_entries {
                    true => "entries",
                    false => "index, filter, properties or footer; no entries",
                };
                let between = || (damage.after.clone(), damage.before.clone());
                let keys = damage.may_hold_entries.then(between);
                lose(damage.offset, damage.bytes, what.to_owned(), keys);
            }
            if table.entries < meta.entries {
                let what = format!("{} entries in all", meta.entries - table.entries);
                lose(0, 0, what, Some(ends_of(meta)));
            }
            if table.properties.is_none() && meta.range_deletes > 0 {
                let what = "range deletes: what they deleted may be back".to_owned();
                lose(0, 0, what, Some(ends_of(meta)));
            }
        }
    }

    /// What is to be done for each family.
    ///
    /// # Errors
    /// `ComparatorMissing`.
    pub(super) fn plans(
        &self,
        comparators: &[ComparatorRef],
        report: &mut RepairReport,
    ) -> Result<Vec<Plan>> {
        let mut names = BTreeSet::new();
        let mut plans = Vec::new();
        let value_footers = Arc::new(self.draft.value_footers.clone());
        // The family of the newest table gets a name that two families had one after the other.
        let mut drafts: Vec<_> = self.draft.families.iter().collect();
        drafts.sort_by_key(|(_, family)| std::cmp::Reverse(family.tables.keys().max().copied()));
        for (id, family) in drafts {
            let tables: Vec<_> = family
                .tables
                .keys()
                .filter_map(|file| Some((*file, Arc::clone(self.tables.get(file)?))))
                .collect();
            let told = |table: &ScannedTable| {
                let (told, name) = table.properties.as_ref()?.family.clone()?;
                (told == *id).then_some(name)
            };
            let name = family
                .name
                .clone()
                .or_else(|| tables.iter().rev().find_map(|(_, table)| told(table)));
            if name.as_deref().is_some_and(is_pending_name) {
                report.losses.push(RepairLoss {
                    file: name.unwrap_or_default(),
                    what: "commits kept aside for a family whose comparator was missing: open the database once \
                           with the comparator, if it opens"
                        .to_owned(),
                    has_keys: true,
                    ..RepairLoss::default()
                });
                continue;
            }
            let name =
                name.filter(|name| validate_name(name).is_ok() && names.insert(name.clone()));
            let order_name = tables
                .iter()
                .find_map(|(_, table)| Some(table.properties.as_ref()?.order_name.clone()));
            plans.push(Plan {
                id: *id,
                is_name_lost: name.is_none(),
                name: name.unwrap_or_else(|| lost_name(*id)),
                are_settings_lost: family.options.is_none(),
                flushed_through: family.flushed_through,
                tables,
                value_footers: Arc::clone(&value_footers),
                ..Plan::new(*id, family.options.clone(), order_name, comparators)?
            });
        }
        plans.sort_by_key(|plan| plan.id);
        Ok(plans)
    }

    /// True when a record of the log for a family that no plan knows belongs to one that was dropped.
    pub(super) fn is_dropped(&self, family: FamilyId) -> bool {
        self.draft.found == ManifestFound::Whole || self.draft.is_removed(family, FileId::ZERO)
    }
}

impl Plan {
    /// A family of which only the id and maybe its settings or its order are known.
    ///
    /// # Errors
    /// `ComparatorMissing`.
    pub(super) fn new(
        id: FamilyId,
        options: Option<FamilyOptions>,
        order_name: Option<String>,
        comparators: &[ComparatorRef],
    ) -> Result<Self> {
        let known = options.filter(|options| validate_options(options).is_ok());
        let options = known.unwrap_or_else(|| FamilyOptions {
            comparator: order_name.unwrap_or_else(|| ORDER_DEFAULT.to_owned()),
            ..FamilyOptions::default()
        });
        let order = comparators
            .iter()
            .find(|order| order.name() == options.comparator)
            .cloned()
            .or_else(|| built_in_comparator(&options.comparator));
        let order = order.ok_or_else(|| {
            Error::new(
                ErrorKind::ComparatorMissing,
                format!(
                    "comparator {:?} is not known: put it into RepairOptions::comparators",
                    options.comparator
                ),
            )
        })?;
        Ok(Self {
            id,
            name: lost_name(id),
            is_name_lost: true,
            are_settings_lost: true,
            options,
            order: KeyOrder::new(order),
            flushed_through: SeqNo::ZERO,
            tables: Vec::new(),
            log: Vec::new(),
            value_footers: Arc::default(),
        })
    }
}

/// True when a table that the manifest does not name is of a family that it never knew: families are in the manifest before
/// they get tables, so its end is missing.
fn leftovers_contradict(source: &Source, draft: &Draft) -> Result<bool> {
    for (name, _) in &source.klog.files {
        let Some(file_id) = parse_klog_name(name) else {
            continue;
        };
        let is_named = |family: &FamilyDraft| family.tables.contains_key(&file_id);
        if draft.families.values().any(is_named) {
            continue;
        }
        let Some(file) = source.klog.read(name)? else {
            continue;
        };
        let table = ScannedTable::scan(&*file, source.klog.path(name), file_id)?;
        let family = table.properties.and_then(|told| told.family);
        if family.is_some_and(|(id, _)| id >= draft.next_family) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The smallest and the largest key of a table.
fn ends_of(meta: &TableMeta) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (Some(meta.smallest.clone()), Some(meta.largest.clone()))
}

/// The name of a family whose own is lost.
fn lost_name(id: FamilyId) -> String {
    format!("lost-{id}")
}
