//! What the tests share: random numbers from a printed seed, and entries in a sorted vector as the model of everything
//! that is walked by cursors.

use std::cmp::Ordering;

use kingtide_base::{
    Batch, Comparator, Cursor, EntryKind, KeyOrder, SeqNo, StorageError, StorageResult, ValueRef,
    built_in_comparator, checksum_mix,
};

/// A stream of numbers that its seed decides. Tests put the seed into their messages.
pub(crate) struct Random {
    pub(crate) seed: u64,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.drawn += 1;
        checksum_mix(self.seed, self.drawn)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A key out of `variety` different ones, with shapes that are awkward for prefixes and heads.
    pub(crate) fn key(&mut self, variety: usize) -> Vec<u8> {
        let number = self.below(variety);
        match number % 6 {
            0 => format!("user{number:08}").into_bytes(),
            1 => format!("user{number:08}/with/a/long/tail/{number}").into_bytes(),
            2 => format!("u{number}").into_bytes(),
            3 => (number as u64).to_be_bytes().to_vec(),
            4 => {
                // Differ only in zeros at the end: equal heads.
                let mut key = b"user0000".to_vec();
                key.resize(8 + number % 12, 0);
                key
            }
            _ => format!("USER{number:08}").into_bytes(),
        }
    }
}

/// Orders keys by their last byte, then as bytes; has no canonical form.
struct ByLastByte;

impl Comparator for ByLastByte {
    fn name(&self) -> &str {
        "by_last_byte"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.last().cmp(&right.last()).then_with(|| left.cmp(right))
    }
}

/// One order of each sort: plain bytes, other with hash, keys with several spellings, without hash.
pub(crate) fn orders() -> Vec<KeyOrder> {
    let mut orders = vec![KeyOrder::BYTEWISE];
    for name in ["reverse_memcmp", "case_insensitive", "lexicographic"] {
        orders.push(KeyOrder::new(built_in_comparator(name).expect("built in")));
    }
    orders.push(KeyOrder::new(std::sync::Arc::new(ByLastByte)));
    orders
}

/// An entry, owned. `age` counts up with insertion, to tell apart operations of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: SeqNo,
    pub(crate) age: usize,
    pub(crate) kind: EntryKind,
    pub(crate) expires_at: i64,
    pub(crate) value: Vec<u8>,
}

/// Sorts as tables and memtables do.
pub(crate) fn sort_model(entries: &mut [ModelEntry], order: &KeyOrder) {
    entries.sort_by(|left, right| {
        order
            .compare(&left.key, &right.key)
            .then_with(|| right.sequence.cmp(&left.sequence))
            .then_with(|| right.age.cmp(&left.age))
    });
}

/// Those of the operations of one commit that its run has: not a put that the next operation on its key hides.
pub(crate) fn in_run(entries: &[ModelEntry], order: &KeyOrder) -> Vec<ModelEntry> {
    use EntryKind::{Delete, Put, PutPacked, PutSpilled};
    let is_in = |(place, entry): &(usize, &ModelEntry)| {
        let mut later = entries[place + 1..].iter();
        let next = later.find(|later| order.compare(&later.key, &entry.key).is_eq());
        !matches!(
            (entry.kind, next.map(|next| next.kind)),
            (Put | PutPacked, Some(Put | PutPacked | PutSpilled | Delete))
        )
    };
    let entries = entries.iter().enumerate().filter(is_in);
    entries.map(|(_, entry)| entry.clone()).collect()
}

/// Walks a sorted vector by looking at every entry; can be told to fail, and to lend.
pub(crate) struct ModelCursor {
    order: KeyOrder,
    entries: Vec<ModelEntry>,
    position: Option<usize>,
    /// How many entries it lends at once.
    lent_max: usize,
    /// Moves that still succeed.
    pub(crate) moves_left: usize,
}

impl ModelCursor {
    pub(crate) fn new(order: KeyOrder, entries: Vec<ModelEntry>) -> Self {
        Self {
            order,
            entries,
            position: None,
            lent_max: 0,
            moves_left: usize::MAX,
        }
    }

    /// The same, which lends up to `lent_max` entries at once.
    pub(crate) fn lending(mut self, lent_max: usize) -> Self {
        self.lent_max = lent_max;
        self
    }

    /// Adds an entry where it belongs; the cursor stays on its own.
    pub(crate) fn grow(&mut self, entry: ModelEntry) {
        let current = self.current().cloned();
        self.entries.push(entry);
        sort_model(&mut self.entries, &self.order);
        self.position = self
            .entries
            .iter()
            .position(|at| Some(at) == current.as_ref());
    }

    /// The number of its entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn go(&mut self, position: Option<usize>) -> StorageResult<()> {
        self.position = None;
        if self.moves_left == 0 {
            return Err(StorageError::malformed("model", 0, "told to fail"));
        }
        self.moves_left -= 1;
        self.position = position.filter(|position| *position < self.entries.len());
        Ok(())
    }

    fn current(&self) -> Option<&ModelEntry> {
        self.entries.get(self.position?)
    }
}

impl Cursor for ModelCursor {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.go(Some(0))
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.go(self.entries.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        let order = &self.order;
        let position = self
            .entries
            .iter()
            .position(|entry| order.compare(&entry.key, key).is_ge());
        self.go(position)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        let order = &self.order;
        let position = self
            .entries
            .iter()
            .rposition(|entry| order.compare(&entry.key, key).is_le());
        self.go(position)
    }

    fn next(&mut self) -> StorageResult<()> {
        self.go(self.position.map(|position| position + 1))
    }

    fn prev(&mut self) -> StorageResult<()> {
        self.go(self.position.and_then(|position| position.checked_sub(1)))
    }

    fn is_valid(&self) -> bool {
        self.current().is_some()
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |entry| &entry.key)
    }

    fn sequence(&self) -> SeqNo {
        self.current().map_or(SeqNo::ZERO, |entry| entry.sequence)
    }

    fn kind(&self) -> EntryKind {
        self.current().map_or(EntryKind::Delete, |entry| entry.kind)
    }

    fn expires_at(&self) -> i64 {
        self.current().map_or(0, |entry| entry.expires_at)
    }

    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        Ok(ValueRef::Inline(
            self.current().map_or(&[], |entry| &entry.value),
        ))
    }

    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        let Some(position) = self.position else {
            return false;
        };
        let behind = self.entries[position..].iter().take_while(|entry| {
            until.is_none_or(|until| self.order.compare(&entry.key, until).is_lt())
        });
        let count = behind.take(self.lent_max).count();
        if count < 2 {
            return false;
        }
        let lent = &self.entries[position..position + count];
        batch.clear();
        batch.lend_sequences(lent.iter().map(|entry| entry.sequence));
        batch.lend_long_and_short_keys(&[], &[], lent.iter().map(|entry| &*entry.key));
        batch.lend_kinds(lent.iter().map(|entry| (entry.kind, false)));
        batch.lend_expiries(lent.iter().map(|entry| entry.expires_at));
        let ends = lent.iter().scan(7, |end, entry| {
            *end += entry.value.len();
            Some(*end)
        });
        batch.lend_value_ends(7, ends);
        self.position = Some(position + count - 1);
        true
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        let end = self.position.map_or(0, |position| position + 1);
        let lent = &self.entries[end.saturating_sub(batch.len())..end];
        let values: Vec<&[u8]> = lent.iter().map(|entry| &*entry.value).collect();
        batch.lend_values(&values.concat());
        Ok(())
    }
}

/// What a cursor is on: key, sequence number, kind, expiry, value.
pub(crate) type Seen = (Vec<u8>, SeqNo, EntryKind, i64, Vec<u8>);

/// What `cursor` is on, or `None` when it is invalid.
pub(crate) fn seen(cursor: &mut dyn Cursor) -> Option<Seen> {
    if !cursor.is_valid() {
        return None;
    }
    let value = match cursor.value().expect("memory does not fail") {
        ValueRef::Inline(value) => value.to_vec(),
        ValueRef::Separated(_) => Vec::new(),
    };
    let key = cursor.key().to_vec();
    Some((
        key,
        cursor.sequence(),
        cursor.kind(),
        cursor.expires_at(),
        value,
    ))
}

/// Moves both cursors `steps` times at random, the same way, and compares what they are on.
pub(crate) fn walk_both(
    random: &mut Random,
    steps: usize,
    variety: usize,
    cursor: &mut dyn Cursor,
    model: &mut dyn Cursor,
) {
    let seed = random.seed;
    for step in 0..steps {
        let key = random.key(variety);
        let choice = if model.is_valid() {
            random.below(20)
        } else {
            random.below(4)
        };
        let go = |cursor: &mut dyn Cursor| match choice {
            0 => cursor.seek_first(),
            1 => cursor.seek_last(),
            2 => cursor.seek(&key),
            3 => cursor.seek_for_prev(&key),
            4..12 => cursor.next(),
            _ => cursor.prev(),
        };
        go(model).expect("memory does not fail");
        go(cursor).expect("memory does not fail");
        assert_eq!(
            seen(cursor),
            seen(model),
            "seed {seed}, step {step}, choice {choice}"
        );
    }
}
