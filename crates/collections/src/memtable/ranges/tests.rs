use std::sync::Arc;

use kingtide_base::{Fragments, KeyOrder, SeqNo};

use super::TAIL_MIN;
use crate::{
    arena::ArenaPool,
    memtable::{Full, Memtable},
    testing::Random,
};

/// Start, end (empty: none), sequence number.
type Model = Vec<([u8; 1], Vec<u8>, u64)>;

fn memtable(bytes: usize) -> Arc<Memtable> {
    let pool = ArenaPool::new(0);
    Arc::new(Memtable::new(KeyOrder::BYTEWISE, &pool, bytes, 16))
}

fn covers(model: &Model, key: u8, snapshot: u64) -> u64 {
    let over = model.iter().filter(|(start, end, sequence)| {
        start[0] <= key && (end.is_empty() || key < end[0]) && *sequence <= snapshot
    });
    over.map(|(_, _, sequence)| *sequence).max().unwrap_or(0)
}

/// Goal: point covers and fragments answer as the list of all tombstones does, before and after views are made, for old
/// and new snapshots. Method: random commits of a few ranges, random questions between them.
#[test]
fn covers_are_those_of_all_tombstones() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let memtable = memtable(1 << 16);
        let mut model = Model::new();
        for sequence in 1..=150_u64 {
            let ranges: Model = (0..random.below(3))
                .map(|_| {
                    let start = random.below(40) as u8;
                    let end = if random.chance(20) {
                        Vec::new()
                    } else {
                        vec![start + random.below(12) as u8]
                    };
                    ([start], end, sequence)
                })
                .collect();
            let bytes = ranges.iter().map(|(start, end, _)| (&start[..], &end[..]));
            memtable
                .delete_ranges(SeqNo(sequence), bytes)
                .expect("there is room");
            model.extend(ranges);
            if seed % 2 == 0 {
                memtable.tidy_ranges();
            }
            for _ in 0..6 {
                let (key, snapshot) = (random.below(60) as u8, random.below(160) as u64);
                let wanted = covers(&model, key, snapshot);
                let found = memtable.range_cover(&[key], SeqNo(snapshot));
                assert_eq!(found, SeqNo(wanted), "seed {seed}: {key} at {snapshot}");
                let latest = memtable.latest_sequence(&[key], None);
                let wanted = covers(&model, key, u64::MAX);
                assert_eq!(latest.unwrap_or_default(), SeqNo(wanted), "seed {seed}");
            }
            if random.chance(10) {
                check_fragments(&memtable, &model, random.below(160) as u64);
                check_fragments(&memtable, &model, u64::MAX);
            }
        }
        assert_eq!(memtable.range_tombstones().count(), model.len());
        assert_eq!(memtable.entries(), model.len());
    }
}

fn check_fragments(memtable: &Memtable, model: &Model, snapshot: u64) {
    let fragments = memtable
        .range_fragments(SeqNo(snapshot))
        .unwrap_or_default();
    for key in 0..60_u8 {
        let found = fragments.cover(&KeyOrder::BYTEWISE, &[key], SeqNo::MAX);
        assert_eq!(found, SeqNo(covers(model, key, snapshot)));
    }
}

/// Goal: a long tail becomes part of the view, again and again.
#[test]
fn a_long_tail_becomes_a_view() {
    let memtable = memtable(1 << 20);
    for sequence in 1..=1000_u64 {
        let key = [(sequence % 200) as u8];
        let end = [key[0] + 1];
        memtable
            .delete_ranges(SeqNo(sequence), [(&key[..], &end[..])].into_iter())
            .expect("there is room");
        memtable.tidy_ranges();
        assert_eq!(memtable.range_cover(&key, SeqNo::MAX), SeqNo(sequence));
        assert_eq!(memtable.range_cover(&[250], SeqNo::MAX), SeqNo::ZERO);
    }
    let view = memtable.ranges.view.get();
    assert!(
        view.tombstones >= 1000 - TAIL_MIN - 70,
        "{}",
        view.tombstones
    );
    let fragments: Arc<Fragments> = memtable.range_fragments(SeqNo::MAX).expect("some");
    assert_eq!(fragments.newest(), SeqNo(1000));
    assert_eq!(memtable.ranges.view.get().tombstones, 1000);
}

#[test]
fn ranges_that_meet_newer_deletes_are_told_where() {
    let memtable = memtable(4096);
    let find = |memtable: &Memtable, start: &'static [u8], end: &'static [u8], since| {
        memtable
            .range_delete_newer((start, end), SeqNo(since))
            .map(<[u8]>::to_vec)
    };
    assert!(!memtable.has_range_deletes());
    assert_eq!(find(&memtable, b"a", b"", 0), None);
    let ranges: [(&[u8], &[u8]); 2] = [(b"d", b"h"), (b"x", b"")];
    memtable
        .delete_ranges(SeqNo(5), ranges.into_iter())
        .expect("there is room");
    assert!(memtable.has_range_deletes());
    assert_eq!(find(&memtable, b"a", b"d", 0), None);
    assert_eq!(find(&memtable, b"a", b"e", 4), Some(b"d".to_vec()));
    assert_eq!(find(&memtable, b"f", b"g", 4), Some(b"f".to_vec()));
    assert_eq!(find(&memtable, b"h", b"x", 4), None);
    assert_eq!(find(&memtable, b"h", b"", 4), Some(b"x".to_vec()));
    assert_eq!(find(&memtable, b"a", b"", 5), None);
}

#[test]
fn ranges_that_do_not_fit_delete_nothing() {
    let memtable = memtable(128);
    let long = [7_u8; 100];
    let ranges: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"c", &long)];
    assert_eq!(
        memtable.delete_ranges(SeqNo(1), ranges.into_iter()),
        Err(Full)
    );
    assert!(!memtable.has_range_deletes());
    assert!(memtable.is_empty());
    assert_eq!(memtable.range_cover(b"a", SeqNo::MAX), SeqNo::ZERO);
}
