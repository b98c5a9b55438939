use std::{borrow::Cow, collections::BTreeMap, path::Path};

use kingtide_base::{Comparator, DatabaseId, FamilyId, FileId, KeyOrder, SegmentId};
use kingtide_env::{
    Env, MemoryEnv,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use kingtide_format::RecordReader;
use kingtide_testkit::Random;

use super::*;
use crate::{
    family::{
        FamilyParts, SuperVersion,
        testing::{family, small},
    },
    wal::{Blank, LogStart, Replay, read_log},
};

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op {
        kind: EntryKind::Put,
        key,
        value,
        expires_at: 0,
    }
}

fn delete(key: &[u8]) -> Op<'_> {
    Op {
        kind: EntryKind::Delete,
        ..put(key, b"")
    }
}

/// Shorter keys first, then bytewise; has no canonical bytes and so no hash.
#[derive(Debug)]
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by_length"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    }
}

fn without_hash(id: u32) -> Arc<Family> {
    let order = KeyOrder::new(Arc::new(ByLength));
    assert!(!order.has_hash());
    ordered(id, order)
}

/// Byte order that counts how often it is asked.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        left.cmp(right)
    }

    fn canonical<'a>(&self, key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(Cow::Borrowed(key))
    }
}

fn ordered(id: u32, order: KeyOrder) -> Arc<Family> {
    let like = family(id, small("memcmp"));
    let current = like.load_full();
    Arc::new(Family::new(FamilyParts {
        id: like.id,
        name: order.name().to_owned(),
        order,
        options: (**like.options()).clone(),
        opening: crate::family::Opening::default(),
        first: SuperVersion {
            active: Arc::clone(&current.active),
            sealed: Vec::new(),
            version: Arc::clone(&current.version),
        },
    }))
}

/// Goal: a transaction finds what it wrote to a key last, and nothing else. Method: random puts and deletes in several
/// families, with hash and without, against a map; few writes are searched, many are indexed; the set is used again.
#[test]
fn own_writes_are_found_in_every_family() {
    let families = [
        family(1, small("memcmp")),
        family(2, small("reverse_memcmp")),
        without_hash(3),
    ];
    let mut writes = WriteSet::default();
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut model: BTreeMap<(usize, Vec<u8>), (EntryKind, Vec<u8>)> = BTreeMap::new();
        let count = *random.pick(&[0, 3, 9, 40, 200]);
        for step in 0..count {
            let index = random.below(families.len());
            let key = format!("key {}", random.below(count)).into_bytes();
            let value = format!("value {step}").into_bytes();
            let op = if random.one_in(4) {
                delete(&key)
            } else {
                put(&key, &value)
            };
            writes.push(&families[index], &op).expect("it is short");
            model.insert((index, key.clone()), (op.kind, op.value.to_vec()));
            // A look between two writes builds the index early; it must be kept up.
            let own = writes.find(&families[index], &key).expect("just written");
            assert_eq!((own.kind, own.value), (op.kind, op.value));
        }
        assert_eq!(writes.op_count(), count);
        assert_eq!(writes.is_empty(), count == 0);
        for (index, family) in families.iter().enumerate() {
            for number in 0..=count {
                let key = format!("key {number}").into_bytes();
                let own = writes.find(family, &key);
                let expected = model.get(&(index, key.clone()));
                assert_eq!(
                    own.map(|own| (own.kind, own.value.to_vec())).as_ref(),
                    expected,
                    "family {index}, key {number}"
                );
                assert!(own.is_none_or(|own| own.key == key));
            }
        }
        writes.clear();
        for family in &families {
            assert!(writes.find(family, b"key 0").is_none());
            assert!(writes.cursor(family).is_none());
        }
        assert!(writes.is_empty());
    }
}

/// Goal: another spelling of the same key is the same key. Method: few and many writes, so with search and with index.
#[test]
fn another_spelling_finds_the_write() {
    let family = family(1, small("case_insensitive"));
    let mut writes = WriteSet::default();
    for number in 0..30 {
        writes
            .push(
                &family,
                &put(format!("Key{number}").as_bytes(), &[number as u8]),
            )
            .expect("short");
        for earlier in 0..=number {
            let own = writes.find(&family, format!("kEY{earlier}").as_bytes());
            assert_eq!(
                own.map(|own| own.value[0]),
                Some(earlier as u8),
                "after {number}"
            );
        }
    }
    writes.push(&family, &delete(b"KEY7")).expect("short");
    let own = writes.find(&family, b"key7").expect("it was written");
    assert_eq!(own.kind, EntryKind::Delete);
}

/// The sections that replay finds: family and keys.
#[derive(Default)]
struct Sections(Vec<(FamilyId, Vec<Vec<u8>>)>);

impl Replay for Sections {
    fn record(
        &mut self,
        _sequence: SeqNo,
        payload: &[u8],
        _place: (&str, u64),
    ) -> StorageResult<()> {
        for section in RecordReader::new(payload) {
            let section = section.expect("well-formed");
            let keys = section.ops.map(|op| op.expect("well-formed").key.to_vec());
            self.0.push((section.family, keys.collect()));
        }
        Ok(())
    }
}

/// Appends the prepared set to a log of its own and reads that back.
fn log_and_replay(writes: &mut WriteSet, replay: &mut Sections) {
    let env = MemoryEnv::new(1);
    let directory = env
        .open_directory(Path::new("/wal"), true)
        .expect("it can be made");
    let blank = Blank::create(&env, directory.as_ref(), 1, 0, false).expect("there is room");
    let mut tail =
        Tail::begin(blank, SegmentId(1), Lsn(0), DatabaseId(1)).expect("the header is written");
    assert!(tail.has_room(writes.frames()));
    writes
        .append_to(&mut tail, SeqNo(1), Lsn(0))
        .expect("there is room");
    let start = LogStart {
        segment: SegmentId(1),
        position: Lsn(0),
        durable: Lsn(0),
        database: None,
    };
    let end = read_log(directory.as_ref(), start, replay).expect("not damaged");
    assert_eq!(end.position, tail.position());
}

/// Goal: the frames of a set hold its operations, per family and in order. Method: one family (the record is made where
/// it stands) and several (it is gathered), the set used again, read back with the format's reader.
#[test]
fn the_record_holds_every_section() {
    const OPERATIONS: usize = limits::RUN_ENTRIES_MIN + 50;
    let families = [family(5, small("memcmp")), family(6, small("memcmp"))];
    let mut writes = WriteSet::default();
    for used in [1, 2, 1] {
        writes.clear();
        for number in 0..OPERATIONS {
            let key = format!("key {number}");
            let family = &families[number % used];
            writes
                .push(family, &put(key.as_bytes(), b"value"))
                .expect("short");
        }
        writes.prepare(false);
        let runs: Vec<bool> = writes.sections().map(|s| s.run.is_some()).collect();
        assert_eq!(runs, vec![used == 1; used], "only large batches are sorted");
        let mut seen = Sections::default();
        log_and_replay(&mut writes, &mut seen);
        let seen = seen.0;
        let expected = |index: usize| {
            let keys = (index..OPERATIONS)
                .step_by(used)
                .map(|n| format!("key {n}").into_bytes());
            (FamilyId(5 + index as u32), keys.collect::<Vec<_>>())
        };
        assert_eq!(seen, (0..used).map(expected).collect::<Vec<_>>());
    }
}

/// Goal: a transaction that would be too large is refused at the operation, and is then as before. Method: the count of
/// bytes is set near the limit, which real operations would need gigabytes for.
#[test]
fn too_large_is_refused_before_anything_changes() {
    let family = family(1, small("memcmp"));
    let mut writes = WriteSet::default();
    writes
        .push(&family, &put(b"first", b"value"))
        .expect("short");
    writes.bytes = limits::TRANSACTION_BYTES_MAX - 10;
    let error = writes
        .push(&family, &put(b"second", b"value"))
        .expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(writes.op_count(), 1);
    assert!(writes.find(&family, b"second").is_none());
    assert!(writes.find(&family, b"first").is_some());
    writes.clear();
    assert!(writes.push(&family, &put(b"second", b"value")).is_ok());
}

/// Goal: the memory of a huge transaction is given back. Method: 6 MiB in one set, then the next use.
#[test]
fn a_huge_set_gives_its_memory_back() {
    let families = [family(1, small("memcmp")), family(2, small("memcmp"))];
    let mut writes = WriteSet::default();
    for family in &families {
        writes
            .push(family, &put(b"k", &vec![1; 6 << 20]))
            .expect("below the limit");
    }
    writes.prepare(false);
    writes.clear();
    assert!(writes.gathered.capacity() <= RECYCLED_BYTES_MAX);
    assert!(
        writes
            .sections
            .iter()
            .all(|section| section.buffer.capacity() <= RECYCLED_BYTES_MAX)
    );
}

/// Goal: a read of its own writes does not cost a large transaction more the more it wrote. Method: comparisons are counted.
#[test]
fn own_writes_of_a_large_transaction_are_looked_up_by_hash() {
    let counting = Arc::new(Counting::default());
    let family = ordered(1, KeyOrder::new(Arc::clone(&counting) as _));
    let mut writes = WriteSet::default();
    for number in 0..1000_u32 {
        let key = number.to_be_bytes();
        writes.push(&family, &put(&key, b"value")).expect("short");
    }
    counting.0.store(0, Relaxed);
    for number in 0..2000_u32 {
        let own = writes.find(&family, &number.to_be_bytes());
        assert_eq!(own.is_some(), number < 1000);
    }
    let compared = counting.0.load(Relaxed);
    assert!(compared <= 1000, "{compared} comparisons of 2000 lookups");
}

/// Goal: the counts of a commit are what the user wrote and what stands in the log. Method: a value, a long value that was
/// spilled, and a delete, against the bytes of the section; in a set of one family and of two.
#[test]
fn commits_are_counted_as_they_were_written() {
    const SECTION_BYTES: u64 = 36;
    let families = [family(1, small("memcmp")), family(2, small("memcmp"))];
    let mut pointer = Vec::new();
    let long = ValuePointer {
        file: FileId(9),
        offset: 300,
        record_bytes: 40_000,
        value_bytes: 70_000,
    };
    long.encode(&mut pointer);
    for used in [1, 2] {
        let mut writes = WriteSet::default();
        for family in &families[..used] {
            let spilled = Op {
                kind: EntryKind::PutSpilled,
                ..put(b"long", &pointer)
            };
            for op in [put(b"key", b"value"), spilled, delete(b"gone")] {
                writes.push(family, &op).expect("short");
            }
        }
        writes.prepare(false);
        // What surrounds the sections is counted with the first one.
        let mut framing = writes.frames().bytes() - used as u64 * SECTION_BYTES;
        for section in writes.sections() {
            let in_log = [&section.header[..], &section.buffer[HEADROOM_BYTES..]].concat();
            let mut read = RecordReader::new(&in_log);
            assert_eq!(read.next().expect("one").expect("whole").ops.count(), 3);
            let expected = CommitSizes {
                operations: 3,
                tombstones: 1,
                key_bytes: 11,
                value_bytes: 70_005,
                log_bytes: SECTION_BYTES + std::mem::take(&mut framing),
            };
            assert_eq!(in_log.len() as u64, SECTION_BYTES);
            assert_eq!(section.sizes, expected, "{used} families");
        }
    }
}

/// Goal: what a packed record takes in the log is counted whole, and not more, with its sections.
#[test]
fn packed_bytes_are_counted_with_their_sections() {
    let families = [1, 2].map(|id| family(id, small("memcmp")));
    let mut writes = WriteSet::default();
    for (family, length) in families.iter().zip([30_000, 10_000]) {
        let push = writes.push(family, &put(b"key", &vec![7; length]));
        push.expect("short");
    }
    writes.prepare(true);
    let counted: u64 = writes
        .sections()
        .map(|section| section.sizes.log_bytes)
        .sum();
    assert_eq!(counted, writes.frames().bytes());
    assert!(counted < 4000, "{counted} of 40,000 equal bytes");
}
