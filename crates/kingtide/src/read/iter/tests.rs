//! Goal: iterators show exactly what a snapshot sees, wherever they come from and whichever way they turn. Method: a
//! naive model (sort all, keep the deciding version of each key) and random walks from printed seeds.

use std::{cmp::Ordering, sync::Arc};

use kingtide_base::{
    Batch, Cursor, EntryKind, FileId, KeyOrder, SeqNo, StorageError, StorageResult, ValuePointer,
    ValueRef, built_in_comparator,
};

use kingtide_env::sync::atomic::{self, AtomicUsize};

use super::{
    Bounds, Iter, MvccCursor,
    own_writes::{OwnWrite, OwnWrites},
    owned::{MergedSource, ValueSource},
};
use crate::{ErrorKind, IterOptions};

/// A small generator with a 64-bit state (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[derive(Clone, Debug)]
struct Version {
    key: Vec<u8>,
    sequence: SeqNo,
    kind: EntryKind,
    expires_at: i64,
    value: Result<Vec<u8>, ValuePointer>,
}

impl Version {
    fn put(key: &[u8], sequence: u64, value: &[u8]) -> Self {
        Self {
            key: key.to_vec(),
            sequence: SeqNo(sequence),
            kind: EntryKind::Put,
            expires_at: 0,
            value: Ok(value.to_vec()),
        }
    }

    fn of_kind(key: &[u8], sequence: u64, kind: EntryKind) -> Self {
        Self {
            kind,
            ..Self::put(key, sequence, b"")
        }
    }

    /// The value as batches hold it.
    fn encoded_value(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.value {
            Ok(value) => bytes.extend_from_slice(value),
            Err(pointer) => pointer.encode(&mut bytes),
        }
        bytes
    }
}

/// A cursor over versions in memory, which can be told to fail.
struct VecCursor {
    order: KeyOrder,
    versions: Vec<Version>,
    index: Option<usize>,
    /// Moves until one fails; never when `None`.
    moves_left: Option<usize>,
    moves: Arc<AtomicUsize>,
    /// How many entries it lends; none below 2.
    lent_max: usize,
    /// Lends no values, so that each must be asked for.
    keeps_values: bool,
    /// Grows when it is asked for a value: by a newer version of the key behind it.
    grows: bool,
}

impl VecCursor {
    /// `versions` in the order in which they were written: within a sequence number the later one counts as newer.
    fn new(order: &KeyOrder, mut versions: Vec<Version>) -> Self {
        versions.reverse();
        versions.sort_by(|left, right| {
            order
                .compare(&left.key, &right.key)
                .then(right.sequence.cmp(&left.sequence))
        });
        Self {
            order: order.clone(),
            versions,
            index: None,
            moves_left: None,
            moves: Arc::default(),
            lent_max: 0,
            keeps_values: false,
            grows: false,
        }
    }

    /// The same, lending up to `entries` entries.
    fn lending(mut self, entries: usize) -> Self {
        self.lent_max = entries;
        self
    }

    fn go(&mut self, index: Option<usize>) -> StorageResult<()> {
        self.moves.fetch_add(1, atomic::Ordering::SeqCst);
        if let Some(moves_left) = &mut self.moves_left {
            if *moves_left == 0 {
                self.index = None;
                return Err(StorageError::checksum("1.klog", 42, "block", 1, 2));
            }
            *moves_left -= 1;
        }
        self.index = index.filter(|index| *index < self.versions.len());
        Ok(())
    }

    fn current(&self) -> &Version {
        &self.versions[self
            .index
            .expect("accessors are called on valid cursors only")]
    }

    fn count_before(&self, key: &[u8], is_before: fn(Ordering) -> bool) -> usize {
        self.versions
            .partition_point(|version| is_before(self.order.compare(&version.key, key)))
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.go(Some(0))
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.go(self.versions.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.go(Some(self.count_before(key, Ordering::is_lt)))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.go(self.count_before(key, Ordering::is_le).checked_sub(1))
    }

    fn next(&mut self) -> StorageResult<()> {
        let index = self.index.expect("moves are made on valid cursors only");
        self.go(Some(index + 1))
    }

    fn prev(&mut self) -> StorageResult<()> {
        let index = self.index.expect("moves are made on valid cursors only");
        self.go(index.checked_sub(1))
    }

    fn is_valid(&self) -> bool {
        self.index.is_some()
    }

    fn key(&self) -> &[u8] {
        &self.current().key
    }

    fn sequence(&self) -> SeqNo {
        self.current().sequence
    }

    fn kind(&self) -> EntryKind {
        self.current().kind
    }

    fn expires_at(&self) -> i64 {
        self.current().expires_at
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        let behind = self.index.map_or(0, |index| index + 1);
        if self.grows && behind < self.versions.len() {
            let newer = Version {
                sequence: SeqNo(99),
                ..self.versions[behind].clone()
            };
            self.versions.insert(behind, newer);
        }
        Ok(match &self.current().value {
            Ok(bytes) => ValueRef::Inline(bytes),
            Err(pointer) => ValueRef::Separated(*pointer),
        })
    }

    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        let index = self.index.expect("entries are lent by valid cursors only");
        let behind = self.versions[index..].iter().take_while(|version| {
            until.is_none_or(|until| self.order.compare(&version.key, until).is_lt())
        });
        let count = behind.take(self.lent_max).count();
        if count < 2 {
            return false;
        }
        let lent = &self.versions[index..index + count];
        batch.clear();
        batch.lend_sequences(lent.iter().map(|version| version.sequence));
        batch.lend_long_and_short_keys(&[], &[], lent.iter().map(|version| &*version.key));
        let shape = |version: &Version| (version.kind, version.value.is_err());
        if lent.iter().all(|version| shape(version) == shape(&lent[0])) {
            batch.lend_kind(lent[0].kind, lent[0].value.is_err());
        } else {
            batch.lend_kinds(lent.iter().map(shape));
        }
        if lent.iter().any(|version| version.expires_at != 0) {
            batch.lend_expiries(lent.iter().map(|version| version.expires_at));
        }
        let ends = lent.iter().scan(0, |end, version| {
            *end += version.encoded_value().len();
            Some(*end)
        });
        batch.lend_value_ends(0, ends);
        self.index = Some(index + count - 1);
        true
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        let end = self.index.map_or(0, |index| index + 1);
        let lent = &self.versions[end.saturating_sub(batch.len())..end];
        let values: Vec<Vec<u8>> = lent.iter().map(Version::encoded_value).collect();
        if self.keeps_values {
            batch.lend_values(&[]);
        } else if end.is_multiple_of(2) {
            batch.lend_values(&values.concat());
        } else {
            let mut bytes = [b"before".to_vec(), values.concat()].concat();
            batch.swap_values(&mut bytes, 6);
        }
        Ok(())
    }
}

fn order_named(name: &str) -> KeyOrder {
    KeyOrder::new(built_in_comparator(name).expect("a built-in order"))
}

/// What `snapshot` sees, in order: the slow and obvious way.
fn model(
    versions: &[Version],
    order: &KeyOrder,
    snapshot: SeqNo,
    now: i64,
    bounds: &Bounds,
) -> Vec<Version> {
    let sorted = VecCursor::new(order, versions.to_vec()).versions;
    let mut deciding: Vec<Version> = Vec::new();
    for version in sorted {
        let is_seen = version.sequence <= snapshot || version.sequence == SeqNo::MAX;
        let is_decided = deciding
            .last()
            .is_some_and(|last| order.compare(&last.key, &version.key).is_eq());
        if is_seen && !is_decided {
            deciding.push(version);
        }
    }
    deciding.retain(|version| {
        version.kind == EntryKind::Put
            && (version.expires_at == 0 || version.expires_at > now)
            && !bounds.starts_after(&version.key, order)
            && !bounds.ends_before(&version.key, order)
    });
    deciding
}

/// A random key of few possible ones, so that versions pile up.
fn random_key(random: &mut Random, order: &KeyOrder) -> Vec<u8> {
    if order.name() == "uint64" && random.below(8) > 0 {
        return (random.below(24) as u64 * 100).to_ne_bytes().to_vec();
    }
    let alphabet = [b'a', b'B', b'A', b'b', 0, 0xff];
    let length = 1 + random.below(2);
    (0..length)
        .map(|_| alphabet[random.below(alphabet.len())])
        .collect()
}

fn random_versions(random: &mut Random, order: &KeyOrder) -> Vec<Version> {
    let count = random.below(60);
    (0..count)
        .map(|index| {
            let kind = match random.below(8) {
                0 => EntryKind::Delete,
                1 => EntryKind::SingleDelete,
                _ => EntryKind::Put,
            };
            let is_own = random.below(12) == 0;
            let is_separated = kind == EntryKind::Put && !is_own && random.below(6) == 0;
            let value = if kind != EntryKind::Put {
                Ok(Vec::new())
            } else if is_separated {
                Err(pointer_number(index as u64))
            } else {
                Ok(format!("value {index}").into_bytes())
            };
            Version {
                key: random_key(random, order),
                sequence: if is_own {
                    SeqNo::MAX
                } else {
                    SeqNo(1 + random.below(12) as u64)
                },
                kind,
                expires_at: [0, 0, 0, 50, 100, 101][random.below(6)],
                value,
            }
        })
        .collect()
}

fn pointer_number(number: u64) -> ValuePointer {
    ValuePointer {
        file: FileId(9),
        offset: number,
        record_bytes: 40,
        value_bytes: 8,
    }
}

fn random_bounds(random: &mut Random, order: &KeyOrder) -> Bounds {
    let mut maybe_key = |one_in: usize| {
        let key = random_key(random, order);
        (random.below(one_in) == 0).then_some(key)
    };
    let options = IterOptions {
        lower: maybe_key(3),
        upper: maybe_key(3),
        prefix: maybe_key(4).filter(|_| order.is_bytewise()),
    };
    Bounds::new(&options, order).expect("prefixes only in byte order")
}

/// Compares what `view` shows with entry `index` of the model.
fn check(view: &mut MvccCursor<impl Cursor>, model: &[Version], index: Option<usize>, what: &str) {
    let expected = index.and_then(|index| model.get(index));
    assert_eq!(view.is_valid(), expected.is_some(), "{what}");
    let Some(expected) = expected else {
        assert!(view.key().is_empty(), "{what}");
        return;
    };
    assert_eq!(view.key(), expected.key, "{what}");
    assert_eq!(view.expires_at(), expected.expires_at, "{what}");
    let (key, value) = view.entry().expect("memory does not fail");
    assert_eq!(key, expected.key, "{what}");
    match &expected.value {
        Ok(bytes) => assert_eq!(value, ValueRef::Inline(bytes), "{what}"),
        Err(pointer) => assert_eq!(value, ValueRef::Separated(*pointer), "{what}"),
    }
}

/// One random move of `view`; answers where the model is afterwards.
fn random_move(
    random: &mut Random,
    view: &mut MvccCursor<impl Cursor>,
    (model, order, bounds): (&[Version], &KeyOrder, &Bounds),
    index: Option<usize>,
) -> (Option<usize>, String) {
    let key = random_key(random, order);
    let count_before = |is_before: fn(Ordering) -> bool| {
        model.partition_point(|version| is_before(order.compare(&version.key, &key)))
    };
    let choice = random.below(14);
    let (moved, index) = match choice {
        0 => (view.seek_to_first(), Some(0)),
        1 => (view.seek_to_last(), model.len().checked_sub(1)),
        2 | 3 => {
            let is_beyond = bounds.ends_before(&key, order);
            let index = Some(count_before(Ordering::is_lt)).filter(|_| !is_beyond);
            (view.seek(&key), index)
        }
        4 | 5 => {
            let is_beyond = bounds.starts_after(&key, order);
            let index = count_before(Ordering::is_le).checked_sub(1);
            (view.seek_for_prev(&key), index.filter(|_| !is_beyond))
        }
        6..10 => (view.next(), index.map(|index| index + 1)),
        _ => (view.prev(), index.and_then(|index| index.checked_sub(1))),
    };
    let index = index.filter(|index| *index < model.len());
    let what = format!("move {choice}, key {key:?}, index {index:?}");
    let moved = moved.expect("memory does not fail");
    assert_eq!(moved, index.is_some(), "{what}");
    (index, what)
}

/// One random walk over what `open` makes of random versions, against the model.
fn check_walk<C: Cursor>(
    order: &KeyOrder,
    seed: u64,
    open: impl FnOnce(&KeyOrder, Vec<Version>) -> C,
) {
    let mut random = Random(seed);
    let versions = random_versions(&mut random, order);
    let snapshot = SeqNo(random.below(14) as u64);
    let now = 100;
    let bounds = random_bounds(&mut random, order);
    let model = model(&versions, order, snapshot, now, &bounds);
    let source = open(order, versions);
    let mut view =
        MvccCursor::new(source, order.clone(), snapshot, now).with_bounds(bounds.clone());
    let mut index = None;
    for step in 0..60 {
        let around = (&model[..], order, &bounds);
        let (next, what) = random_move(&mut random, &mut view, around, index);
        index = next;
        let what = format!("{}, seed {seed}, step {step}: {what}", order.name());
        check(&mut view, &model, index, &what);
    }
}

#[test]
fn random_walks_show_what_the_model_shows() {
    for name in [
        "memcmp",
        "reverse_memcmp",
        "uint64",
        "case_insensitive",
        "lexicographic",
    ] {
        let order = order_named(name);
        for seed in 0..400 {
            check_walk(&order, seed, |order, versions| {
                VecCursor::new(order, versions)
            });
            check_walk(&order, seed, |order, versions| {
                let mut source = VecCursor::new(order, versions).lending(2 + seed as usize % 30);
                source.keeps_values = seed % 9 == 0;
                source
            });
        }
    }
}

/// Goal: the same over what is lent most often: puts that stay, one version of each key. Method: as above, in long walks.
#[test]
fn runs_show_what_the_model_shows() {
    for name in ["memcmp", "reverse_memcmp", "case_insensitive"] {
        let order = order_named(name);
        for seed in 0..200 {
            let mut random = Random(seed);
            let mut versions: Vec<Version> = (0..200_u64)
                .map(|number| {
                    // Two of them are one key where case does not count.
                    let key = [format!("k{number:03}"), format!("K{number:03}")];
                    let key = &key[usize::from(random.below(30) == 0)];
                    Version::put(key.as_bytes(), 1 + number % 3, key.as_bytes())
                })
                .collect();
            for _ in 0..random.below(6) {
                let place = random.below(versions.len());
                let version = &mut versions[place];
                match random.below(4) {
                    0 => version.sequence = SeqNo(50),
                    1 => version.kind = EntryKind::Delete,
                    2 => version.expires_at = [50, 150][random.below(2)],
                    _ => {
                        let older = Version {
                            sequence: SeqNo(0),
                            ..version.clone()
                        };
                        versions.push(older);
                    }
                }
            }
            let options = IterOptions {
                upper: (seed % 2 == 0).then(|| b"k150".to_vec()),
                ..IterOptions::default()
            };
            let bounds = Bounds::new(&options, &order).unwrap();
            let model = model(&versions, &order, SeqNo(9), 100, &bounds);
            let source = VecCursor::new(&order, versions).lending(2 + random.below(70));
            let mut view =
                MvccCursor::new(source, order.clone(), SeqNo(9), 100).with_bounds(bounds);
            let mut index = Some(0);
            assert_eq!(view.seek_to_first().unwrap(), !model.is_empty());
            while let Some(place) = index.filter(|place| *place < model.len()) {
                let what = format!("{name}, seed {seed}, entry {place}");
                if random.below(3) > 0 {
                    check(&mut view, &model, Some(place), &what);
                }
                index = if random.below(20) == 0 {
                    view.prev().unwrap();
                    place.checked_sub(1)
                } else {
                    view.next().unwrap();
                    Some(place + 1)
                };
                assert_eq!(
                    view.is_valid(),
                    index.is_some_and(|place| place < model.len()),
                    "{what}"
                );
            }
        }
    }
}

/// Goal: a source that gives up what it lent may have grown, and what has appeared is not shown. Method: one that lends no
/// values, and grows at each of them.
#[test]
fn a_run_ends_where_the_source_gives_up_what_it_lent() {
    let versions: Vec<Version> = (0..100)
        .map(|number| Version::put(format!("{number:03}").as_bytes(), 1, b"seen"))
        .collect();
    let mut source = VecCursor::new(&KeyOrder::BYTEWISE, versions.clone()).lending(30);
    source.keeps_values = true;
    source.grows = true;
    let mut view = MvccCursor::new(source, KeyOrder::BYTEWISE, SeqNo(9), 0);
    let mut is_valid = view.seek_to_first().unwrap();
    for (number, version) in versions.iter().enumerate() {
        assert!(is_valid);
        assert_eq!(view.key(), version.key);
        if number % 7 == 5 {
            let (key, _) = view.entry().unwrap();
            assert_eq!(key, version.key);
        }
        is_valid = view.next().unwrap();
    }
    assert!(!is_valid);
}

#[test]
fn many_versions_of_a_key_are_sought_past_in_byte_order() {
    let versions: Vec<Version> = (1..=10_000)
        .map(|sequence| Version::put(b"a", sequence, b"old"))
        .chain([Version::put(b"a\0", 1, b"next")])
        .collect();
    for (order, moves_max) in [(KeyOrder::BYTEWISE, 40), (order_named("int64"), 10_010)] {
        let source = VecCursor::new(&order, versions.clone());
        let moves = Arc::clone(&source.moves);
        let mut view = MvccCursor::new(source, order, SeqNo(20_000), 0);
        assert!(view.seek_to_first().unwrap());
        assert!(view.next().unwrap());
        assert_eq!(view.key(), b"a\0");
        assert!(moves.load(atomic::Ordering::SeqCst) <= moves_max);
    }
}

/// Goal: an iterator does not pay for what lies beyond its bounds, however many tombstones that is.
#[test]
fn moves_end_at_the_bounds() {
    let mut versions = vec![Version::put(b"a", 1, b"first")];
    for number in 0..1000 {
        let key = format!("k{number:04}").into_bytes();
        versions.push(Version::of_kind(&key, 1, EntryKind::Delete));
    }
    let options = IterOptions {
        upper: Some(b"k0001".to_vec()),
        ..IterOptions::default()
    };
    let source = VecCursor::new(&KeyOrder::BYTEWISE, versions);
    let moves = Arc::clone(&source.moves);
    let bounds = Bounds::new(&options, &KeyOrder::BYTEWISE).unwrap();
    let mut view =
        MvccCursor::new(source, KeyOrder::BYTEWISE, SeqNo(9), 0).with_bounds(bounds.clone());
    assert!(view.seek_to_first().unwrap());
    assert!(!view.next().unwrap());
    assert!(!view.next().unwrap(), "no position, no move");
    assert!(view.seek_to_last().unwrap());
    assert_eq!(view.key(), b"a");
    assert!(moves.load(atomic::Ordering::SeqCst) < 10);
}

#[test]
fn prefixes_become_ranges_in_byte_order_only() {
    let bounds = |lower: Option<&[u8]>, upper: Option<&[u8]>, prefix: &[u8]| {
        let options = IterOptions {
            lower: lower.map(<[u8]>::to_vec),
            upper: upper.map(<[u8]>::to_vec),
            prefix: Some(prefix.to_vec()),
        };
        Bounds::new(&options, &KeyOrder::BYTEWISE).unwrap()
    };
    let range = |bounds: Bounds| {
        let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        (own(bounds.lower()), own(bounds.upper()))
    };
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(range(bounds(None, None, b"ab")), (some(b"ab"), some(b"ac")));
    assert_eq!(
        range(bounds(None, None, b"a\xff")),
        (some(b"a\xff"), some(b"b"))
    );
    assert_eq!(
        range(bounds(None, None, b"\xff\xff")),
        (some(b"\xff\xff"), None)
    );
    assert_eq!(
        range(bounds(Some(b"abc"), Some(b"abd"), b"ab")),
        (some(b"abc"), some(b"abd"))
    );
    assert_eq!(
        range(bounds(Some(b"a"), Some(b"b"), b"ab")),
        (some(b"ab"), some(b"ac"))
    );
    assert_eq!(range(bounds(None, None, b"")), (None, None));

    let options = IterOptions {
        prefix: some(b"a"),
        ..IterOptions::default()
    };
    let error = Bounds::new(&options, &order_named("reverse_memcmp")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// Goal: the last operation on a key counts, and clones walk on their own. Method: random operations against a map.
#[test]
fn own_writes_show_the_last_operation_on_each_key() {
    for name in ["memcmp", "case_insensitive"] {
        let order = order_named(name);
        for seed in 0..100 {
            let mut random = Random(seed);
            let mut buffer = Vec::new();
            let mut writes = Vec::new();
            let mut versions = Vec::new();
            for number in 0..random.below(30) {
                let key = random_key(&mut random, &order);
                let kind = [EntryKind::Put, EntryKind::Delete][random.below(2)];
                let value = format!("{number}").into_bytes();
                let mut append = |bytes: &[u8]| {
                    buffer.extend_from_slice(bytes);
                    buffer.len() - bytes.len()..buffer.len()
                };
                writes.push(OwnWrite {
                    kind,
                    expires_at: number as i64,
                    key: append(&key),
                    value: append(&value),
                });
                versions.push(Version {
                    key,
                    sequence: SeqNo::MAX,
                    kind,
                    expires_at: number as i64,
                    value: Ok(value),
                });
            }
            let mut expected = VecCursor::new(&order, versions).versions;
            expected.dedup_by(|later, first| order.compare(&later.key, &first.key).is_eq());

            let first = OwnWrites::new(order.clone(), buffer.into(), writes);
            let mut cursor = first.clone();
            assert!(!cursor.is_valid());
            cursor.seek_first().unwrap();
            for version in &expected {
                assert!(cursor.is_valid(), "{name}, seed {seed}");
                assert_eq!(cursor.key(), version.key, "{name}, seed {seed}");
                assert_eq!(cursor.sequence(), SeqNo::MAX);
                assert_eq!(cursor.kind(), version.kind, "{name}, seed {seed}");
                assert_eq!(cursor.expires_at(), version.expires_at);
                let value = version.value.as_ref().unwrap();
                assert_eq!(cursor.value().unwrap(), ValueRef::Inline(value));
                cursor.next().unwrap();
            }
            assert!(!cursor.is_valid());
            cursor.seek_last().unwrap();
            for version in expected.iter().rev() {
                assert_eq!(cursor.key(), version.key, "{name}, seed {seed}");
                cursor.prev().unwrap();
            }
            assert!(!cursor.is_valid());

            let key = random_key(&mut random, &order);
            let at = expected
                .iter()
                .find(|v| order.compare(&v.key, &key).is_ge());
            cursor.seek(&key).unwrap();
            let found = cursor.is_valid().then(|| cursor.key());
            assert_eq!(found, at.map(|version| version.key.as_slice()));
            let at = expected
                .iter()
                .rfind(|v| order.compare(&v.key, &key).is_le());
            cursor.seek_for_prev(&key).unwrap();
            let found = cursor.is_valid().then(|| cursor.key());
            assert_eq!(found, at.map(|version| version.key.as_slice()));
        }
    }
}

/// Values by their pointer's offset; odd ones are damaged. Counts the reads.
#[derive(Default)]
struct Values {
    reads: AtomicUsize,
}

impl ValueSource for Arc<Values> {
    fn read(
        &mut self,
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        self.reads.fetch_add(1, atomic::Ordering::SeqCst);
        if pointer.offset % 2 == 1 {
            return Err(StorageError::checksum(
                "9.vlog",
                pointer.offset,
                "value",
                1,
                2,
            ));
        }
        *value = [b"separated ", key].concat();
        Ok(())
    }
}

fn iter_over(versions: Vec<Version>, moves_left: Option<usize>) -> (Iter, Arc<Values>) {
    let mut source = VecCursor::new(&KeyOrder::BYTEWISE, versions);
    source.moves_left = moves_left;
    let source: MergedSource = Box::new(source);
    let view = MvccCursor::new(source, KeyOrder::BYTEWISE, SeqNo(100), 100);
    let values = Arc::new(Values::default());
    (
        Iter::new(view, Box::new(values.clone()), Box::new("kept alive")),
        values,
    )
}

const fn is_send<T: Send + 'static>() {}
const _: () = is_send::<Iter>();
const _: () = is_send::<super::Entries>();

#[test]
fn an_iterator_without_a_position_refuses_to_move_and_to_read() {
    let (mut iter, _) = iter_over(vec![Version::put(b"a", 1, b"1")], None);
    let refuses = |iter: &mut Iter| {
        assert!(!iter.is_valid());
        assert!(iter.key().is_empty());
        assert_eq!(iter.expires_at(), None);
        assert_eq!(iter.next().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(iter.prev().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(iter.value().unwrap_err().kind(), ErrorKind::InvalidArgument);
    };
    refuses(&mut iter);
    assert!(iter.seek_to_first().unwrap());
    assert_eq!(iter.value().unwrap(), b"1");
    assert!(!iter.next().unwrap());
    refuses(&mut iter);
    assert!(iter.seek_for_prev(b"b").unwrap());
    assert!(!iter.prev().unwrap());
    refuses(&mut iter);
    assert!(!iter.seek(b"b").unwrap());
    refuses(&mut iter);
}

#[test]
fn separated_values_are_read_once_per_position_and_only_when_asked_for() {
    let separated = |key: &[u8], number| Version {
        value: Err(pointer_number(number)),
        expires_at: 200,
        ..Version::put(key, 1, b"")
    };
    let (mut iter, values) = iter_over(
        vec![
            separated(b"a", 0),
            separated(b"b", 2),
            Version::put(b"c", 1, b"3"),
        ],
        None,
    );
    let reads = || values.reads.load(atomic::Ordering::SeqCst);
    assert!(iter.seek_to_first().unwrap());
    assert_eq!(reads(), 0);
    assert_eq!(iter.expires_at(), Some(200));
    assert_eq!(iter.value().unwrap(), b"separated a");
    assert_eq!(iter.value().unwrap(), b"separated a");
    assert_eq!(reads(), 1);
    assert!(iter.next().unwrap());
    assert_eq!(iter.value().unwrap(), b"separated b");
    assert!(iter.seek_to_last().unwrap());
    assert_eq!(iter.value().unwrap(), b"3");
    assert_eq!(iter.expires_at(), None);
    assert!(iter.prev().unwrap());
    assert_eq!(iter.value().unwrap(), b"separated b", "walking backward");
    assert_eq!(reads(), 3);
}

#[test]
fn a_storage_error_is_returned_again_until_a_seek() {
    let versions: Vec<Version> = [b"a", b"b", b"c"]
        .iter()
        .map(|key| Version::put(*key, 1, b"v"))
        .collect();
    let (mut iter, _) = iter_over(versions.clone(), Some(1));
    assert!(iter.seek_to_first().unwrap());
    for _ in 0..2 {
        let error = iter.next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.corruption().map(|damage| damage.offset), Some(42));
        assert!(!iter.is_valid());
        assert!(iter.key().is_empty());
        assert_eq!(iter.value().unwrap_err().kind(), ErrorKind::Corruption);
    }
    let mut entries = iter.entries();
    let error = entries.next().expect("the error once more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(entries.next().is_none());

    // A failure while a backward move collects versions must not leave half a position behind.
    let (mut iter, _) = iter_over(versions, Some(1));
    assert_eq!(
        iter.seek_to_last().unwrap_err().kind(),
        ErrorKind::Corruption
    );
    assert!(!iter.is_valid());
}

#[test]
fn a_damaged_separated_value_is_an_error_and_a_seek_goes_on() {
    let (mut iter, _) = iter_over(
        vec![
            Version {
                value: Err(pointer_number(1)),
                ..Version::put(b"a", 1, b"")
            },
            Version::put(b"b", 1, b"2"),
        ],
        None,
    );
    assert!(iter.seek_to_first().unwrap());
    assert_eq!(iter.value().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(!iter.is_valid());
    assert_eq!(iter.next().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(iter.seek(b"b").unwrap());
    assert_eq!(iter.value().unwrap(), b"2");
}

#[test]
fn reserved_kinds_are_refused_rather_than_passed_over() {
    for kind in [EntryKind::Merge, EntryKind::RangeDelete] {
        let versions = vec![Version::put(b"a", 1, b"1"), Version::of_kind(b"a", 2, kind)];
        let (mut iter, _) = iter_over(versions, None);
        for moved in [iter.seek_to_first(), iter.seek_to_last()] {
            assert_eq!(moved.unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}

#[test]
fn entries_start_at_the_position_or_at_the_first_key() {
    let versions: Vec<Version> = [b"a", b"b", b"c"]
        .iter()
        .map(|key| Version::put(*key, 1, *key))
        .collect();
    let keys = |iter: Iter| -> Vec<Vec<u8>> {
        iter.entries()
            .map(|entry| {
                let (key, value) = entry.unwrap();
                assert_eq!(key, value);
                key
            })
            .collect()
    };
    let (iter, _) = iter_over(versions.clone(), None);
    assert_eq!(keys(iter), [b"a", b"b", b"c"]);
    let (mut iter, _) = iter_over(versions.clone(), None);
    assert!(iter.seek_to_last().unwrap());
    assert!(iter.prev().unwrap());
    assert_eq!(keys(iter), [b"b", b"c"]);
    let (iter, _) = iter_over(Vec::new(), None);
    assert!(keys(iter).is_empty());
}
