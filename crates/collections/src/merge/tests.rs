use kingtide_base::{Cursor, EntryKind, KeyOrder, SeqNo};

use super::MergeCursor;
use crate::testing::{ModelCursor, ModelEntry, Random, orders, sort_model, walk_both};

fn entry(random: &mut Random, variety: usize, age: usize) -> ModelEntry {
    ModelEntry {
        key: random.key(variety),
        sequence: SeqNo(random.below(6) as u64),
        age,
        kind: EntryKind::Put,
        expires_at: 0,
        value: age.to_le_bytes().to_vec(),
    }
}

/// Entries dealt to `count` sources at random. `age` falls with the number of the source, so that in the model, too, ties
/// go to the earlier source.
fn deal(random: &mut Random, count: usize, order: &KeyOrder) -> (Vec<ModelCursor>, ModelCursor) {
    let mut all = Vec::new();
    let mut sources = Vec::new();
    for source in 0..count {
        let size = if random.chance(4) {
            0
        } else {
            random.below(30)
        };
        let mut entries: Vec<ModelEntry> = (0..size)
            .map(|index| entry(random, 40, (count - source) * 1000 + index))
            .collect();
        sort_model(&mut entries, order);
        all.extend(entries.iter().cloned());
        sources.push(ModelCursor::new(order.clone(), entries));
    }
    sort_model(&mut all, order);
    (sources, ModelCursor::new(order.clone(), all))
}

/// Goal: a merge is one sorted sequence in both directions. Method: random walks beside a sorted vector, for every order
/// and 0 to 9 sources.
#[test]
fn walks_like_one_sorted_vector() {
    for (number, order) in orders().into_iter().enumerate() {
        for round in 0..40 {
            let mut random = Random::new(1000 * number as u64 + round);
            let count = random.below(10);
            let (sources, mut model) = deal(&mut random, count, &order);
            let mut merged = MergeCursor::new(order.clone(), sources);
            assert!(!merged.is_valid());
            walk_both(&mut random, 150, 40, &mut merged, &mut model);
        }
    }
}

/// Goal: an error of a source ends the walk until the next seek. Method: a source that fails after some moves.
#[test]
fn an_error_makes_it_invalid_and_a_seek_mends_it() {
    let order = KeyOrder::BYTEWISE;
    for moves in 0..12 {
        let mut random = Random::new(7);
        let (mut sources, _) = deal(&mut random, 4, &order);
        sources[2].moves_left = moves;
        let mut merged = MergeCursor::new(order.clone(), sources);
        let mut outcome = merged.seek_first();
        let mut visited = 0;
        while outcome.is_ok() && merged.is_valid() {
            // Turning round moves every source, so the failing one runs out of moves.
            outcome = if visited % 3 == 2 {
                merged.prev()
            } else {
                merged.next()
            };
            visited += 1;
        }
        assert!(outcome.is_err());
        assert!(!merged.is_valid());
        assert!(merged.next().is_ok());
        assert!(!merged.is_valid());
        merged.sources[2].moves_left = usize::MAX;
        merged.seek_first().expect("the source is mended");
        assert!(merged.is_valid());
    }
}

#[test]
fn accessors_of_an_empty_merge_do_not_panic() {
    let mut merged = MergeCursor::<ModelCursor>::new(KeyOrder::BYTEWISE, Vec::new());
    merged.seek_last().expect("nothing can fail");
    assert!(!merged.is_valid());
    assert_eq!(merged.key(), b"");
    assert_eq!(merged.sequence(), SeqNo::ZERO);
    assert_eq!(merged.expires_at(), 0);
    assert_eq!(merged.kind(), EntryKind::Delete);
    assert!(merged.value().is_ok());
}
