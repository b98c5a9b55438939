//! Fragments against the tombstones that they were made of, key by key and snapshot by snapshot.

use super::*;

/// A tombstone over one-letter keys.
type Plain = (u8, Option<u8>, u64);

fn build(tombstones: &[Plain], boundaries: &[SeqNo]) -> Fragments {
    let bytes: Vec<([u8; 1], Vec<u8>, u64)> = tombstones
        .iter()
        .map(|(start, end, sequence)| ([*start], end.iter().copied().collect(), *sequence))
        .collect();
    Fragments::build(
        &KeyOrder::BYTEWISE,
        bytes.iter().map(|(start, end, sequence)| RangeTombstone {
            start,
            end,
            sequence: SeqNo(*sequence),
        }),
        boundaries,
    )
}

fn cover_by_model(tombstones: &[Plain], key: u8, snapshot: u64) -> u64 {
    tombstones
        .iter()
        .filter(|(start, end, sequence)| {
            *start <= key && end.is_none_or(|end| key < end) && *sequence <= snapshot
        })
        .map(|(_, _, sequence)| *sequence)
        .max()
        .unwrap_or(0)
}

/// A small generator of numbers; the seeds are the numbers of the rounds.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn random(numbers: &mut Numbers) -> Vec<Plain> {
    (0..numbers.below(12))
        .map(|_| {
            let start = b'a' + numbers.below(12) as u8;
            let end = start + numbers.below(6) as u8;
            let has_end = numbers.below(8) > 0;
            (start, has_end.then_some(end), 1 + numbers.below(20))
        })
        .collect()
}

#[test]
fn fragments_answer_as_their_tombstones_do() {
    for round in 0..2000 {
        let mut numbers = Numbers(round);
        let tombstones = random(&mut numbers);
        let fragments = build(&tombstones, &[]);
        let order = &KeyOrder::BYTEWISE;
        assert_eq!(
            Fragments::from_list(order, fragments.list.clone()),
            Some(fragments.clone())
        );
        let boundaries: Vec<SeqNo> = [5, 11, 14].map(SeqNo).into();
        let pruned = build(&tombstones, &boundaries);
        let rebuilt = Fragments::build(order, fragments.tombstones(), &[]);
        for key in b'a'..=b'z' {
            for snapshot in 0..22 {
                let expected = SeqNo(cover_by_model(&tombstones, key, snapshot));
                let found = fragments.cover(order, &[key], SeqNo(snapshot));
                assert_eq!(found, expected, "round {round}");
                assert_eq!(
                    rebuilt.cover(order, &[key], SeqNo(snapshot)),
                    expected,
                    "round {round}"
                );
                if boundaries.contains(&SeqNo(snapshot)) || snapshot > 14 {
                    let found = pruned.cover(order, &[key], SeqNo(snapshot));
                    assert_eq!(found, expected, "round {round}");
                }
            }
        }
    }
}

#[test]
fn cutting_keeps_what_lies_inside_and_nothing_else() {
    for round in 0..500 {
        let mut numbers = Numbers(round);
        let tombstones = random(&mut numbers);
        let order = &KeyOrder::BYTEWISE;
        let fragments = build(&tombstones, &[]);
        let (from, to) = (
            b'a' + numbers.below(14) as u8,
            b'a' + numbers.below(20) as u8,
        );
        let part = fragments.cut(order, Some(&[from]), &[to]);
        for key in b'a'..=b'z' {
            let is_inside = from <= key && key < to;
            let expected = if is_inside {
                fragments.cover(order, &[key], SeqNo::MAX)
            } else {
                SeqNo::ZERO
            };
            assert_eq!(
                part.cover(order, &[key], SeqNo::MAX),
                expected,
                "round {round}"
            );
        }
    }
}

#[test]
fn newer_tombstones_that_overlap_a_range_are_found() {
    let fragments = build(&[(b'c', Some(b'f'), 5), (b'k', None, 9)], &[]);
    let order = &KeyOrder::BYTEWISE;
    let find = |start: &'static [u8], end: &'static [u8], since| {
        fragments
            .overlapping_newer(order, (start, end), SeqNo(since))
            .map(<[u8]>::to_vec)
    };
    assert_eq!(find(b"a", b"c", 0), None);
    assert_eq!(find(b"a", b"d", 0), Some(b"c".to_vec()));
    assert_eq!(find(b"d", b"e", 0), Some(b"d".to_vec()));
    assert_eq!(find(b"d", b"e", 5), None);
    assert_eq!(find(b"a", b"", 5), Some(b"k".to_vec()));
    assert_eq!(find(b"z", b"", 8), Some(b"z".to_vec()));
    assert_eq!(find(b"f", b"k", 0), None);
    assert_eq!(find(b"a", b"", 9), None);
}

#[test]
fn nested_tombstones_that_nobody_tells_apart_keep_one_number() {
    let tombstones: Vec<Plain> = (1..=20)
        .map(|end| (b'a', Some(b'a' + end), u64::from(end)))
        .collect();
    let fragments = build(&tombstones, &[SeqNo::MAX]);
    assert_eq!(fragments.list().len(), 1);
    assert_eq!(fragments.list()[0].sequences().count(), 1);
    assert_eq!(fragments.newest(), SeqNo(20));
    assert_eq!(build(&tombstones, &[]).oldest(), SeqNo(1));
    let halves = build(&tombstones, &[SeqNo(10), SeqNo::MAX]);
    assert_eq!(halves.list().len(), 2);
    assert_eq!(
        halves.list()[0].sequences().collect::<Vec<_>>(),
        [SeqNo(20), SeqNo(10)]
    );
}

#[test]
fn lists_out_of_order_are_refused() {
    let order = &KeyOrder::BYTEWISE;
    let fragment =
        |start: &[u8], end: &[u8]| Fragment::new(start, end, &[SeqNo(1)]).expect("one number");
    assert!(Fragment::new(b"a", b"b", &[]).is_none());
    assert!(Fragment::new(b"a", b"b", &[SeqNo(1), SeqNo(1)]).is_none());
    assert!(Fragments::from_list(order, vec![fragment(b"b", b"a")]).is_none());
    assert!(
        Fragments::from_list(order, vec![fragment(b"a", b"c"), fragment(b"b", b"d")]).is_none()
    );
    assert!(Fragments::from_list(order, vec![fragment(b"a", b""), fragment(b"b", b"d")]).is_none());
    assert!(Fragments::from_list(order, vec![fragment(b"a", b"b"), fragment(b"b", b"")]).is_some());
}
