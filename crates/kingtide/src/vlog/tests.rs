//! What writers are told of value files that are to be emptied.

use std::sync::Arc;

use kingtide_env::MemoryEnv;

use super::{collect, wants_collection};
use crate::{ColumnFamily, Compression, Db, FamilyOptions, Options};

const KEYS: u32 = 500;
const VALUE_BYTES: usize = 4096;

fn put(db: &Db, family: &ColumnFamily, key: u32, seed: u32) {
    let word = (key ^ seed.rotate_left(16)).to_be_bytes();
    let value = word.repeat(VALUE_BYTES / word.len());
    db.put(family, &key.to_be_bytes(), &value).expect("healthy");
}

/// Goal: writers know how much room value files have left exactly while somebody is to empty them. Method: a live set that
/// is overwritten while nothing is merged, and then collected by hand.
#[test]
fn the_room_is_told_while_there_is_something_to_do() {
    let options = Options {
        env: Some(Arc::new(MemoryEnv::new(1))),
        ..Options::default()
    };
    let db = Db::open("/db", options).expect("the database opens");
    let settings = FamilyOptions {
        write_buffer_bytes: 128 << 10,
        compression: Compression::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    let handle = db.create_family("f", settings).expect("a new name");
    let (engine, family) = (db.engine(), &handle.family);
    db.cancel_background_work().expect("open");
    for key in 0..KEYS {
        put(&db, &handle, key, 1);
    }
    db.flush(&handle).expect("a flush");
    assert!(!wants_collection(engine, family));
    assert!(family.value_room.share(0) <= 0.0, "nothing to do");
    for seed in 2..4 {
        (0..KEYS).for_each(|key| put(&db, &handle, key, seed));
        db.flush(&handle).expect("a flush");
    }
    assert!(family.value_room.share(0) <= 0.0, "nobody would do it");
    assert!(wants_collection(engine, family));
    let share = family.value_room.share(0);
    assert!(share > 1.2, "three times what lives is too much: {share}");
    assert!(family.value_room.share(1 << 20) > share, "with what waits");
    assert!(
        family
            .is_behind
            .load(kingtide_env::sync::atomic::Ordering::Relaxed)
    );
    collect(engine, family, &|| false).expect("healthy");
    assert!(family.value_room.share(0) <= 0.0, "it is done");
    assert!(
        !family
            .is_behind
            .load(kingtide_env::sync::atomic::Ordering::Relaxed)
    );
    let live = u64::from(KEYS) * VALUE_BYTES as u64;
    let found = family.value_room.last_pass();
    assert!(
        (live..live + live / 10).contains(&found.live_bytes),
        "{found:?}"
    );
    assert!(found.hidden_share > 0.9, "all was put again: {found:?}");
    db.close().expect("closes");
}
