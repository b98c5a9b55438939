//! Every way in which a file can be wrong, at every place.
//!
//! | harm | where |
//! |---|---|
//! | all bits of a byte inverted, one bit, zero, `0xff` | every byte |
//! | cut off | at every length |
//! | two sectors of 512 bytes exchanged | every sector, with its neighbour and with a far one |
//! | a sector, or the whole file, as it was at an earlier moment | every sector that has changed since, every file |
//! | the file of the same name of another database; another file of its kind | every file |
//! | missing; there a second time, under another name of its kind | every file |
//!
//! Passed are: every answer is right; an error that says damage; the opening is refused. When the end of the log is gone
//! (it is cut off, exchanged, older or missing) the database may show an earlier moment, as after a crash: the state after
//! some commit, but not before what is in tables. It must be such a state exactly, over all families.

use std::path::{Path, PathBuf};

use kingtide::{Db, IterOptions};
use kingtide_env::{Env, MemoryEnv};

use super::{Content, DamageTally, Seen, Specimen, State, check_kind};
use crate::{
    violation::{Checked, ensure, no_panic},
    world,
};

/// Bytes of a sector.
const SECTOR: usize = 512;

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// All bits of the byte at this offset are inverted.
    Invert(usize),
    /// One bit of it, which the offset chooses, is.
    OneBit(usize),
    /// It becomes zero.
    Zero(usize),
    /// It becomes `0xff`.
    Ones(usize),
    /// The file is cut to this length, in bytes.
    Cut(usize),
    /// These two sectors change places.
    Swap(usize, usize),
    /// This sector is as it was at the moment with this number.
    StaleSector(usize, usize),
    /// The file is as it was at the moment with this number.
    Stale(usize),
    /// The file is that of another database.
    Foreign,
    /// The file is another one of its directory: the one so many places further on.
    Sibling(usize),
    /// The file is gone.
    Missing,
    /// The file is there a second time, with a number larger by this.
    Twice(u64),
}

/// One harm to one file.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file.
    pub path: PathBuf,
    /// What happens to it.
    pub harm: Harm,
    /// How the database is opened then.
    pub is_read_only: bool,
}

/// A database at rest, and another one.
pub struct Matrix {
    specimen: Specimen,
    other: Specimen,
}

impl Matrix {
    /// Builds both.
    ///
    /// # Errors
    /// What the database answers.
    pub fn build() -> Checked<Self> {
        Ok(Self {
            specimen: Specimen::build()?,
            other: Specimen::build_with(17)?,
        })
    }

    /// The database that is damaged.
    #[must_use]
    pub fn specimen(&self) -> &Specimen {
        &self.specimen
    }

    /// All cases. In full, each byte is damaged in every way and opened for writing and for reading only; otherwise in two
    /// ways that its offset chooses, one inversion among them, opened in one of the two.
    #[must_use]
    pub fn cases(&self, is_full: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        for place in self.specimen.places() {
            let offset = usize::try_from(place.offset).unwrap_or(usize::MAX);
            let more = [
                Harm::OneBit(offset),
                Harm::Zero(offset),
                Harm::Ones(offset),
                Harm::Cut(offset),
            ];
            let mut add = |harm, is_read_only| {
                cases.push(Case {
                    path: place.path.clone(),
                    harm,
                    is_read_only,
                });
            };
            if is_full {
                for harm in [Harm::Invert(offset)].into_iter().chain(more) {
                    add(harm, false);
                    add(harm, true);
                }
            } else {
                let turn = offset / more.len();
                add(Harm::Invert(offset), turn.is_multiple_of(2));
                add(more[(offset + turn) % more.len()], !turn.is_multiple_of(2));
            }
        }
        for (path, bytes) in self.specimen.files() {
            for harm in self.file_harms(&path, bytes) {
                for is_read_only in [false, true] {
                    cases.push(Case {
                        path: path.clone(),
                        harm,
                        is_read_only,
                    });
                }
            }
        }
        cases.retain(|case| self.changes(case));
        cases
    }

    /// Harms of sectors and whole files.
    fn file_harms(&self, path: &Path, bytes: usize) -> Vec<Harm> {
        let content = self.specimen.env.read_file(path).unwrap_or_default();
        let is_used = |sector: &usize| {
            let end = bytes.min((sector + 1) * SECTOR);
            content[sector * SECTOR..end].iter().any(|byte| *byte != 0)
        };
        let count = bytes.div_ceil(SECTOR);
        let mut harms = vec![
            Harm::Foreign,
            Harm::Sibling(1),
            Harm::Sibling(2),
            Harm::Missing,
            Harm::Twice(1),
            Harm::Twice(1000),
        ];
        harms.extend((0..self.specimen.earlier.len()).map(Harm::Stale));
        for sector in (0..count).filter(is_used) {
            let far = (sector + count / 2) % count;
            harms.push(Harm::Swap(sector, (sector + 1) % count));
            harms.push(Harm::Swap(sector, far));
            let moments = 0..self.specimen.earlier.len();
            harms.extend(moments.map(|moment| Harm::StaleSector(sector, moment)));
        }
        harms
    }

    /// True when the harm leaves the file other than it was.
    fn changes(&self, case: &Case) -> bool {
        match case.harm {
            Harm::Missing | Harm::Twice(_) => true,
            harm => {
                let before = self.specimen.env.read_file(&case.path);
                let after = self.harmed(&case.path, harm);
                after.is_some() && after != before
            }
        }
    }

    /// The bytes of the file after the harm; `None` when it does not apply.
    fn harmed(&self, path: &Path, harm: Harm) -> Option<Vec<u8>> {
        let mut bytes = self.specimen.env.read_file(path)?;
        match harm {
            Harm::Invert(offset) => *bytes.get_mut(offset)? ^= 0xff,
            Harm::OneBit(offset) => *bytes.get_mut(offset)? ^= 1 << (offset % 8),
            Harm::Zero(offset) => *bytes.get_mut(offset)? = 0,
            Harm::Ones(offset) => *bytes.get_mut(offset)? = 0xff,
            Harm::Cut(length) => bytes.truncate(length),
            Harm::Swap(left, right) if left == right => return None,
            Harm::Swap(left, right) => {
                let length = bytes.len();
                let sector = |number: usize| (number * SECTOR)..length.min((number + 1) * SECTOR);
                let (left, right) = (sector(left.min(right)), sector(left.max(right)));
                let shorter = left.len().min(right.len());
                let (front, back) = bytes.split_at_mut(right.start);
                front[left.start..left.start + shorter].swap_with_slice(&mut back[..shorter]);
            }
            Harm::StaleSector(number, moment) => {
                let then = self.specimen.earlier.get(moment)?.read_file(path)?;
                let end = bytes.len().min((number + 1) * SECTOR);
                for (offset, byte) in bytes.iter_mut().enumerate().take(end).skip(number * SECTOR) {
                    *byte = then.get(offset).copied().unwrap_or(0);
                }
            }
            Harm::Stale(moment) => return self.specimen.earlier.get(moment)?.read_file(path),
            Harm::Foreign => return self.other.env.read_file(path),
            Harm::Sibling(distance) => {
                let all = self.specimen.env.paths();
                let siblings: Vec<&PathBuf> = all
                    .iter()
                    .filter(|other| other.parent() == path.parent())
                    .collect();
                let at = siblings.iter().position(|other| *other == path)?;
                let sibling = siblings[(at + distance) % siblings.len()];
                return self.specimen.env.read_file(sibling);
            }
            Harm::Missing | Harm::Twice(_) => return None,
        }
        Some(bytes)
    }

    /// Harms a copy and checks what it shows.
    ///
    /// # Errors
    /// The violation, with the case.
    pub fn check(&self, case: &Case) -> Checked<DamageTally> {
        let env = self.specimen.copy();
        let outcome = no_panic(|| {
            self.harm(&env, case)?;
            if may_show_earlier(case) {
                return self.check_earlier(&env, case.is_read_only);
            }
            self.specimen
                .check_damaged(&env, &case.path, case.is_read_only)
        });
        world::power_off(&env);
        outcome.map_err(|violation| violation.within(name_of(case)))
    }

    fn harm(&self, env: &MemoryEnv, case: &Case) -> Checked {
        let parent = case.path.parent().unwrap_or(Path::new("/"));
        let name = case.path.file_name().unwrap_or_default().to_string_lossy();
        match case.harm {
            Harm::Missing => env.open_directory(parent, false)?.remove(&name)?,
            Harm::Twice(distance) => {
                let bytes = env.read_file(&case.path).unwrap_or_default();
                let copy = parent.join(renumbered(&name, distance));
                if env.read_file(&copy).is_none() {
                    env.write_file(copy, &bytes)?;
                }
            }
            harm => {
                let bytes = self.harmed(&case.path, harm).unwrap_or_default();
                env.write_file(&case.path, &bytes)?;
            }
        }
        Ok(())
    }

    /// The database shows what it showed after some commit, or says what is wrong.
    fn check_earlier(&self, env: &MemoryEnv, is_read_only: bool) -> Checked<DamageTally> {
        let mut tally = DamageTally {
            damages: 1,
            ..DamageTally::default()
        };
        let mut options = world::options(env);
        options.read_only = is_read_only;
        let db = match Db::open(world::DATABASE, options) {
            Ok(db) => db,
            Err(error) => {
                check_kind(&error, "open")?;
                tally.refused = 1;
                return Ok(tally);
            }
        };
        let mut seen = Seen::default();
        let mut shown = State::new();
        for name in self.specimen.families.keys() {
            let mut content = Content::new();
            let walked = walk(&db, name, &mut content);
            if let Err(error) = walked {
                seen.damage(&error, "a walk")?;
            }
            shown.insert(name, content);
        }
        let _ = db.close();
        if seen.damages > 0 {
            tally.reported = 1;
            return Ok(tally);
        }
        tally.harmless = 1;
        ensure(self.specimen.states.contains(&shown), || {
            "it shows a state that it never had since its last flush".to_owned()
        })?;
        Ok(tally)
    }
}

fn walk(db: &Db, name: &str, content: &mut Content) -> kingtide::Result<()> {
    let family = db.family(name)?;
    let mut iter = db.iter(&family, IterOptions::default())?;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        content.insert(iter.key().to_vec(), iter.value()?.to_vec());
        is_valid = iter.next()?;
    }
    Ok(())
}

/// True when the end of the log is gone.
fn may_show_earlier(case: &Case) -> bool {
    let is_log = case.path.extension().is_some_and(|kind| kind == "wal");
    let is_byte = matches!(
        case.harm,
        Harm::Invert(_) | Harm::OneBit(_) | Harm::Zero(_) | Harm::Ones(_) | Harm::Twice(_)
    );
    is_log && !is_byte
}

/// The name with its number raised: `000012.klog` and 1 make `000013.klog`.
fn renumbered(name: &str, distance: u64) -> String {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let Some(start) = name.find(is_digit) else {
        return format!("{name}.{distance}");
    };
    let digits: String = name[start..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let number = digits.parse::<u64>().unwrap_or(0).saturating_add(distance);
    let width = digits.len();
    format!(
        "{}{number:0width$}{}",
        &name[..start],
        &name[start + width..]
    )
}

/// The case as people see it.
#[must_use]
pub fn name_of(case: &Case) -> String {
    let how = match case.is_read_only {
        true => ", opened for reading only",
        false => "",
    };
    format!("{} {:?}{how}", case.path.display(), case.harm)
}
