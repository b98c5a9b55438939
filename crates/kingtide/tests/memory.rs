//! The memory budget: what counts, who gives way, and what writers are told when nothing more can.

#![expect(clippy::unwrap_used, reason = "a call that fails fails the test")]

use std::{
    cmp::Ordering,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use kingtide::{
    ColumnFamily, Comparator, Db, ErrorKind, Event, FamilyOptions, IterOptions, Listener, Options,
    Result, SyncMode,
};
use kingtide_env::MemoryEnv;
use kingtide_testkit::Random;

const MIB: usize = 1 << 20;

/// Byte order, in which background threads stand still while the gate is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.opened.notify_all();
    }
}

impl Comparator for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let is_background = thread::current()
            .name()
            .is_some_and(|name| name.starts_with("kt-"));
        if is_background {
            let mut is_closed = self.is_closed.lock().unwrap();
            while *is_closed {
                is_closed = self.opened.wait(is_closed).unwrap();
            }
        }
        left.cmp(right)
    }
}

fn options(bytes: usize) -> Options {
    Options {
        memory_bytes_max: bytes,
        env: Some(Arc::new(MemoryEnv::new(7))),
        ..Options::default()
    }
}

fn settings() -> FamilyOptions {
    FamilyOptions {
        sync: SyncMode::None,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    }
}

/// Writes the keys `first .. first + 100` with values of 1000 bytes that do not compress.
fn write(db: &Db, family: &ColumnFamily, first: u32) -> Result<()> {
    let mut random = Random::new(u64::from(first));
    let mut transaction = db.begin()?;
    for key in first..first + 100 {
        let value = random.bytes(1000);
        transaction.put(family, &key.to_be_bytes(), &value)?;
    }
    transaction.commit().map(drop)
}

/// Goal: the budget holds at every moment, however many families there are and however large their buffers would like to
/// be, and nothing is lost to it. Method: 40 MB over ten families under a budget of 16 MiB, which ten write buffers of
/// 64 MiB and a cache of 64 MiB would exceed many times; then everything is read.
#[test]
fn the_budget_holds_over_many_families() {
    let db = Db::open("/db", options(16 * MIB)).unwrap();
    let families: Vec<ColumnFamily> = (0..10)
        .map(|index| db.create_family(&format!("f{index}"), settings()).unwrap())
        .collect();
    for commit in 0..400_u32 {
        write(&db, &families[commit as usize % 10], commit * 100).unwrap();
        let memory = db.stats().unwrap().memory;
        assert_eq!(memory.limit_bytes, 16 << 20);
        assert!(memory.total_bytes() <= memory.limit_bytes, "{memory:?}");
    }
    let mut iter_entries = 0;
    for family in &families {
        let mut iter = db.iter(family, IterOptions::default()).unwrap();
        let mut is_there = iter.seek_to_first().unwrap();
        while is_there {
            assert_eq!(iter.value().unwrap().len(), 1000);
            iter_entries += 1;
            is_there = iter.next().unwrap();
        }
        let memory = db.stats().unwrap().memory;
        assert!(memory.total_bytes() <= memory.limit_bytes, "{memory:?}");
    }
    assert_eq!(iter_entries, 40_000);
    let stats = db.stats().unwrap();
    assert!(stats.flushes >= 3, "{}", stats.flushes);
    db.close().unwrap();
}

/// Keeps the events about writers that had to wait.
#[derive(Default)]
struct Waits(Mutex<Vec<Event>>);

impl Listener for Waits {
    fn event(&self, _unix_micros: u64, event: &Event) {
        if matches!(
            event,
            Event::MemoryWaited { .. } | Event::WriterDelayed { .. }
        ) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

/// Goal: when nothing can be flushed, a writer is told `Busy`, who holds the memory, and what to do; and writing goes on
/// once flushing does. Method: flushes stand still in the comparator; no wait is allowed; what was acknowledged is read in
/// the end.
#[test]
fn a_used_up_budget_is_busy_and_says_why() {
    let gate = Arc::new(Gate::default());
    let waits = Arc::new(Waits::default());
    let db_options = Options {
        comparators: vec![Arc::clone(&gate) as _],
        listener: Some(Arc::clone(&waits) as _),
        write_wait_max: Duration::ZERO,
        ..options(8 * MIB)
    };
    let db = Db::open("/db", db_options).unwrap();
    let family_options = FamilyOptions {
        comparator: "gate".to_owned(),
        ..settings()
    };
    let families: Vec<ColumnFamily> = (0..8)
        .map(|index| {
            db.create_family(&format!("f{index}"), family_options.clone())
                .unwrap()
        })
        .collect();
    gate.set_closed(true);
    let mut written = 0;
    let error = loop {
        match write(&db, &families[written % 8], written as u32 * 100) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 200, "20 MB do not fit into 8 MiB");
    };
    let memory = db.stats().unwrap().memory;
    let text = error.to_string();
    // Everything is freed before anything is judged: a thread that stands still would keep the test from ending.
    gate.set_closed(false);
    db.wait_idle().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy, "{text}");
    assert!(text.contains("try again later"), "{text}");
    assert!(memory.total_bytes() <= memory.limit_bytes, "{memory:?}");
    assert!(written >= 10, "{written}");
    write(&db, &families[0], 1_000_000).unwrap();
    for commit in 0..written {
        let key = (commit as u32 * 100).to_be_bytes();
        assert!(db.get(&families[commit % 8], &key).unwrap().is_some());
    }
    let stats = db.stats().unwrap();
    assert!(stats.write_stalls > 0);
    db.close().unwrap();
    let told = waits.0.lock().unwrap();
    let delays = told.iter().filter_map(|event| match event {
        Event::WriterDelayed { micros } => Some(u128::from(*micros)),
        _ => None,
    });
    let (count, sum) = delays.fold((0, 0), |(count, sum), micros| (count + 1, sum + micros));
    let counted = stats.write_delay.as_micros();
    assert!(
        sum <= counted && counted <= sum + count,
        "{sum} in {count} events of {counted}"
    );
    let is_wait = |event: &&Event| matches!(event, Event::MemoryWaited { .. });
    assert_eq!(told.iter().filter(is_wait).count(), 1, "{told:?}");
    assert!(told.len() > 1, "delayed before: {told:?}");
}

/// Goal: transactions count, what is prepared too, one alone and all together have limits with a message of their own, and
/// their memory comes back when they end. Method: transactions that are filled until they are refused.
#[test]
fn transactions_share_a_limit() {
    let db = Db::open("/db", options(16 * MIB)).unwrap();
    let family = db.create_family("f", settings()).unwrap();
    let held = || db.stats().unwrap().memory.transaction_bytes as usize;
    let fill = |transaction: &mut kingtide::Transaction, prefix: u8| {
        for number in 0_u32.. {
            let key = [&[prefix][..], &number.to_be_bytes()].concat();
            if let Err(error) = transaction.put(&family, &key, &[prefix; 1000]) {
                return (number, error);
            }
        }
        unreachable!("there is a limit")
    };
    let mut one = db.begin().unwrap();
    let (count, error) = fill(&mut one, 1);
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(
        count as usize * 1000 > 4 * MIB && held() <= 10 * MIB,
        "{count}: {}",
        held()
    );
    let mut other = db.begin().unwrap();
    let (_, error) = fill(&mut other, 2);
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(error.to_string().contains("together"), "{error}");
    other.rollback().unwrap();
    one.commit().unwrap();
    drop((one, other));
    assert_eq!(held(), 0);

    let mut prepared = db.begin().unwrap();
    for number in 0..1000_u32 {
        prepared
            .put(&family, &number.to_le_bytes(), &[3; 1000])
            .unwrap();
    }
    prepared.prepare(b"x").unwrap();
    drop(prepared);
    assert!(held() > MIB, "{}", held());
    db.commit_prepared(b"x").unwrap();
    // The log's keeper may be looking at it at this moment; it lets go soon, or the test never ends.
    while held() > 0 {
        thread::yield_now();
    }
    db.close().unwrap();
}

/// Goal: of a long value that is in a file of its own a transaction holds the key and no more than a pointer. Method: four
/// of 1 MiB, with keys so long that they count; and one more where a transaction has room for less than two short ones.
#[test]
fn long_values_do_not_count_in_their_transaction() {
    let long = Options {
        spill_bytes_min: 1000,
        ..options(16 * MIB)
    };
    let db = Db::open("/db", long).unwrap();
    let family = FamilyOptions {
        value_threshold_bytes: 100,
        ..settings()
    };
    let family = db.create_family("f", family).unwrap();
    let mut transaction = db.begin().unwrap();
    let value = Random::new(1).bytes(MIB);
    for number in 0..4_u8 {
        let key = vec![number; MIB / 2];
        transaction.put(&family, &key, &value).unwrap();
    }
    let held = db.stats().unwrap().memory.transaction_bytes as usize;
    assert!((2 * MIB..3 * MIB).contains(&held), "{held}");
    transaction.commit().unwrap();
    for number in 0..4_u8 {
        let found = db.get(&family, &vec![number; MIB / 2]).unwrap();
        assert!(found.unwrap() == value);
    }

    let mut full = db.begin().unwrap();
    let before = ["before an even one", "before an odd one"];
    let mut number = 0_usize;
    loop {
        full.savepoint(before[number % 2]).unwrap();
        let put = full.put(&family, &number.to_be_bytes(), &value[..900]);
        if let Err(error) = put {
            assert_eq!(error.kind(), ErrorKind::MemoryLimit);
            break;
        }
        number += 1;
    }
    full.rollback_to(before[(number - 1) % 2]).unwrap();
    full.put(&family, b"long", &value).unwrap();
    full.rollback().unwrap();
    db.close().unwrap();
}

/// Goal: what an opening holds falls back to what an idle one needs: accounts do not drift. Method: three rounds of writes,
/// reads, iterators, flushes and a compaction; after each, the accounts of what has ended are empty.
#[test]
fn accounts_come_back_to_where_they_were() {
    let db = Db::open("/db", options(32 * MIB)).unwrap();
    let family = db.create_family("f", settings()).unwrap();
    let mut after = Vec::new();
    for round in 0..3_u32 {
        for commit in 0..50 {
            write(&db, &family, (round * 50 + commit) * 100).unwrap();
        }
        db.flush(&family).unwrap();
        db.compact(&family).unwrap();
        db.wait_idle().unwrap();
        for key in (0..(round + 1) * 5000).step_by(7) {
            assert!(db.get(&family, &key.to_be_bytes()).unwrap().is_some());
        }
        let memory = db.stats().unwrap().memory;
        assert_eq!(memory.buffer_bytes, 0, "{memory:?}");
        assert_eq!(memory.transaction_bytes, 0, "{memory:?}");
        assert!(
            memory.cache_bytes > 0 && memory.table_bytes > 0,
            "{memory:?}"
        );
        after.push(memory);
    }
    let fixed = |index: usize| after[index].memtable_bytes + after[index].kept_bytes;
    assert_eq!(fixed(1), fixed(2), "{after:?}");
    db.close().unwrap();
}

/// Goal: many families that each hold little are flushed too when memory is short, and not for every commit. Method: 400
/// families and 30 MB under a budget of 16 MiB.
#[test]
fn many_small_families_share_a_small_budget() {
    let db = Db::open("/db", options(16 * MIB)).unwrap();
    let families: Vec<ColumnFamily> = (0..400)
        .map(|index| db.create_family(&format!("f{index}"), settings()).unwrap())
        .collect();
    for commit in 0..300_u32 {
        write(&db, &families[commit as usize * 7 % 400], commit * 100).unwrap();
        let memory = db.stats().unwrap().memory;
        assert!(memory.total_bytes() <= memory.limit_bytes, "{memory:?}");
    }
    let stats = db.stats().unwrap();
    assert!(
        stats.flushes > 0 && stats.flushes <= 300,
        "{}",
        stats.flushes
    );
    for commit in 0..300_u32 {
        let key = (commit * 100).to_be_bytes();
        let family = &families[commit as usize * 7 % 400];
        assert!(db.get(family, &key).unwrap().is_some());
    }
    db.close().unwrap();
}
