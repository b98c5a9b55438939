//! redb, for comparison. It has no log, codec, filters or background threads; these settings mean nothing to it. `full`
//! commits durably; with `none` a commit is in memory only until the next durable one, so it promises less than the others.

use kingtide_bench::{BenchError, Engine, Result, Session, Settings, SyncChoice};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::failed;

type Table<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

/// An open database and the names of its tables, of which there is at least one.
pub(crate) struct RedbEngine {
    db: Database,
    names: Vec<String>,
    durability: Durability,
}

impl RedbEngine {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        let failed = failed("redb");
        let durability = match settings.sync {
            SyncChoice::None => Durability::None,
            SyncChoice::Full => Durability::Immediate,
            SyncChoice::Interval => {
                let text = "redb has no sync by interval; use none or full";
                return Err(BenchError::Settings(text.into()));
            }
        };
        let db = Database::builder()
            .set_cache_size(settings.cache_bytes)
            .create(settings.directory.join("redb"))
            .map_err(|source| failed(&source))?;
        let engine = Self {
            db,
            names: (0..settings.families)
                .map(|number| format!("bench{number}"))
                .collect(),
            durability: Durability::Immediate,
        };
        // So that reads find every table.
        engine.write(|transaction| {
            for number in 0..engine.names.len() {
                transaction
                    .open_table(engine.table(number))
                    .map_err(|source| failed(&source))?;
            }
            Ok(())
        })?;
        Ok(Self {
            durability,
            ..engine
        })
    }

    fn table(&self, number: usize) -> Table<'_> {
        TableDefinition::new(&self.names[number])
    }

    fn write(&self, operate: impl FnOnce(&redb::WriteTransaction) -> Result<()>) -> Result<()> {
        let failed = failed("redb");
        let mut transaction = self.db.begin_write().map_err(|source| failed(&source))?;
        transaction
            .set_durability(self.durability)
            .map_err(|source| failed(&source))?;
        operate(&transaction)?;
        transaction.commit().map_err(|source| failed(&source))
    }
}

impl Engine for RedbEngine {
    fn version(&self) -> String {
        "redb 4".into()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "redb: no log, codec, filters or background threads; with sync none, commits are in memory only until a \
             durable one"
                .into(),
        ]
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession(self)))
    }

    /// A durable commit takes all that came before it along.
    fn settle(&self) -> Result<()> {
        let failed = failed("redb");
        let transaction = self.db.begin_write().map_err(|source| failed(&source))?;
        transaction.commit().map_err(|source| failed(&source))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One thread's view.
struct RedbSession<'a>(&'a RedbEngine);

impl Session for RedbSession<'_> {
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let failed = failed("redb");
        self.0.write(|transaction| {
            let mut table = transaction
                .open_table(self.0.table(0))
                .map_err(|source| failed(&source))?;
            for (key, value) in pairs {
                table
                    .insert(*key, *value)
                    .map_err(|source| failed(&source))?;
            }
            Ok(())
        })
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn delete_batch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let failed = failed("redb");
        self.0.write(|transaction| {
            let mut table = transaction
                .open_table(self.0.table(0))
                .map_err(|source| failed(&source))?;
            for key in keys {
                table.remove(*key).map_err(|source| failed(&source))?;
            }
            Ok(())
        })
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let failed = failed("redb");
        let transaction = self.0.db.begin_read().map_err(|source| failed(&source))?;
        let table = transaction
            .open_table(self.0.table(0))
            .map_err(|source| failed(&source))?;
        let mut visited = 0;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for entry in table
            .range(from..)
            .map_err(|source| failed(&source))?
            .take(limit)
        {
            let (key, value) = entry.map_err(|source| failed(&source))?;
            visit(key.value(), value.value());
            visited += 1;
        }
        Ok(visited)
    }

    fn put_families(&mut self, writes: &[(usize, &[u8], &[u8])]) -> Result<()> {
        let failed = failed("redb");
        self.0.write(|transaction| {
            for (family, key, value) in writes {
                let mut table = transaction
                    .open_table(self.0.table(*family))
                    .map_err(|source| failed(&source))?;
                table
                    .insert(*key, *value)
                    .map_err(|source| failed(&source))?;
            }
            Ok(())
        })
    }

    fn get_in(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let failed = failed("redb");
        value.clear();
        let transaction = self.0.db.begin_read().map_err(|source| failed(&source))?;
        let table = transaction
            .open_table(self.0.table(family))
            .map_err(|source| failed(&source))?;
        let found = table.get(key).map_err(|source| failed(&source))?;
        if let Some(bytes) = &found {
            value.extend_from_slice(bytes.value());
        }
        Ok(found.is_some())
    }
}
