//! The table against a list of what is locked.

use std::{cmp, ops::Bound};

use kingtide_base::{Comparator, EntryKind, FamilyId, KeyOrder, built_in_comparator};
use kingtide_format::{
    Lock, Op, write_lock, write_lock_section, write_op, write_prepare, write_section_header,
};
use kingtide_testkit::Random;

use super::*;
use crate::{
    family::{FamilyParts, Opening, SuperVersion, testing},
    memtable::MemtableSource,
    version::Version,
    wal::HEADROOM_BYTES,
};

/// Keys of tests are one byte long.
const KEYS: usize = 24;

/// Byte order, without a canonical form.
struct Unhashed;

impl Comparator for Unhashed {
    fn name(&self) -> &str {
        "unhashed"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> cmp::Ordering {
        left.cmp(right)
    }
}

fn family(id: u32, order: KeyOrder) -> Arc<Family> {
    let active = MemtableSource::unbounded().make(&order, 4096, 0, 0);
    Arc::new(Family::new(FamilyParts {
        id: FamilyId(id),
        name: format!("family {id}"),
        opening: Opening::default(),
        options: testing::small("memcmp"),
        first: SuperVersion {
            active,
            sealed: Vec::new(),
            version: Arc::new(Version::empty(order.clone())),
        },
        order,
    }))
}

fn families() -> [Arc<Family>; 3] {
    let reverse = built_in_comparator("reverse_memcmp").expect("it is built in");
    [
        family(1, KeyOrder::BYTEWISE),
        family(2, KeyOrder::new(reverse)),
        family(3, KeyOrder::new(Arc::new(Unhashed))),
    ]
}

/// A key or a range in the eyes of the model: half steps, so that ends that exclude a key have a place.
#[derive(Clone, Copy, Debug)]
struct Piece {
    family: usize,
    mode: LockMode,
    low: i32,
    high: i32,
    is_write: bool,
    kinds: (u8, u8),
}

const LAST: i32 = 10_000;

impl Piece {
    fn draw(random: &mut Random) -> Self {
        let exclusive = random.one_in(2);
        let mode = if exclusive {
            LockMode::Exclusive
        } else {
            LockMode::Shared
        };
        let family = random.below(3);
        let (a, b) = (random.below(KEYS) as i32, random.below(KEYS) as i32);
        let (a, b) = (2 * a.min(b), 2 * a.max(b));
        let mut piece = Self {
            family,
            mode,
            low: a,
            high: a,
            is_write: exclusive && random.one_in(2),
            kinds: (1, 1),
        };
        if random.one_in(3) {
            // Written ranges include their beginning and exclude their end; only read ones have other ends.
            piece.is_write = exclusive;
            piece.kinds = if exclusive {
                (1, 2)
            } else {
                (random.below(3) as u8, random.below(3) as u8)
            };
            piece.low = [-LAST, a, a + 1][usize::from(piece.kinds.0)];
            piece.high = [LAST, b, b - 1][usize::from(piece.kinds.1)];
        }
        piece
    }

    fn is_range(&self) -> bool {
        self.kinds != (1, 1) || self.low != self.high
    }

    /// The key at a half step, in the order of the family.
    fn key(&self, step: i32) -> [u8; 1] {
        let step = step.clamp(0, 2 * KEYS as i32) / 2;
        [if self.family == 1 {
            200 - step as u8
        } else {
            step as u8
        }]
    }

    fn ends(&self) -> ([u8; 1], [u8; 1]) {
        let low = self.low - i32::from(self.kinds.0 == 2);
        let high = self.high + i32::from(self.kinds.1 == 2);
        (self.key(low), self.key(high))
    }

    fn blocks(&self, other: &Self) -> bool {
        let modes = self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive;
        let is_empty = self.low > self.high || other.low > other.high;
        modes
            && !is_empty
            && self.family == other.family
            && self.low.max(other.low) <= self.high.min(other.high)
    }
}

/// The bytes of an operation that locks what an exclusive piece says.
fn op_bytes(piece: &Piece) -> Vec<u8> {
    let (low, high) = piece.ends();
    let mut bytes = Vec::new();
    let range = Op {
        kind: EntryKind::RangeDelete,
        key: &low,
        value: &high,
        expires_at: 0,
    };
    let point = Op {
        kind: EntryKind::Delete,
        value: &[],
        ..range
    };
    write_op(&mut bytes, if piece.is_range() { &range } else { &point });
    bytes
}

fn lock_bytes(piece: &Piece) -> Vec<u8> {
    let (low, high) = piece.ends();
    let bound = |kind: u8, key: &'static [u8]| match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    let mut bytes = Vec::new();
    let lock = match (piece.mode, piece.is_range()) {
        (LockMode::Exclusive, _) => Lock::ForUpdate(&low),
        (LockMode::Shared, false) => Lock::Read(&low),
        (LockMode::Shared, true) => Lock::ReadRange(
            bound(piece.kinds.0, low.to_vec().leak()),
            bound(piece.kinds.1, high.to_vec().leak()),
        ),
    };
    write_lock(&mut bytes, &lock);
    bytes
}

fn prepared(xid: &[u8], pieces: &[Piece], families: &[Arc<Family>; 3]) -> Arc<Prepared> {
    let mut locks = Vec::new();
    let mut sections = Vec::new();
    for (index, family) in families.iter().enumerate() {
        let gather = |is_write: bool, bytes: &dyn Fn(&Piece) -> Vec<u8>| {
            let mine = pieces
                .iter()
                .filter(|piece| piece.family == index && piece.is_write == is_write);
            let parts: Vec<Vec<u8>> = mine.map(bytes).collect();
            (parts.len() as u32, parts.concat())
        };
        let (count, bytes) = gather(false, &lock_bytes);
        write_lock_section(&mut locks, family.id, count, &bytes);
        let (count, bytes) = gather(true, &op_bytes);
        if count > 0 {
            write_section_header(&mut sections, family.id, count, bytes.len() as u64);
            sections.extend_from_slice(&bytes);
        }
    }
    let mut buffer = vec![0; HEADROOM_BYTES];
    write_prepare(&mut buffer, xid, (4, 0), &locks);
    buffer.extend_from_slice(&sections);
    let family_of = |id: FamilyId| {
        families
            .iter()
            .find(|family| family.id == id)
            .map(Arc::clone)
    };
    Arc::new(Prepared::decode(buffer, &family_of).expect("it was written so"))
}

fn writes(piece: &Piece, families: &[Arc<Family>; 3]) -> WriteSet {
    let (low, high) = piece.ends();
    let mut writes = WriteSet::default();
    let op = Op {
        kind: if piece.is_range() {
            EntryKind::RangeDelete
        } else {
            EntryKind::Put
        },
        key: &low,
        value: &high,
        expires_at: 0,
    };
    writes.push(&families[piece.family], &op).expect("short");
    writes
}

fn publish(table: &mut LockTable, prepared: &Arc<Prepared>, start: u64, durable: Lsn) {
    let nodes = Nodes::new(&prepared.locks);
    while let Some(wanted) = table.wants_room(prepared.locks.point_count(), durable) {
        table.grow(&mut Room::new(wanted));
    }
    let place = RecordPlace {
        segment: SegmentId(1 + start / 100),
        start: Lsn(start),
    };
    table.publish(Arc::clone(prepared), nodes, place);
}

/// Goal: the table blocks what a list of all locks says, for keys and ranges, both modes, orders with and without
/// hashes. Method: random prepares, ends and questions.
#[test]
fn the_table_blocks_what_a_list_blocks() {
    let (mut blocked, mut most) = (0, 0);
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let families = families();
        let mut table = LockTable::default();
        let mut model: Vec<(Arc<Prepared>, Vec<Piece>)> = Vec::new();
        for step in 0..400_u64 {
            if random.one_in(4) && !model.is_empty() {
                let (gone, _) = model.swap_remove(random.below(model.len()));
                table.end(&gone, Lsn(step));
                continue;
            }
            if random.one_in(2) {
                let mut asked = Piece::draw(&mut random);
                asked.mode = LockMode::Exclusive;
                if asked.is_range() {
                    // As a range delete has them.
                    let (low, high) = (asked.low.clamp(0, 46) & !1, asked.high.clamp(0, 46) | 1);
                    (asked.low, asked.high, asked.kinds) = (low, high, (1, 2));
                }
                let expected = model
                    .iter()
                    .any(|(_, held)| held.iter().any(|piece| piece.blocks(&asked)));
                let writes = writes(&asked, &families);
                assert_eq!(
                    table.blocks_commit(&writes, None).is_some(),
                    expected,
                    "{asked:?}"
                );
                continue;
            }
            let pieces: Vec<Piece> = (0..1 + random.below(3))
                .map(|_| Piece::draw(&mut random))
                .collect();
            let expected = model.iter().any(|(_, held)| {
                held.iter()
                    .any(|piece| pieces.iter().any(|asked| piece.blocks(asked)))
            });
            let new = prepared(&step.to_le_bytes(), &pieces, &families);
            let found = table.blocks_prepare(&new.locks).is_some();
            assert_eq!(found, expected, "{pieces:?}");
            blocked += usize::from(found);
            if !found {
                publish(&mut table, &new, step, Lsn(step));
                model.push((new, pieces));
                most = most.max(model.len());
            }
        }
        for (gone, _) in model {
            table.end(&gone, Lsn(0));
        }
        assert!(table.is_empty());
        assert_eq!((table.node_count, table.searched), (0, 0));
        assert!(table.heads.iter().all(|head| *head == NOWHERE));
    }
    assert!(
        blocked > 500 && most > 4,
        "too tame: {blocked} blocked, {most} at once"
    );
}

/// Many transactions read the same key: one chain, taken apart in any order.
#[test]
fn long_chains_are_taken_apart_in_any_order() {
    let families = families();
    let mut table = LockTable::default();
    let shared = Piece {
        family: 0,
        mode: LockMode::Shared,
        low: 4,
        high: 4,
        is_write: false,
        kinds: (1, 1),
    };
    let exclusive = Piece {
        mode: LockMode::Exclusive,
        is_write: true,
        ..shared
    };
    let mut all: Vec<_> = (0..50_u64)
        .map(|number| prepared(&number.to_le_bytes(), &[shared], &families))
        .collect();
    for (number, prepared) in all.iter().enumerate() {
        assert!(table.blocks_prepare(&prepared.locks).is_none());
        publish(&mut table, prepared, number as u64, Lsn(0));
    }
    let mut random = Random::new(5);
    while !all.is_empty() {
        assert!(
            table
                .blocks_commit(&writes(&exclusive, &families), None)
                .is_some()
        );
        let gone = all.swap_remove(random.below(all.len()));
        table.end(&gone, Lsn(1));
    }
    assert!(
        table
            .blocks_commit(&writes(&exclusive, &families), None)
            .is_none()
    );
}

/// A transaction's own locks do not keep its commit back, those of others do.
#[test]
fn a_commit_passes_the_locks_of_the_transaction_that_it_ends() {
    let families = families();
    let mut table = LockTable::default();
    let piece = |low: i32| Piece {
        family: 0,
        mode: LockMode::Exclusive,
        low,
        high: low,
        is_write: true,
        kinds: (1, 1),
    };
    let first = prepared(b"first", &[piece(2)], &families);
    let second = prepared(b"second", &[piece(4)], &families);
    publish(&mut table, &first, 0, Lsn(0));
    publish(&mut table, &second, 1, Lsn(0));
    let mut writes = WriteSet::default();
    first.write_to(&mut writes).expect("short");
    assert!(table.blocks_commit(&writes, None).is_none());
    let op = Op {
        kind: EntryKind::Delete,
        key: &piece(4).ends().0,
        value: &[],
        expires_at: 0,
    };
    writes.push(&families[0], &op).expect("short");
    let text = table
        .blocks_commit(&writes, None)
        .expect("the other's")
        .into_error()
        .to_string();
    assert!(
        text.contains("\"second\"") && text.contains("family 1"),
        "{text}"
    );
    assert_eq!(
        table.user_of(&families[0]).map(|user| &*user.xid),
        Some(&b"first"[..])
    );
    assert!(table.user_of(&families[1]).is_none());
}

/// The log is held by what is prepared, and by what is ended until the outcome is durable.
#[test]
fn the_log_is_held_until_the_outcome_is_durable() {
    let families = families();
    let mut table = LockTable::default();
    let first = prepared(b"first", &[], &families);
    let second = prepared(b"second", &[], &families);
    assert_eq!(table.oldest(Lsn(0)), None);
    publish(&mut table, &first, 150, Lsn(0));
    publish(&mut table, &second, 250, Lsn(0));
    let oldest =
        |table: &mut LockTable, durable| table.oldest(Lsn(durable)).map(|place| place.start);
    assert_eq!(oldest(&mut table, 300), Some(Lsn(150)));
    let bytes = first.record_bytes;
    assert_eq!(table.behind(SegmentId(2)), None);
    assert_eq!(table.behind(SegmentId(3)), Some((Lsn(150), bytes)));
    table.end(&first, Lsn(400));
    assert_eq!(
        table.behind(SegmentId(3)),
        None,
        "what is ended is not copied"
    );
    assert_eq!(oldest(&mut table, 399), Some(Lsn(150)));
    assert_eq!(oldest(&mut table, 400), Some(Lsn(250)));
    let place = RecordPlace {
        segment: SegmentId(5),
        start: Lsn(450),
    };
    table.set_place(&second, place);
    table.set_place(&first, place);
    assert_eq!(table.place(&first), None);
    assert_eq!(oldest(&mut table, 400), Some(Lsn(450)));
}

/// Goal: room that was asked for is there after one `grow`, and a full table asks for more: `publish` runs under the commit
/// lock, and is to allocate nothing there. Method: as many transactions as there are slots; then one of them goes, and one of
/// more keys than there are buckets for comes.
#[test]
fn a_full_table_asks_for_room_and_gets_it_at_once() {
    let families = families();
    let mut table = LockTable::default();
    let all: Vec<_> = (0..SLOTS_MIN as u64)
        .map(|number| prepared(&number.to_le_bytes(), &[], &families))
        .collect();
    for prepared in &all {
        publish(&mut table, prepared, 0, Lsn(0));
    }
    assert_eq!(table.slots.capacity(), SLOTS_MIN);
    let wanted = table.wants_room(0, Lsn(0)).expect("every slot is taken");
    assert!(wanted.slots > SLOTS_MIN, "{wanted:?}");
    table.end(&all[0], Lsn(1));
    assert_eq!(table.wants_room(0, Lsn(1)), None);
    let points = table.heads.len() + 1;
    let wanted = table.wants_room(points, Lsn(1)).expect("too few buckets");
    table.grow(&mut Room::new(wanted));
    assert_eq!(table.wants_room(points, Lsn(1)), None);
}
