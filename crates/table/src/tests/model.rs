//! Random entries, the world they are written to, and the naive answers that tables are compared with.

use std::path::Path;
use std::sync::Arc;

use kingtide_base::{
    Cursor, EntryKind, EntryRef, FamilyId, FileId, KeyOrder, SeqNo, ValuePointer, ValueRef,
    built_in_comparator,
};
use kingtide_collections::BlockCache;
use kingtide_env::{Directory, Env, FaultyEnv, MemoryEnv, OpenMode, Operation};
use kingtide_format::{CodecId, TableMeta};

use crate::{
    Table, TableBuilder, TableEntry, TableSettings, TableValue, ValueLogBuilder, klog_name,
    vlog_name,
};

pub const CODECS: [CodecId; 5] = [
    CodecId::None,
    CodecId::Snappy,
    CodecId::Lz4,
    CodecId::Zstd,
    CodecId::Lz4Fast,
];
pub const ORDERS: [&str; 4] = ["memcmp", "uint64", "case_insensitive", "reverse_memcmp"];

/// SplitMix64: small, and the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// The value file `file`, new and empty.
pub fn new_value_file(
    directory: &Arc<dyn Directory>,
    file: FileId,
    codec: CodecId,
) -> ValueLogBuilder {
    let new = directory
        .open(&vlog_name(file), OpenMode::CreateNew)
        .expect("a new name");
    ValueLogBuilder::new(new, file, codec)
}

/// A value, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Inline(Vec<u8>),
    Separated(ValuePointer),
}

/// An entry, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub sequence: SeqNo,
    pub kind: EntryKind,
    pub expires_at: i64,
    pub value: Value,
}

impl Entry {
    pub fn put(key: &[u8], sequence: u64, value: &[u8]) -> Self {
        Self {
            key: key.to_vec(),
            sequence: SeqNo(sequence),
            kind: EntryKind::Put,
            expires_at: 0,
            value: Value::Inline(value.to_vec()),
        }
    }

    pub fn borrowed(&self) -> EntryRef<'_> {
        EntryRef {
            key: &self.key,
            sequence: self.sequence,
            kind: self.kind,
            expires_at: self.expires_at,
            value: match &self.value {
                Value::Inline(bytes) => ValueRef::Inline(bytes),
                Value::Separated(pointer) => ValueRef::Separated(*pointer),
            },
        }
    }

    /// The entry a cursor is on.
    pub fn at(cursor: &mut dyn Cursor) -> kingtide_base::StorageResult<Self> {
        let value = match cursor.value()? {
            ValueRef::Inline(bytes) => Value::Inline(bytes.to_vec()),
            ValueRef::Separated(pointer) => Value::Separated(pointer),
        };
        Ok(Self {
            key: cursor.key().to_vec(),
            sequence: cursor.sequence(),
            kind: cursor.kind(),
            expires_at: cursor.expires_at(),
            value,
        })
    }

    /// True when a point read found this entry.
    pub fn is(&self, found: &TableEntry) -> bool {
        let is_value = match (&self.value, &found.value) {
            (Value::Inline(bytes), TableValue::Inline(other)) => **other == **bytes,
            (Value::Separated(pointer), TableValue::Separated(other)) => pointer == other,
            _ => false,
        };
        is_value
            && self.sequence == found.sequence
            && self.kind == found.kind
            && self.expires_at == found.expires_at
    }
}

/// Puts of so many ascending keys, with values of 100 bytes that compress to a half.
pub fn half_random_entries(count: usize, seed: u64) -> Vec<Entry> {
    let random = &mut Random(seed);
    let entry = |number| {
        let mut value = random.bytes(50);
        value.resize(100, 0);
        Entry::put(format!("key{number:05}").as_bytes(), 1, &value)
    };
    (0..count).map(entry).collect()
}

pub fn order_named(name: &str) -> KeyOrder {
    KeyOrder::new(built_in_comparator(name).expect("a built-in name"))
}

/// How the keys of one case look.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Few letters in both cases, short, often one the beginning of another.
    Letters,
    /// Eight bytes, in both byte orders.
    Integers,
    /// A long shared beginning and end.
    Shared,
    /// Any bytes, up to a few hundred.
    Any,
    /// Longer than a block.
    Long,
}

fn random_key(random: &mut Random, keys: Keys) -> Vec<u8> {
    match keys {
        Keys::Letters => {
            let count = 1 + random.below(4);
            (0..count)
                .map(|_| b"aAbBz\xff\0"[random.below(7)])
                .collect()
        }
        Keys::Integers => {
            let number = random.next() % 2000;
            if random.one_in(2) {
                number.to_be_bytes().to_vec()
            } else {
                number.to_le_bytes().to_vec()
            }
        }
        Keys::Shared => {
            format!("tenant/0000000042/row/{:05}/column", random.below(3000)).into_bytes()
        }
        Keys::Any => {
            let count = random.below(500);
            random.bytes(count)
        }
        Keys::Long => {
            let mut key = vec![b'k'; 700];
            let count = 1 + random.below(3);
            key.extend(random.bytes(count));
            key
        }
    }
}

fn random_value(random: &mut Random, style: usize) -> Value {
    let bytes = match style {
        0 => Vec::new(),
        1 => vec![7; 20],
        2 => {
            let count = random.below(60);
            random.bytes(count)
        }
        3 => {
            let start = random.next() as u8;
            (0..100).map(|i: u8| start.wrapping_add(i)).collect()
        }
        _ => {
            let count = if random.one_in(20) { 20_000 } else { 30 };
            vec![random.next() as u8; count]
        }
    };
    if style > 0 && random.one_in(6) {
        return Value::Separated(ValuePointer {
            file: FileId(1 + random.next() % 3),
            offset: random.next() >> random.below(64),
            record_bytes: random.next() as u32 >> random.below(32),
            value_bytes: random.next() as u32 >> random.below(32),
        });
    }
    Value::Inline(bytes)
}

/// Sorted entries: many shapes of keys and values, many versions of some keys, tombstones, expiry, pointers.
pub fn random_entries(random: &mut Random, order: &KeyOrder) -> Vec<Entry> {
    let styles = [
        Keys::Letters,
        Keys::Integers,
        Keys::Shared,
        Keys::Any,
        Keys::Long,
    ];
    let keys = styles[random.below(styles.len())];
    let value_style = random.below(5);
    let is_plain = random.one_in(3);
    let count = 1 + random.below(if matches!(keys, Keys::Long) { 40 } else { 400 });
    let sequence_bits = [1, 8, 16, 40, 64][random.below(5)];
    let mut entries: Vec<Entry> = (0..count)
        .map(|_| Entry {
            key: random_key(random, keys),
            sequence: SeqNo((random.next() >> (64 - sequence_bits)).max(1)),
            kind: EntryKind::Put,
            expires_at: 0,
            value: random_value(random, value_style),
        })
        .collect();
    if !is_plain {
        // One key with more versions than a block holds.
        let hot = entries[0].clone();
        entries.extend((0..60).map(|_| Entry {
            sequence: SeqNo(1 + random.next() % 1000),
            ..hot.clone()
        }));
        for entry in &mut entries {
            if random.one_in(5) {
                entry.kind = [
                    EntryKind::Delete,
                    EntryKind::SingleDelete,
                    EntryKind::RangeDelete,
                ][random.below(3)];
                entry.value = Value::Inline(Vec::new());
            }
            if random.one_in(4) {
                entry.expires_at = (random.next() >> (1 + random.below(62))) as i64;
            }
        }
    }
    sort(&mut entries, order);
    entries
}

pub fn sort(entries: &mut Vec<Entry>, order: &KeyOrder) {
    entries.sort_by(|a, b| {
        order
            .compare(&a.key, &b.key)
            .then(b.sequence.cmp(&a.sequence))
    });
    entries.dedup_by(|b, a| order.compare(&a.key, &b.key).is_eq() && a.sequence == b.sequence);
}

/// A key that may or may not be among `entries`, often close to one.
pub fn probe(random: &mut Random, entries: &[Entry]) -> Vec<u8> {
    let mut key = entries[random.below(entries.len())].key.clone();
    match random.below(6) {
        0 => key.push(random.next() as u8),
        1 => {
            key.pop();
        }
        2 => {
            let at = random.below(key.len().max(1));
            if let Some(byte) = key.get_mut(at) {
                *byte = byte.wrapping_add(1);
            }
        }
        3 => key = random.bytes(3),
        _ => {}
    }
    key
}

/// The newest entry of `key` at `snapshot`.
pub fn find<'a>(
    entries: &'a [Entry],
    order: &KeyOrder,
    key: &[u8],
    snapshot: SeqNo,
) -> Option<&'a Entry> {
    entries
        .iter()
        .find(|entry| order.compare(&entry.key, key).is_eq() && entry.sequence <= snapshot)
}

/// How often files of this world were read so far.
pub fn reads_so_far(env: &FaultyEnv) -> u64 {
    env.counts()
        .get(&Operation::Read)
        .copied()
        .unwrap_or_default()
}

/// A directory in a world in memory.
pub struct World {
    pub env: MemoryEnv,
    pub directory: Arc<dyn Directory>,
}

impl World {
    pub fn new() -> Self {
        let env = MemoryEnv::new(1);
        let directory = env
            .open_directory(Path::new("/klog"), true)
            .expect("an empty world");
        Self { env, directory }
    }

    pub fn path(file: FileId) -> String {
        format!("/klog/{}", klog_name(file))
    }

    pub fn build(&self, file: FileId, settings: &TableSettings, entries: &[Entry]) -> TableMeta {
        self.build_of(None, file, settings, entries)
    }

    /// As [`World::build`], for a family.
    pub fn build_of(
        &self,
        family: Option<FamilyId>,
        file: FileId,
        settings: &TableSettings,
        entries: &[Entry],
    ) -> TableMeta {
        let new = self
            .directory
            .open(&klog_name(file), OpenMode::CreateNew)
            .expect("a new name");
        let mut builder = TableBuilder::new(new, file, settings.clone());
        if let Some(family) = family {
            builder.set_family(family, "of tests".to_owned());
        }
        for entry in entries {
            builder
                .add(&entry.borrowed())
                .expect("a world without faults");
        }
        assert_eq!(builder.entries(), entries.len() as u64);
        builder.finish().expect("a world without faults")
    }

    pub fn open(
        &self,
        meta: &TableMeta,
        order: &KeyOrder,
    ) -> kingtide_base::StorageResult<Arc<Table>> {
        let file = self
            .directory
            .open(&klog_name(meta.file), OpenMode::Read)
            .expect("the file is there");
        let name = format!("klog/{}", klog_name(meta.file));
        Table::open(file, name, meta, order.clone()).map(Arc::new)
    }
}

pub fn cache() -> Arc<BlockCache<crate::Block>> {
    Arc::new(BlockCache::new(64 << 10))
}
