use std::path::Path;

use kingtide_base::{EntryKind, EntryRef, FileId, KeyOrder, SeqNo, ValueRef, built_in_comparator};
use kingtide_env::{Env, MemoryEnv, OpenMode};
use kingtide_format::CodecId;
use kingtide_table::{TableBuilder, TableSettings, klog_name};

use super::*;

const LIMIT: usize = 16 << 20;

fn memcmp() -> KeyOrder {
    KeyOrder::new(built_in_comparator("memcmp").expect("it is built in"))
}

/// A room of 16 MiB with a cache of 8 MiB in it, full of blocks of a real table.
fn room() -> MemoryRoom {
    let env = MemoryEnv::new(1);
    let klog = env
        .open_directory(Path::new("/klog"), true)
        .expect("it can be made");
    let budget = MemoryBudget::new(LIMIT);
    let plan = Plan::of(LIMIT, 8 << 20);
    let blocks = BlockCache::with_budget(plan.cache_bytes, plan.cache_floor_bytes, &budget);
    let file = klog
        .open(&klog_name(FileId(1)), OpenMode::CreateNew)
        .expect("a new name");
    let settings = TableSettings {
        block_bytes: 4096,
        codec: CodecId::None,
        filter_fpr: None,
        order: memcmp(),
    };
    let mut builder = TableBuilder::new(file, FileId(1), settings);
    for key in 0..80_000_u32 {
        let entry = EntryRef {
            key: &key.to_be_bytes(),
            sequence: SeqNo(1),
            kind: EntryKind::Put,
            expires_at: 0,
            value: ValueRef::Inline(&[7; 150]),
        };
        builder.add(&entry).expect("memory takes it");
    }
    let meta = builder.finish().expect("memory takes it");
    let tables = TableCache::with_budget(klog, 10, Arc::clone(&budget));
    let table = tables.get(&meta, &memcmp()).expect("just made");
    for key in 0..80_000_u32 {
        let found = table.get(&key.to_be_bytes(), None, SeqNo::MAX, &blocks);
        assert!(found.expect("undamaged").is_some());
    }
    drop(table);
    let caches = Caches {
        blocks: Arc::new(blocks),
        tables: Arc::new(tables),
    };
    MemoryRoom::new(plan, budget, Some(caches))
}

/// Goal: the cache gives way to what writers need, down to its floor and no further, and grows again when memory is given
/// back. Method: charge more and more to memtables, squeeze, and give it all back.
#[test]
fn the_cache_gives_way_and_comes_back() {
    let room = room();
    let cached = || room.budget.of(Account::Cache);
    let full = cached();
    assert!(full > 7 << 20, "{full}");
    assert!(room.is_ample(0) && room.squeeze(0));
    assert!(
        cached() >= full - (1 << 20),
        "nobody needs it: {}",
        cached()
    );

    let mut written = room.budget.charge(Account::Memtables, 0);
    let step = 256 << 10;
    while room.squeeze(step) {
        written.set(written.bytes() + step);
        assert!(room.budget.used() <= room.plan.ample_bytes);
    }
    assert!(cached() <= room.plan.cache_floor_bytes + step);
    assert!(
        written.bytes() >= room.plan.ample_bytes / 8 * 6,
        "{}",
        written.bytes()
    );
    assert!(!room.is_ample(step) && room.has_room(step));

    room.relax();
    assert!(
        cached() <= room.plan.cache_floor_bytes + step,
        "memory is still short"
    );
    drop(written);
    room.relax();
    let Some(caches) = &room.caches else {
        panic!("it has caches")
    };
    assert_eq!(caches.blocks.usage().limit_bytes, 8 << 20);
}

/// Goal: everything that counted is gone with those who held it.
#[test]
fn nothing_is_left_when_all_is_dropped() {
    let room = room();
    let budget = Arc::clone(&room.budget);
    assert!(budget.used() > 0);
    drop(room);
    for account in Account::ALL {
        assert_eq!(budget.of(account), 0, "{account:?}");
    }
    assert_eq!(budget.used(), 0);
}

/// Goal: the message of a used up budget names who holds it.
#[test]
fn the_message_names_the_holders() {
    let room = MemoryRoom::new(Plan::of(LIMIT, 0), MemoryBudget::new(LIMIT), None);
    let _held = room.budget.charge(Account::Transactions, 5 << 20);
    let text = room.describe();
    assert!(
        text.contains("of 16384 KiB") && text.contains("transactions 5120"),
        "{text}"
    );
    assert!((room.share_used(0) - 5.0 / 15.0).abs() < 0.01);
}
