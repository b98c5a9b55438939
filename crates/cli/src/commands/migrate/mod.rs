//! `migrate`: copies a database of another library, which has the C interface of TidesDB 9, through that library.
//!
//! Families are copied one after the other, each in batches. A batch and the mark that says how far the copy has come are
//! one transaction, so that an interrupted migration goes on behind the last batch that was stored. The marks are in a
//! family of their own, which is dropped at the end; a target that has other families and no marks is refused.
//!
//! When all is copied, source and target are read again side by side, and compared byte for byte. Meanwhile nothing else
//! can write to the source, which is open here, but entries expire. So where the source does not tell when, an entry that
//! only the target has is taken for expired and removed.
//!
//! Not copied: what interface and library do not tell. Expiry times, except from Kingtide's own library; commit hooks; key
//! orders that only the program knows, whose families are refused.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use kingtide::{
    ColumnFamily, Compression, Db, ErrorKind, FamilyOptions, Iter, IterOptions, SyncMode,
    TransactionOptions,
};
use kingtide_bench::engines::{FamilySettings, ForeignDatabase, ForeignEntry};
use serde_json::{Value, json};

use crate::{
    args::{Global, MigrateArgs},
    commands::{expiry_in, open_for_writing},
    failure::{Failure, Result},
    output::Output,
    text::{from_hex, hex, size},
};

/// Where the marks are. A name that no other program gives.
const MARKS: &str = "kingtide-migration";
// A batch is stored when it has so many entries, or so many bytes.
const BATCH_ENTRIES_MAX: usize = 1000;
const BATCH_BYTES_MAX: usize = 4 << 20;
// A commit that is refused because writers are ahead has already waited; it is tried so often.
const BUSY_ATTEMPTS_MAX: usize = 10;

pub(super) fn run(args: &MigrateArgs, global: &Global, output: &mut Output) -> Result<()> {
    let source = ForeignDatabase::open(args.lib.as_deref(), &args.from)?;
    let to = target_of(args)?;
    let names = chosen(&source, global.family.as_deref())?;
    check_expiry(&source, args, &names, output)?;
    let target = open_for_writing(&to, true)?;
    let outcome = migrate(&source, &target, &names, args, output);
    // Closed even after a failure, so that the copy can go on from there; the first error is the one to tell.
    let closed = target.close().map_err(Failure::from);
    let totals = outcome.inspect_err(|failure| {
        // A usage error says itself what to do.
        if !matches!(failure, Failure::Usage(..)) {
            output.note("run the same command again to go on from where it stopped");
        }
    })?;
    closed?;
    source.close()?;
    let object = json!({
        "from": args.from.display().to_string(),
        "to": to.display().to_string(),
        "families": names.len(),
        "entries": totals.entries,
        "bytes": totals.bytes,
        "verified": true,
    });
    output.summary(&object, || {
        format!(
            "migrated {} families, {} entries, {} to {}; every key and value compared",
            names.len(),
            totals.entries,
            size(totals.bytes),
            to.display()
        )
    })
}

/// `--to`, or the name of the source with an ending.
fn target_of(args: &MigrateArgs) -> Result<PathBuf> {
    let to = args.to.clone().unwrap_or_else(|| {
        let mut name = args.from.components().as_path().as_os_str().to_owned();
        name.push(".kingtide");
        PathBuf::from(name)
    });
    let is_source = |to: &Path| {
        let found = std::fs::canonicalize(to);
        found.is_ok_and(|to| std::fs::canonicalize(&args.from).is_ok_and(|from| from == to))
    };
    if is_source(&to) {
        return Err(Failure::Usage(
            "source and target are the same directory".into(),
            "name a new directory with --to",
        ));
    }
    Ok(to)
}

/// The families to copy.
fn chosen(source: &ForeignDatabase, only: Option<&str>) -> Result<Vec<String>> {
    let mut names = source.families()?;
    names.sort();
    if let Some(only) = only {
        if !names.iter().any(|name| name == only) {
            return Err(Failure::Usage(
                format!(
                    "the source has no family {only:?}, it has {}",
                    names.join(", ")
                ),
                "leave --family out to copy all",
            ));
        }
        names.retain(|name| name == only);
    }
    if names.iter().any(|name| name == MARKS) {
        return Err(Failure::Usage(
            format!("the source has a family {MARKS:?}, a name that this command needs for itself"),
            "rename that family with the source's library",
        ));
    }
    Ok(names)
}

/// Says what becomes of expiry times.
fn check_expiry(
    source: &ForeignDatabase,
    args: &MigrateArgs,
    names: &[String],
    output: &Output,
) -> Result<()> {
    for (family, _) in &args.ttl {
        if !names.contains(family) {
            return Err(Failure::Usage(
                format!("--ttl: {family:?} is none of the families that are copied"),
                "write --ttl FAMILY=SECONDS",
            ));
        }
    }
    if source.tells_expiry() {
        if !args.ttl.is_empty() {
            return Err(Failure::Usage(
                "--ttl is for libraries that do not tell when entries expire; this one does".into(),
                "leave --ttl out: every entry keeps its own time",
            ));
        }
    } else if args.ttl.len() < names.len() {
        output.note(
            "this library does not tell when entries expire: what is alive is copied to stay, except in families with --ttl",
        );
    }
    Ok(())
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    entries: u64,
    bytes: u64,
}

fn migrate(
    source: &ForeignDatabase,
    target: &Db,
    names: &[String],
    args: &MigrateArgs,
    output: &mut Output,
) -> Result<Totals> {
    let marks = marks_of(target)?;
    let mut totals = Totals::default();
    let mut copies = Vec::new();
    for name in names {
        let mut copy = FamilyCopy::begin(source, target, &marks, name, args)?;
        copy.run(output)?;
        copies.push(copy);
    }
    target.sync_wal()?;
    for copy in &mut copies {
        copy.verify(output)?;
        totals.entries += copy.mark.entries;
        totals.bytes += copy.mark.bytes;
        copy.report(output)?;
    }
    target.drop_family(MARKS)?;
    Ok(totals)
}

/// The family of the marks; a target without one must be empty.
fn marks_of(target: &Db) -> Result<ColumnFamily> {
    match target.family(MARKS) {
        Ok(marks) => Ok(marks),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if !target.families().is_empty() {
                return Err(Failure::Usage(
                    "the target holds data, and none of an interrupted migration".into(),
                    "name a new directory with --to",
                ));
            }
            Ok(target.create_family(MARKS, FamilyOptions::default())?)
        }
        Err(error) => Err(error.into()),
    }
}

/// How far the copy of a family has come.
#[derive(Clone, Debug, Default)]
struct Mark {
    last_key: Option<Vec<u8>>,
    is_complete: bool,
    entries: u64,
    bytes: u64,
    /// Given to every entry, with `--ttl`.
    expires_at: Option<i64>,
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        json!({
            "last_key": self.last_key.as_deref().map(hex),
            "is_complete": self.is_complete,
            "entries": self.entries,
            "bytes": self.bytes,
            "expires_at": self.expires_at,
        })
        .to_string()
        .into_bytes()
    }

    /// `None` for what [`Self::encode`] never writes.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let last_key = match value.get("last_key")? {
            Value::Null => None,
            text => Some(from_hex(text.as_str()?.as_bytes())?),
        };
        Some(Self {
            last_key,
            is_complete: value.get("is_complete")?.as_bool()?,
            entries: value.get("entries")?.as_u64()?,
            bytes: value.get("bytes")?.as_u64()?,
            expires_at: value.get("expires_at")?.as_i64(),
        })
    }
}

/// One family on its way.
struct FamilyCopy<'a> {
    source: &'a ForeignDatabase,
    target: &'a Db,
    marks: &'a ColumnFamily,
    name: &'a str,
    family: ColumnFamily,
    mark: Mark,
    resumed: bool,
    /// About how many keys the source says it has.
    keys: u64,
    expiring: u64,
    expired_meanwhile: u64,
}

/// Owned entries of one transaction.
type Batch = Vec<(Vec<u8>, Vec<u8>, Option<i64>)>;

impl<'a> FamilyCopy<'a> {
    fn begin(
        source: &'a ForeignDatabase,
        target: &'a Db,
        marks: &'a ColumnFamily,
        name: &'a str,
        args: &MigrateArgs,
    ) -> Result<Self> {
        let (settings, keys) = source.settings(name)?;
        let family = target.open_family(name, options_of(&settings))?;
        let mark = match target.get(marks, name.as_bytes())? {
            None => None,
            Some(bytes) => Some(Mark::decode(&bytes).ok_or_else(|| {
                Failure::Usage(
                    format!("the mark of family {name:?} is none that this command writes"),
                    "remove the target and begin again",
                )
            })?),
        };
        let resumed = mark.is_some();
        let mark = mark.unwrap_or_else(|| Mark {
            expires_at: args
                .ttl
                .iter()
                .find(|(family, _)| family == name)
                .map(|(_, seconds)| expiry_in(*seconds)),
            ..Mark::default()
        });
        Ok(Self {
            source,
            target,
            marks,
            name,
            family,
            mark,
            resumed,
            keys,
            expiring: 0,
            expired_meanwhile: 0,
        })
    }

    /// Copies what is not copied yet.
    fn run(&mut self, output: &Output) -> Result<()> {
        if self.mark.is_complete {
            return Ok(());
        }
        let bar = output.progress(None);
        bar.set_message(format!("{}: copying about {} keys", self.name, self.keys));
        let (source, name, after) = (self.source, self.name, self.mark.last_key.clone());
        let (mut batch, mut bytes) = (Batch::new(), 0);
        source.scan::<Failure>(name, after.as_deref(), &mut |entry| {
            bytes += entry.key.len() + entry.value.len();
            batch.push((entry.key.to_vec(), entry.value.to_vec(), entry.expires_at));
            if batch.len() >= BATCH_ENTRIES_MAX || bytes >= BATCH_BYTES_MAX {
                self.store(&mut batch, false)?;
                bar.inc(bytes as u64);
                bytes = 0;
            }
            Ok(true)
        })?;
        self.store(&mut batch, true)?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Stores a batch together with the mark, and empties it.
    fn store(&mut self, batch: &mut Batch, is_last: bool) -> Result<()> {
        let mut mark = self.mark.clone();
        mark.is_complete = is_last;
        mark.entries += batch.len() as u64;
        for (key, value, _) in batch.iter() {
            mark.bytes += (key.len() + value.len()) as u64;
        }
        if let Some((key, ..)) = batch.last() {
            mark.last_key = Some(key.clone());
        }
        let encoded = mark.encode();
        let mut attempts = 0;
        loop {
            // Synced once, at the end: a mark never outlives the entries that it speaks of.
            let mut transaction = self.target.begin_with(TransactionOptions {
                sync: Some(SyncMode::None),
                ..TransactionOptions::default()
            })?;
            for (key, value, expires_at) in batch.iter() {
                // 0 is never.
                let expires_at = expires_at.or(mark.expires_at).unwrap_or(0);
                transaction.put_expiring(&self.family, key, value, expires_at)?;
            }
            transaction.put(self.marks, self.name.as_bytes(), &encoded)?;
            match transaction.commit() {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Busy && attempts < BUSY_ATTEMPTS_MAX => {
                    attempts += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.mark = mark;
        batch.clear();
        Ok(())
    }

    /// Reads both sides again and compares them.
    fn verify(&mut self, output: &Output) -> Result<()> {
        let bar = output.progress(Some(self.mark.bytes));
        bar.set_message(format!("{}: comparing", self.name));
        let mut found = TargetSide::new(self)?;
        let mut totals = Totals::default();
        let (source, name) = (self.source, self.name);
        let mut expiring = 0;
        source.scan::<Failure>(name, None, &mut |entry| {
            if !found.has_next(entry)? {
                return Err(differs(name, entry.key));
            }
            totals.entries += 1;
            totals.bytes += (entry.key.len() + entry.value.len()) as u64;
            expiring += u64::from(entry.expires_at.is_some());
            bar.set_position(totals.bytes);
            Ok(true)
        })?;
        while found.is_valid {
            if !found.pass_over()? {
                return Err(differs(name, found.iter.key()));
            }
        }
        bar.finish_and_clear();
        for key in &found.expired {
            self.target.delete(&self.family, key)?;
        }
        self.expired_meanwhile = found.expired.len() as u64;
        self.expiring = expiring;
        (self.mark.entries, self.mark.bytes) = (totals.entries, totals.bytes);
        Ok(())
    }

    fn report(&self, output: &mut Output) -> Result<()> {
        let expiry = if self.source.tells_expiry() {
            json!("kept")
        } else {
            self.mark
                .expires_at
                .map_or(json!("unknown"), |at| json!(at))
        };
        let object = json!({
            "family": self.name,
            "entries": self.mark.entries,
            "bytes": self.mark.bytes,
            "expiring": self.expiring,
            "expiry": expiry,
            "expired_meanwhile": self.expired_meanwhile,
            "resumed": self.resumed,
            "verified": true,
        });
        output.summary(&object, || {
            let resumed = if self.resumed { ", resumed" } else { "" };
            format!(
                "{}: {} entries, {}{resumed}",
                self.name,
                self.mark.entries,
                size(self.mark.bytes)
            )
        })
    }
}

/// The copy of a family while it is compared. Its iterator is made before the source's, so its clock is not ahead.
struct TargetSide {
    iter: Iter,
    is_valid: bool,
    tells_expiry: bool,
    /// Keys that the source no longer has, for want of another reason because they expired there.
    expired: Vec<Vec<u8>>,
}

impl TargetSide {
    fn new(copy: &FamilyCopy<'_>) -> Result<Self> {
        let mut iter = copy.target.iter(&copy.family, IterOptions::default())?;
        Ok(Self {
            is_valid: iter.seek_to_first()?,
            iter,
            tells_expiry: copy.source.tells_expiry(),
            expired: Vec::new(),
        })
    }

    /// True when the next entry is this one; those in between must have expired in the source.
    fn has_next(&mut self, entry: ForeignEntry<'_>) -> Result<bool> {
        while self.is_valid {
            if self.iter.key() == entry.key {
                let is_same = self.iter.value()? == entry.value
                    && (!self.tells_expiry || self.iter.expires_at() == entry.expires_at);
                self.is_valid = self.iter.next()?;
                return Ok(is_same);
            }
            if !self.pass_over()? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Goes over an entry that the source does not have; false, and stays, when it cannot have expired.
    fn pass_over(&mut self) -> Result<bool> {
        if !self.tells_expiry {
            self.expired.push(self.iter.key().to_vec());
        } else if self.iter.expires_at().is_none_or(|at| at > expiry_in(0)) {
            return Ok(false);
        }
        self.is_valid = self.iter.next()?;
        Ok(true)
    }
}

fn differs(family: &str, key: &[u8]) -> Failure {
    Failure::Usage(
        format!(
            "family {family:?}: source and target differ at key {}",
            key.escape_ascii()
        ),
        "the source was changed after an interrupted migration: remove the target and begin again",
    )
}

/// The settings of a family, as far as they mean the same here; what is out of range becomes the default.
fn options_of(settings: &FamilySettings) -> FamilyOptions {
    let defaults = FamilyOptions::default();
    let count = |number: i32, default: usize| {
        usize::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .unwrap_or(default)
    };
    let rate = settings.bloom_false_positive_rate;
    let density = settings.tombstone_density_trigger;
    FamilyOptions {
        write_buffer_bytes: match settings.write_buffer_bytes {
            0 => defaults.write_buffer_bytes,
            bytes => bytes.clamp(4096, 16 << 30),
        },
        level_size_ratio: match settings.level_size_ratio {
            0 => defaults.level_size_ratio,
            ratio => ratio.clamp(2, 1000),
        },
        min_levels: count(settings.min_levels, defaults.min_levels)
            .min(kingtide::limits::LEVELS_MAX),
        value_threshold_bytes: settings.value_threshold_bytes,
        compression: match settings.compression {
            0 => Compression::None,
            1 => Compression::Snappy,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            4 => Compression::Lz4Fast,
            _ => defaults.compression,
        },
        bloom_filter: settings.bloom_filter,
        bloom_false_positive_rate: if rate > 0.0 && rate < 1.0 {
            rate
        } else {
            defaults.bloom_false_positive_rate
        },
        sync: match (settings.sync_mode, settings.sync_interval_us) {
            (0, _) => SyncMode::None,
            (2, interval) if interval > 0 => {
                SyncMode::Interval(std::time::Duration::from_micros(interval))
            }
            _ => SyncMode::Full,
        },
        comparator: match settings.comparator.as_str() {
            "" => defaults.comparator.clone(),
            "reverse" => "reverse_memcmp".to_owned(),
            name => name.to_owned(),
        },
        l1_file_count_trigger: count(
            settings.l1_file_count_trigger,
            defaults.l1_file_count_trigger,
        ),
        l0_queue_stall_threshold: count(
            settings.l0_queue_stall_threshold,
            defaults.l0_queue_stall_threshold,
        ),
        tombstone_density_trigger: if density > 0.0 && density <= 1.0 {
            density
        } else {
            defaults.tombstone_density_trigger
        },
        tombstone_density_entries_min: settings.tombstone_density_entries_min,
        ..defaults
    }
}
