//! Read-only openings beside a writer.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kingtide::{ColumnFamily, Db, FamilyOptions, Options};
use kingtide_env::{FaultyEnv, MemoryEnv, Operation};
use kingtide_testkit::world::{self, DATABASE};

const KEYS: u32 = 200;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A long value, which goes to a value file.
fn value(number: u32) -> Vec<u8> {
    key(number).repeat(200)
}

/// Writes every key once more, to tables of its own.
fn write(db: &Db, family: &ColumnFamily) {
    for number in 0..KEYS {
        db.put(family, &key(number), &value(number)).unwrap();
    }
    db.flush(family).unwrap();
}

/// Goal: a read-only opening finds the files of one moment, whatever a writer beside it removes meanwhile. Method: at each listing of
/// a directory in turn, before it is answered, the writer writes everything anew, merges, and removes what is dead; then all is read.
#[test]
fn a_read_only_opening_sees_the_files_of_one_moment() {
    let mut nth = 0;
    loop {
        let env = MemoryEnv::new(1);
        let db = Db::open(DATABASE, world::options(&env)).unwrap();
        let settings = FamilyOptions {
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        };
        let family = db.create_family("f", settings).unwrap();
        write(&db, &family);
        write(&db, &family);

        let lists = Arc::new(AtomicU64::new(0));
        let (seen, writer, of_writer) = (Arc::clone(&lists), db.clone(), family.clone());
        let judge = move |operation| {
            if operation == Operation::List && seen.fetch_add(1, Ordering::Relaxed) == nth {
                write(&writer, &of_writer);
                writer.compact(&of_writer).unwrap();
                writer.wait_idle().unwrap();
            }
            Ok(None)
        };
        let options = Options {
            read_only: true,
            env: Some(Arc::new(FaultyEnv::judged_by(
                Arc::new(env.clone()),
                Arc::new(judge),
            ))),
            ..world::options(&env)
        };
        let reader = Db::open(DATABASE, options).unwrap();
        let shown = reader.family("f").unwrap();
        for number in 0..KEYS {
            let found = reader.get(&shown, &key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]), "{nth} {number}");
        }
        reader.close().unwrap();
        if lists.load(Ordering::Relaxed) <= nth {
            break;
        }
        nth += 1;
    }
    assert!(
        nth >= 4,
        "{nth} listings: of the manifest's, the tables', the values' and the log's directory"
    );
}
