use kingtide_base::{Cursor, EntryKind, KeyOrder, SeqNo};

use super::{
    BatchedCursor,
    kept::{KEPT_MAX, KEPT_MAX_OF_OVERLAPS},
};
use crate::{
    MergeCursor,
    testing::{ModelCursor, ModelEntry, Random, orders, seen, sort_model},
};

const KINDS: [EntryKind; 3] = [EntryKind::Put, EntryKind::Delete, EntryKind::SingleDelete];

/// Sorted entries, dealt to `count` sources that lend up to `lent` of them, and all of them in one that lends nothing.
fn deal(
    random: &mut Random,
    count: usize,
    lent: usize,
    order: &KeyOrder,
) -> (Vec<ModelCursor>, ModelCursor) {
    let mut all = Vec::new();
    let mut sources = Vec::new();
    for source in 0..count {
        let size = random.below(120);
        let mut entries: Vec<ModelEntry> = (0..size)
            .map(|index| ModelEntry {
                key: random.key(90),
                sequence: SeqNo(random.below(9) as u64),
                age: (count - source) * 1000 + index,
                kind: KINDS[random.below(KINDS.len())],
                expires_at: random.below(3) as i64,
                value: vec![index as u8; random.below(20)],
            })
            .collect();
        sort_model(&mut entries, order);
        all.extend(entries.iter().cloned());
        sources.push(ModelCursor::new(order.clone(), entries).lending(lent));
    }
    sort_model(&mut all, order);
    (sources, ModelCursor::new(order.clone(), all))
}

/// Jumps and runs in both directions, by both cursors the same way; what they are on is compared after each step.
fn walk(random: &mut Random, cursor: &mut dyn Cursor, model: &mut dyn Cursor) {
    let seed = random.seed;
    let mut compare = |model: &mut dyn Cursor, go: &dyn Fn(&mut dyn Cursor)| {
        go(model);
        go(cursor);
        assert_eq!(seen(cursor), seen(model), "seed {seed}");
    };
    for _ in 0..40 {
        let key = random.key(90);
        let ok = "memory does not fail";
        match random.below(4) {
            0 => compare(model, &|cursor| cursor.seek_first().expect(ok)),
            1 => compare(model, &|cursor| cursor.seek_last().expect(ok)),
            2 => compare(model, &|cursor| cursor.seek(&key).expect(ok)),
            _ => compare(model, &|cursor| cursor.seek_for_prev(&key).expect(ok)),
        }
        for _ in 0..random.below(4) {
            let is_forward = !random.chance(3);
            for _ in 0..random.below(60) {
                if !model.is_valid() {
                    break;
                }
                if is_forward {
                    compare(model, &|cursor| cursor.next().expect(ok));
                } else {
                    compare(model, &|cursor| cursor.prev().expect(ok));
                }
            }
        }
    }
}

/// Goal: what is lent is what the source has, in runs, turns and jumps, over one source and over merged ones, and as the
/// source of a merge. Method: random walks beside a sorted vector, for every order, for sources that lend nothing, little
/// and much.
#[test]
fn walks_like_its_source() {
    for (number, order) in orders().into_iter().enumerate() {
        for round in 0..24 {
            let mut random = Random::new(1000 * number as u64 + round);
            let lent = [0, 2, 5, 30][round as usize % 4];
            let (mut one, mut model) = deal(&mut random, 1, lent, &order);
            let mut cursor = BatchedCursor::new(one.remove(0));
            assert!(!cursor.is_valid());
            walk(&mut random, &mut cursor, &mut model);

            let count = 1 + random.below(5);
            let (sources, mut model) = deal(&mut random, count, lent, &order);
            let merged = MergeCursor::new(order.clone(), sources);
            walk(&mut random, &mut BatchedCursor::new(merged), &mut model);

            let (sources, mut model) = deal(&mut random, count, lent, &order);
            let sources = sources.into_iter().map(BatchedCursor::new).collect();
            let mut merged = MergeCursor::new(order.clone(), sources);
            walk(&mut random, &mut merged, &mut model);
        }
    }
}

/// Goal: a seek among what was lent leads to what the source has, and the walk goes on from there in both directions. Method: seeks
/// near the last one, walks of all lengths and turns beside a sorted vector, for every order, for one source and merged ones that
/// lend little and much; seeks of both kinds come by often.
#[test]
fn seeks_among_what_was_lent_lead_to_what_is_there() {
    let (mut among, mut elsewhere) = (0, 0);
    for (number, order) in orders().into_iter().enumerate() {
        for round in 0..150 {
            let mut random = Random::new(7000 * number as u64 + round);
            let lent = [2, 5, 30][round as usize % 3];
            let count = 1 + random.below(2);
            let (sources, mut model) = deal(&mut random, count, lent, &order);
            let merged = MergeCursor::new(order.clone(), sources);
            let mut cursor = BatchedCursor::new(merged);
            let mut key = random.key(90);
            for _ in 0..60 {
                let seed = random.seed;
                let found = cursor.seek_lent(&key, &order);
                if !found {
                    cursor.seek(&key).expect("memory does not fail");
                }
                among += u32::from(found);
                elsewhere += u32::from(!found);
                model.seek(&key).expect("memory does not fail");
                assert_eq!(seen(&mut cursor), seen(&mut model), "seed {seed}");
                // Sometimes the next seek is near, so that it leads to what this walk has passed.
                let steps = random.below(4) * random.below(40);
                let near = 1 + random.below(steps.max(1));
                let back = if random.chance(4) { random.below(6) } else { 0 };
                for step in 0..steps + back {
                    if !model.is_valid() {
                        break;
                    }
                    if step == near {
                        key = model.key().to_vec();
                    }
                    let go = |cursor: &mut dyn Cursor| match step < steps {
                        true => cursor.next(),
                        false => cursor.prev(),
                    };
                    go(&mut model).expect("memory does not fail");
                    go(&mut cursor).expect("memory does not fail");
                    assert_eq!(seen(&mut cursor), seen(&mut model), "seed {seed}");
                }
                if random.chance(8) {
                    key = random.key(90);
                }
            }
        }
    }
    assert!(among > 1000 && elsewhere > 1000, "{among} {elsewhere}");
}

/// Goal: ranges that overlap take every entry of the source once, and what is kept is bounded, closer when they end. Method: count
/// the moves of a source over which ranges go that begin one entry behind each other: short ones, long ones, and some that are
/// longer than what is kept.
#[test]
fn ranges_that_overlap_move_the_source_once_for_a_batch() {
    let order = KeyOrder::BYTEWISE;
    let ranges = [
        (100, 50, 200),
        (10, 50, 200),
        (450, 50, 200),
        (450, 5, 100_000),
    ];
    for (range, lent, moves_max) in ranges {
        let source = ModelCursor::new(order.clone(), ascending(2000)).lending(lent);
        let mut cursor = BatchedCursor::new(source);
        cursor.source.moves_left = moves_max;
        for start in 0..1000_u32 {
            let key = start.to_be_bytes();
            if !cursor.seek_lent(&key, &order) {
                cursor.seek(&key).expect("few moves");
            }
            for number in start..start + range {
                assert_eq!(cursor.key(), number.to_be_bytes());
                cursor.next().expect("few moves");
            }
        }
        let kept = |cursor: &BatchedCursor<_>| cursor.kept.count();
        let needed = (range / lent as u32).clamp(1, 40) as usize;
        assert!(kept(&cursor) <= KEPT_MAX_OF_OVERLAPS + 1);
        assert!(kept(&cursor) >= needed.min(KEPT_MAX));
        // A range elsewhere.
        let key = 0_u32.to_be_bytes();
        assert!(!cursor.seek_lent(&key, &order));
        cursor.seek(&key).expect("few moves");
        for _ in 0..200 {
            cursor.next().expect("few moves");
        }
        assert!(kept(&cursor) <= KEPT_MAX + 1);
    }
}

/// Puts of so many ascending numbers.
fn ascending(count: u32) -> Vec<ModelEntry> {
    let entry = |number: u32| ModelEntry {
        key: number.to_be_bytes().to_vec(),
        sequence: SeqNo(1),
        age: 0,
        kind: EntryKind::Put,
        expires_at: 0,
        value: Vec::new(),
    };
    (0..count).map(entry).collect()
}

/// Goal: an error of the source ends the walk until the next seek. Method: a source that fails after some moves.
#[test]
fn an_error_makes_it_invalid_and_a_seek_mends_it() {
    for moves in 1..20 {
        let mut random = Random::new(3);
        let (mut sources, model) = deal(&mut random, 1, 4, &KeyOrder::BYTEWISE);
        let size = model.len();
        let mut cursor = BatchedCursor::new(sources.remove(0));
        cursor.source.moves_left = moves;
        let mut outcome = cursor.seek_first();
        while outcome.is_ok() {
            assert!(cursor.is_valid(), "the source fails before its end");
            outcome = cursor.next();
        }
        assert!(!cursor.is_valid());
        cursor.source.moves_left = usize::MAX;
        cursor.seek_first().expect("the source is mended");
        let mut visited = 0;
        while cursor.is_valid() {
            visited += 1;
            cursor.next().expect("the source is mended");
        }
        assert_eq!(visited, size);
    }
}

/// Goal: a step back comes to the entry before the one that is shown, also where the source has grown among what it lent.
/// Method: entries appear everywhere, and between two walks that turn.
#[test]
fn a_source_may_grow_behind_what_it_lent() {
    let entry = |key: u32, sequence| ModelEntry {
        key: key.to_be_bytes().to_vec(),
        sequence: SeqNo(sequence),
        age: 0,
        kind: EntryKind::Put,
        expires_at: 0,
        value: Vec::new(),
    };
    for steps in 0..40_u32 {
        let entries = (0..60).map(|number| entry(number * 10, 5)).collect();
        let source = ModelCursor::new(KeyOrder::BYTEWISE, entries).lending(25);
        let mut cursor = BatchedCursor::new(source);
        cursor.seek_first().expect("memory does not fail");
        for _ in 0..steps {
            cursor.next().expect("memory does not fail");
        }
        assert_eq!(cursor.key(), (steps * 10).to_be_bytes());
        for number in 0..60 {
            cursor.source.grow(entry(number * 10, 9));
            cursor.source.grow(entry(number * 10 + 3, 9));
        }
        cursor.prev().expect("memory does not fail");
        // The newer version of the same key lies directly before.
        assert_eq!(cursor.key(), (steps * 10).to_be_bytes());
        assert_eq!(cursor.sequence(), SeqNo(9));
        cursor.prev().expect("memory does not fail");
        let before = steps.checked_sub(1).map(|before| before * 10 + 3);
        assert_eq!(cursor.is_valid(), before.is_some());
        assert!(before.is_none_or(|before| cursor.key() == before.to_be_bytes()));
    }
}

/// Goal: what a source lends is taken, and not asked for entry by entry. Method: count the moves of a source that is walked
/// to its end.
#[test]
fn a_walk_moves_the_source_once_for_a_batch() {
    let source = ModelCursor::new(KeyOrder::BYTEWISE, ascending(1000)).lending(50);
    let mut cursor = BatchedCursor::new(source);
    cursor.source.moves_left = 100;
    cursor.seek_first().expect("few moves");
    while cursor.is_valid() {
        cursor.next().expect("few moves");
    }
    assert_eq!(100 - cursor.source.moves_left, 1 + 3 + 20);
}
