//! The load of one worker: calls on families of its own, each answer compared with a model that does not grow.
//!
//! A value follows from its key and a version, so the model is one number per key. Keys are never shared between workers,
//! so the model is exact whatever the threads do.

use std::time::Instant;

use kingtide::{
    ColumnFamily, Db, FamilyOptions, IsolationLevel, IterOptions, Transaction, TransactionOptions,
};

use crate::{
    random::Random,
    violation::{Checked, ensure},
};

/// Workers, each with a thread and families of its own.
pub const WORKERS: usize = 2;

/// The families of each worker.
pub const FAMILIES: [usize; 2] = [0, 1];

/// Keys of a family.
const KEYS: usize = 3000;

/// Keys that one scan or range delete covers at most.
const RANGE_KEYS_MAX: usize = 60;

/// A worker and what it expects.
pub struct Worker {
    number: usize,
    random: Random,
    /// The version of each key of each family; 0 for none.
    versions: [Vec<u64>; 2],
    last_version: u64,
    operations: u64,
}

/// The name of a family of a worker.
pub fn family_name(worker: usize, family: usize) -> String {
    format!("worker-{worker}-{family}")
}

fn key_of(key: usize) -> [u8; 8] {
    (key as u64).to_be_bytes()
}

/// Mostly short; one in 32 some kilobytes, one in 256 more.
fn value_of(key: usize, version: u64) -> Vec<u8> {
    let mut random = Random::new(version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key as u64);
    let length = match random.below(256) {
        0 => random.between(60_000, 200_000),
        1..=8 => random.between(2_000, 12_000),
        _ => random.between(20, 300),
    };
    let mut value = random.bytes(length.min(64));
    value.resize(length, (version % 251) as u8);
    value
}

impl Worker {
    /// A worker of that number.
    pub fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            random: Random::new(seed.wrapping_add(number as u64 + 1)),
            versions: [vec![0; KEYS], vec![0; KEYS]],
            last_version: 0,
            operations: 0,
        }
    }

    /// Calls whose answers were compared.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    fn families(&self, db: &Db) -> Checked<[ColumnFamily; 2]> {
        Ok([
            db.family(&family_name(self.number, 0))?,
            db.family(&family_name(self.number, 1))?,
        ])
    }

    /// Works until `until`.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn run(&mut self, db: &Db, until: Instant) -> Checked {
        let families = self.families(db)?;
        while Instant::now() < until {
            let family = self.random.below(2);
            match self.random.below(1000) {
                0..=540 => self.put(db, &families[family], family)?,
                541..=548 => self.two_phases(db, &families)?,
                549 => self.bulk_load(db, &families[family], family)?,
                550..=799 => self.get(db, &families[family], family)?,
                800..=859 => self.delete(db, &families[family], family)?,
                860..=869 => self.delete_range(db, &families[family], family)?,
                870..=939 => self.commit(db, &families)?,
                940..=995 => {
                    let first = self.random.below(KEYS);
                    self.scan(
                        db,
                        &families[family],
                        family,
                        first..(first + RANGE_KEYS_MAX).min(KEYS),
                    )?;
                }
                996 => db.flush(&families[family])?,
                997 => self.passing_family(db)?,
                998 => self.snapshot(db, &families[family], family)?,
                _ => db.sync_wal()?,
            }
            self.operations += 1;
        }
        Ok(())
    }

    fn put(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let key = self.random.below(KEYS);
        self.last_version += 1;
        db.put(family, &key_of(key), &value_of(key, self.last_version))?;
        self.versions[index][key] = self.last_version;
        Ok(())
    }

    fn get(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let key = self.random.below(KEYS);
        let found = db.get(family, &key_of(key))?;
        self.check(index, key, found.as_deref())
    }

    fn check(&self, index: usize, key: usize, found: Option<&[u8]>) -> Checked {
        let version = self.versions[index][key];
        let is_right = match found {
            None => version == 0,
            Some(found) => version != 0 && found == value_of(key, version),
        };
        ensure(is_right, || {
            let found = found.map_or("nothing".to_owned(), |found| {
                format!("{} bytes", found.len())
            });
            format!(
                "worker {} family {index} key {key}: {found}, expected version {version}",
                self.number
            )
        })
    }

    fn delete(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let key = self.random.below(KEYS);
        db.delete(family, &key_of(key))?;
        self.versions[index][key] = 0;
        Ok(())
    }

    fn delete_range(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let start = self.random.below(KEYS);
        let end = (start + self.random.between(1, RANGE_KEYS_MAX)).min(KEYS);
        db.delete_range(family, &key_of(start), &key_of(end))?;
        self.versions[index][start..end].fill(0);
        Ok(())
    }

    /// A transaction over both families, at any level, which reads its own writes; one in four is rolled back.
    fn commit(&mut self, db: &Db, families: &[ColumnFamily; 2]) -> Checked {
        let isolation = *self.random.pick(&IsolationLevel::ALL);
        let mut transaction: Transaction = db.begin_with(TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        })?;
        let mut written = Vec::new();
        for _ in 0..self.random.between(1, 12) {
            let (index, key) = (self.random.below(2), self.random.below(KEYS));
            self.last_version += 1;
            let value = value_of(key, self.last_version);
            transaction.put(&families[index], &key_of(key), &value)?;
            let own = transaction.get(&families[index], &key_of(key))?;
            ensure(own.is_some_and(|own| *own == *value), || {
                "an own write is not seen".to_owned()
            })?;
            written.push((index, key, self.last_version));
        }
        if self.random.one_in(4) {
            transaction.rollback()?;
            return Ok(());
        }
        transaction.commit()?;
        for (index, key, version) in written {
            self.versions[index][key] = version;
        }
        Ok(())
    }

    /// A transaction over both families in two phases: nothing of it is seen before its outcome; one in four is rolled back.
    fn two_phases(&mut self, db: &Db, families: &[ColumnFamily; 2]) -> Checked {
        let mut transaction = db.begin()?;
        let mut written = Vec::new();
        for _ in 0..self.random.between(1, 6) {
            let (index, key) = (self.random.below(2), self.random.below(KEYS));
            self.last_version += 1;
            let value = value_of(key, self.last_version);
            transaction.put(&families[index], &key_of(key), &value)?;
            written.push((index, key, self.last_version));
        }
        let xid = format!("worker {} version {}", self.number, self.last_version);
        transaction.prepare(xid.as_bytes())?;
        for (index, key, _) in &written {
            let found = db.get(&families[*index], &key_of(*key))?;
            self.check(*index, *key, found.as_deref())?;
        }
        if self.random.one_in(4) {
            db.rollback_prepared(xid.as_bytes())?;
            return Ok(());
        }
        db.commit_prepared(xid.as_bytes())?;
        for (index, key, version) in written {
            self.versions[index][key] = version;
        }
        Ok(())
    }

    /// Puts every third key of a range by a bulk load.
    fn bulk_load(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let start = self.random.below(KEYS);
        let end = (start + self.random.between(1, 10 * RANGE_KEYS_MAX)).min(KEYS);
        let mut loader = db.bulk_load(family)?;
        self.last_version += 1;
        for key in (start..end).step_by(3) {
            loader.put(&key_of(key), &value_of(key, self.last_version))?;
        }
        loader.finish()?;
        for key in (start..end).step_by(3) {
            self.versions[index][key] = self.last_version;
        }
        Ok(())
    }

    fn scan(
        &self,
        db: &Db,
        family: &ColumnFamily,
        index: usize,
        keys: std::ops::Range<usize>,
    ) -> Checked {
        let mut iter = db.iter(
            family,
            IterOptions {
                lower: Some(key_of(keys.start).to_vec()),
                upper: Some(key_of(keys.end).to_vec()),
                prefix: None,
            },
        )?;
        let mut is_valid = iter.seek_to_first()?;
        for key in keys {
            let is_here = is_valid && *iter.key() == key_of(key);
            if is_here {
                let found = iter.value()?.to_vec();
                self.check(index, key, Some(&found))?;
                is_valid = iter.next()?;
            } else {
                self.check(index, key, None)?;
            }
        }
        ensure(!is_valid, || "a scan went on behind its end".to_owned())
    }

    /// A family that comes and goes.
    fn passing_family(&mut self, db: &Db) -> Checked {
        let name = format!("passing-{}", self.number);
        let options = FamilyOptions {
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        };
        let family = db.create_family(&name, options)?;
        for key in 0..20 {
            db.put(&family, &key_of(key), &value_of(key, 1))?;
        }
        if self.random.one_in(2) {
            db.flush(&family)?;
        }
        let found = db.get(&family, &key_of(7))?;
        ensure(found.is_some_and(|found| *found == *value_of(7, 1)), || {
            "a value of a new family".to_owned()
        })?;
        db.drop_family(&name)?;
        Ok(())
    }

    /// A snapshot sees what was there, whatever comes after it.
    fn snapshot(&mut self, db: &Db, family: &ColumnFamily, index: usize) -> Checked {
        let snapshot = db.snapshot()?;
        let key = self.random.below(KEYS);
        let before = self.versions[index][key];
        self.last_version += 1;
        db.put(family, &key_of(key), &value_of(key, self.last_version))?;
        let found = snapshot.get(family, &key_of(key))?;
        self.check(index, key, found.as_deref())?;
        self.versions[index][key] = self.last_version;
        ensure(before != self.last_version, || {
            "versions are used once".to_owned()
        })
    }

    /// Compares both families as a whole.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn compare(&mut self, db: &Db) -> Checked {
        for (index, family) in self.families(db)?.iter().enumerate() {
            self.scan(db, family, index, 0..KEYS)?;
            self.operations += KEYS as u64;
        }
        Ok(())
    }
}
