//! Every byte of every file, damaged.
//!
//! A small database with tables and value files (some with a dictionary), a manifest and a log is built in the world in memory
//! and killed. Then, for each byte of each file, a copy of that world gets this byte inverted, and another copy one of its
//! bits. The database is opened and everything is read, by key and by iterators in both directions. Each answer must be
//! right, or an error that says that bytes are damaged; never wrong, never missing without an error, never a panic.
//!
//! The last commit alone may be missing without an error when the damage is in the log: nothing behind it can say that
//! it was there, so this looks like a commit that was cut off by a crash.
//!
//! Long runs of zeros (space that a log keeps for later) are sampled.
//!
//! [`matrix`] does more than flip bytes: files cut off, blocks exchanged, stale or foreign blocks and files.

pub mod matrix;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use kingtide::{
    ColumnFamily, Compression, Db, Error, ErrorKind, FamilyOptions, IterOptions, SyncMode,
    TransactionOptions,
};
use kingtide_base::FileId;
use kingtide_env::{CrashImage, MemoryEnv};
use kingtide_format::{klog::dump_klog, vlog::dump_vlog};

use crate::{
    random::Random,
    violation::{Checked, Violation, ensure, no_panic},
    world,
};

/// In a run of zeros longer than this, only one byte in so many is damaged.
const ZEROS_STRIDE: usize = 4096;

/// What becomes of a byte.
#[derive(Clone, Copy, Debug)]
pub enum Flip {
    /// All bits.
    Invert,
    /// The bit that the offset chooses.
    OneBit,
}

/// What a proof over damages went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct DamageTally {
    /// Damaged copies.
    pub damages: u64,
    /// Copies that refused to open.
    pub refused: u64,
    /// Copies that opened and reported the damage in some read.
    pub reported: u64,
    /// Copies whose every answer was right.
    pub harmless: u64,
}

impl std::ops::AddAssign for DamageTally {
    fn add_assign(&mut self, other: Self) {
        self.damages += other.damages;
        self.refused += other.refused;
        self.reported += other.reported;
        self.harmless += other.harmless;
    }
}

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// What all families show.
type State = BTreeMap<&'static str, Content>;

/// A database at rest and what it must show.
pub struct Specimen {
    env: MemoryEnv,
    families: State,
    /// The family, key and value of the last commit.
    last: (&'static str, Vec<u8>, Vec<u8>),
    /// What it shows after each commit that is not in tables, and before the first of them.
    states: Vec<State>,
    /// The same database at earlier moments.
    earlier: Vec<MemoryEnv>,
}

/// One place to damage.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The byte, counted from its start.
    pub offset: u64,
}

/// Puts values that resemble each other, so many that their value file, or their table, gets a dictionary.
fn put_phrases(db: &Db, families: &mut State) -> Checked {
    let mut transaction = db.begin()?;
    let phrase = "A phrase, over and over. ";
    let long_phrase = "A phrase that has more of its own than it repeats: it is compressed better with others beside it. ";
    for (name, phrase, repeats) in [("packed", phrase, 16), ("phrases", long_phrase, 30)] {
        let family = db.family(name)?;
        for number in 0..48 {
            let key = format!("a phrase {number:02}").into_bytes();
            let value = phrase.repeat(repeats) + &number.to_string();
            transaction.put(&family, &key, value.as_bytes())?;
            let content = families.entry(name).or_default();
            content.insert(key, value.into_bytes());
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Families of different compression, one with all its values in tables; they are empty.
fn create_families(db: &Db) -> Checked<State> {
    let mut families = State::new();
    let (none, lz4) = (Compression::None, Compression::Lz4);
    let kinds = [
        ("plain", none, 128),
        ("packed", lz4, 128),
        ("phrases", lz4, 0),
    ];
    for (name, compression, value_threshold_bytes) in kinds {
        let options = FamilyOptions {
            value_threshold_bytes,
            compression,
            disk_free_bytes_min: 0,
            sync: SyncMode::Full,
            ..FamilyOptions::default()
        };
        db.create_family(name, options)?;
        families.insert(name, Content::new());
    }
    Ok(families)
}

impl Specimen {
    /// Builds the database.
    ///
    /// # Errors
    /// What the database answers.
    pub fn build() -> Checked<Self> {
        Self::build_with(5)
    }

    /// A database of the same history, with other values and other salts for each `seed`.
    fn build_with(seed: u64) -> Checked<Self> {
        let env = MemoryEnv::new(seed);
        let db = Db::open(world::DATABASE, world::options(&env))?;
        let mut families = create_families(&db)?;
        let mut random = Random::new(seed + 6);
        let mut states = Vec::new();
        let mut earlier = vec![env.kill()];
        // Two flushes with values in and out of the table, then commits that stay in the log.
        for round in 0..3 {
            states = vec![families.clone()];
            if round == 0 {
                put_phrases(&db, &mut families)?;
                states.push(families.clone());
            }
            for number in 0..12 {
                let mut transaction = db.begin_with(TransactionOptions::default())?;
                for (name, content) in &mut families {
                    let key = format!("key{:02}", number + round * 4).into_bytes();
                    let length = if number % 4 == 0 { 200 } else { 20 };
                    let value = random.bytes(length);
                    transaction.put(&db.family(name)?, &key, &value)?;
                    content.insert(key, value);
                }
                transaction.commit()?;
                states.push(families.clone());
            }
            earlier.push(env.kill());
            if round < 2 {
                db.flush(&db.family("plain")?)?;
                db.flush(&db.family("packed")?)?;
                db.flush(&db.family("phrases")?)?;
                earlier.push(env.kill());
            }
        }
        db.wait_idle()?;
        let last = (
            "plain",
            b"last".to_vec(),
            b"nothing comes after this".to_vec(),
        );
        db.put(&db.family(last.0)?, &last.1, &last.2)?;
        let mut shown = families.clone();
        shown
            .entry(last.0)
            .or_default()
            .insert(last.1.clone(), last.2.clone());
        states.push(shown);
        let found = env.kill();
        world::power_off(&env);
        let _ = db.close();
        let specimen = Self {
            env: found,
            families,
            last,
            states,
            earlier,
        };
        specimen.check_undamaged()?;
        Ok(specimen)
    }

    /// It shows its content, and damages reach all that they should.
    fn check_undamaged(&self) -> Checked {
        let outcome = self.check_copy(&self.copy(), false)?;
        ensure(matches!(outcome, Outcome::Harmless), || {
            "the undamaged database does not show its content".to_owned()
        })?;
        ensure(self.shows(dump_vlog, "with the dictionary"), || {
            "no value file has a dictionary".to_owned()
        })?;
        ensure(self.shows(dump_klog, "dictionary blocks"), || {
            "no table has a dictionary".to_owned()
        })
    }

    /// True when what `dump` makes of a file contains `text`.
    fn shows(&self, dump: fn(&[u8], FileId) -> String, text: &str) -> bool {
        self.env.paths().iter().any(|path| {
            let number = path
                .file_stem()
                .and_then(|name| name.to_str()?.parse().ok());
            let bytes = self.env.read_file(path).unwrap_or_default();
            let shown = number.map(|number| dump(&bytes, FileId(number)));
            shown.is_some_and(|shown| shown.contains(text))
        })
    }

    /// All places to damage.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for path in self.env.paths() {
            let bytes = self.env.read_file(&path).unwrap_or_default();
            let used = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 64);
            for offset in 0..bytes.len() {
                if offset < used || offset.is_multiple_of(ZEROS_STRIDE) {
                    places.push(Place {
                        path: path.clone(),
                        offset: offset as u64,
                    });
                }
            }
        }
        places
    }

    /// A copy of the world at rest.
    #[must_use]
    pub fn copy(&self) -> MemoryEnv {
        self.env.crash(CrashImage::Everything, 3)
    }

    /// Damages one byte of a copy and checks what it shows.
    ///
    /// # Errors
    /// The violation, with the place.
    pub fn check(&self, place: &Place, flip: Flip, is_read_only: bool) -> Checked<DamageTally> {
        let env = self.copy();
        env.corrupt(&place.path, place.offset, |byte| match flip {
            Flip::Invert => *byte ^= 0xff,
            Flip::OneBit => *byte ^= 1 << (place.offset % 8),
        });
        let outcome = no_panic(|| self.check_damaged(&env, &place.path, is_read_only));
        world::power_off(&env);
        outcome.map_err(|violation| {
            violation.within(format_args!(
                "{} offset {} {flip:?}{}",
                place.path.display(),
                place.offset,
                if is_read_only {
                    " opened for reading only"
                } else {
                    ""
                }
            ))
        })
    }

    /// Cuts a file of a copy short and checks what it shows.
    ///
    /// # Errors
    /// The violation, with the place.
    pub fn check_truncated(&self, path: &Path, bytes: usize) -> Checked<DamageTally> {
        let mut content = self.env.read_file(path).unwrap_or_default();
        content.truncate(bytes);
        self.check_replaced(path, &content)
    }

    /// Puts other bytes in the place of a file of a copy and checks what it shows.
    ///
    /// # Errors
    /// The violation, with the place.
    pub fn check_replaced(&self, path: &Path, content: &[u8]) -> Checked<DamageTally> {
        let env = self.copy();
        env.write_file(path, content)?;
        let outcome = no_panic(|| self.check_damaged(&env, path, false));
        world::power_off(&env);
        outcome.map_err(|violation| {
            violation.within(format_args!(
                "{} replaced by {} bytes",
                path.display(),
                content.len()
            ))
        })
    }

    /// The files of the database and their lengths in bytes.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, usize)> {
        let length = |path: &PathBuf| self.env.read_file(path).map_or(0, |bytes| bytes.len());
        self.env
            .paths()
            .into_iter()
            .map(|path| (path.clone(), length(&path)))
            .collect()
    }

    fn check_damaged(
        &self,
        env: &MemoryEnv,
        path: &Path,
        is_read_only: bool,
    ) -> Checked<DamageTally> {
        let outcome = self.check_copy(env, is_read_only)?;
        let mut tally = DamageTally {
            damages: 1,
            ..DamageTally::default()
        };
        match outcome {
            Outcome::Refused => tally.refused = 1,
            Outcome::Reported => tally.reported = 1,
            Outcome::Harmless => tally.harmless = 1,
            Outcome::LastMissing => {
                tally.harmless = 1;
                let is_log = path.extension().is_some_and(|extension| extension == "wal");
                ensure(is_log, || {
                    "the last commit is missing without an error".to_owned()
                })?;
            }
        }
        Ok(tally)
    }

    fn check_copy(&self, env: &MemoryEnv, is_read_only: bool) -> Checked<Outcome> {
        let mut options = world::options(env);
        options.read_only = is_read_only;
        let db = match Db::open(world::DATABASE, options) {
            Ok(db) => db,
            Err(error) => {
                check_kind(&error, "open")?;
                return Ok(Outcome::Refused);
            }
        };
        let mut seen = Seen::default();
        for (name, content) in &self.families {
            match db.family(name) {
                Ok(family) => self.check_family(&db, &family, content, &mut seen)?,
                Err(error) => seen.damage(&error, "family")?,
            }
        }
        let _ = db.close();
        Ok(match seen {
            Seen { damages: 1.., .. } => Outcome::Reported,
            Seen {
                is_last_missing: true,
                ..
            } => Outcome::LastMissing,
            Seen { .. } => Outcome::Harmless,
        })
    }

    fn check_family(
        &self,
        db: &Db,
        family: &ColumnFamily,
        content: &Content,
        seen: &mut Seen,
    ) -> Checked {
        let has_last = family.name() == self.last.0;
        for (key, value) in content {
            match db.get(family, key) {
                Ok(found) => ensure(found.as_deref() == Some(value.as_slice()), || {
                    format!("get of \"{}\" is wrong", key.escape_ascii())
                })?,
                Err(error) => seen.damage(&error, "get")?,
            }
        }
        for absent in [&b"a"[..], b"key00x", b"z"] {
            match db.get(family, absent) {
                Ok(found) => ensure(found.is_none(), || {
                    "get found a key that was never put".to_owned()
                })?,
                Err(error) => seen.damage(&error, "get")?,
            }
        }
        let mut content = content.clone();
        if has_last {
            match db.get(family, &self.last.1) {
                Ok(Some(found)) => {
                    ensure(*found == *self.last.2, || {
                        "get of the last commit is wrong".to_owned()
                    })?;
                    content.insert(self.last.1.clone(), self.last.2.clone());
                }
                Ok(None) => seen.is_last_missing = true,
                Err(error) => seen.damage(&error, "get")?,
            }
        }
        let forward: Vec<(&Vec<u8>, &Vec<u8>)> = content.iter().collect();
        let backward: Vec<(&Vec<u8>, &Vec<u8>)> = content.iter().rev().collect();
        check_walk(db, family, &forward, true, seen)?;
        check_walk(db, family, &backward, false, seen)
    }
}

enum Outcome {
    Refused,
    Reported,
    Harmless,
    LastMissing,
}

#[derive(Default)]
struct Seen {
    damages: u64,
    is_last_missing: bool,
}

impl Seen {
    fn damage(&mut self, error: &Error, what: &str) -> Checked {
        self.damages += 1;
        check_kind(error, what)
    }
}

/// Damaged bytes may be reported as such, or as bytes of a newer version when the damage is in a version number.
fn check_kind(error: &Error, what: &str) -> Checked {
    let is_fitting = matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::NewerVersion
    );
    ensure(is_fitting, || {
        format!("{what} reports damage as {:?}: {error}", error.kind())
    })
}

/// A walk shows the entries in order, up to its end or to an error that reports the damage.
fn check_walk(
    db: &Db,
    family: &ColumnFamily,
    entries: &[(&Vec<u8>, &Vec<u8>)],
    is_forward: bool,
    seen: &mut Seen,
) -> Checked {
    let mut iter = match db.iter(family, IterOptions::default()) {
        Ok(iter) => iter,
        Err(error) => return seen.damage(&error, "iter"),
    };
    let mut step = if is_forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    };
    for (key, value) in entries {
        match step {
            Ok(is_valid) => ensure(is_valid, || {
                format!(
                    "a walk ends before \"{}\" without an error",
                    key.escape_ascii()
                )
            })?,
            Err(error) => return seen.damage(&error, "a move"),
        }
        ensure(iter.key() == key.as_slice(), || {
            format!(
                "a walk shows \"{}\" for \"{}\"",
                iter.key().escape_ascii(),
                key.escape_ascii()
            )
        })?;
        match iter.value() {
            Ok(found) => ensure(found == value.as_slice(), || {
                format!("a walk shows a wrong value for \"{}\"", key.escape_ascii())
            })?,
            Err(error) => seen.damage(&error, "value")?,
        }
        step = if is_forward { iter.next() } else { iter.prev() };
    }
    match step {
        Ok(is_valid) => ensure(!is_valid, || {
            "a walk shows an entry that was never put".to_owned()
        }),
        Err(error) => seen.damage(&error, "a move"),
    }
}

/// Damages a place in a way that `verify` must notice: every byte of tables and value files is checked.
///
/// # Errors
/// A violation when the database opens and `verify` finds it whole.
pub fn check_verify(specimen: &Specimen, place: &Place) -> Checked {
    let env = specimen.copy();
    env.corrupt(&place.path, place.offset, |byte| *byte ^= 0xff);
    let outcome = no_panic(|| {
        let mut options = world::options(&env);
        options.read_only = true;
        let Ok(db) = Db::open(world::DATABASE, options) else {
            return Ok(());
        };
        let report = db.verify(&mut |_, _| {}).map_err(Violation::from);
        let is_noticed = match report {
            Ok(report) => !report.damages.is_empty(),
            Err(_) => true,
        };
        ensure(is_noticed, || {
            "verify finds the damaged database whole".to_owned()
        })
    });
    world::power_off(&env);
    outcome.map_err(|violation| {
        violation.within(format_args!(
            "{} offset {}",
            place.path.display(),
            place.offset
        ))
    })
}

/// True for the files whose every byte is checked by `verify`.
#[must_use]
pub fn is_table_or_values(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "klog" || extension == "vlog")
}
