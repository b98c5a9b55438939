use super::*;
use crate::family::testing::{family, small};

fn reads() -> ReadSet {
    let mut reads = ReadSet::default();
    reads.set_limit(1 << 20, 0);
    reads
}

fn range<'a>(lower: Bound<&'a str>, upper: Bound<&'a str>) -> KeyRange<'a> {
    KeyRange {
        lower: lower.map(str::as_bytes),
        upper: upper.map(str::as_bytes),
    }
}

#[test]
fn reads_are_kept_per_family_and_forgotten_together() {
    let (first, second) = (family(1, small("memcmp")), family(2, small("memcmp")));
    let mut reads = reads();
    for _ in 0..2 {
        reads.add_point(&first, b"a").expect("fits");
        reads.add_point(&first, b"a").expect("fits");
        reads.add_update(&second, b"b", SeqNo(7)).expect("fits");
        reads.add_point(&first, b"c").expect("fits");
        let families: Vec<_> = reads.families().collect();
        let [of_first, of_second] = families.as_slice() else {
            panic!("two families");
        };
        let keys: Vec<_> = of_first.points().map(|point| point.key).collect();
        assert_eq!(keys, [b"a", b"c"], "a key read again is not kept again");
        let updates: Vec<_> = of_second.updates().collect();
        assert_eq!((updates[0].key, updates[0].since), (&b"b"[..], SeqNo(7)));
        assert!(reads.has_updates());
        reads.clear();
        assert!(reads.is_empty() && reads.bytes() == 0);
    }
}

#[test]
fn ranges_that_overlap_or_touch_are_one() {
    use Bound::{Excluded, Included, Unbounded};
    let cases = [
        (
            vec![
                range(Included("a"), Included("c")),
                range(Included("b"), Excluded("d")),
            ],
            vec![range(Included("a"), Excluded("d"))],
        ),
        (
            vec![
                range(Included("c"), Included("d")),
                range(Included("a"), Excluded("c")),
            ],
            vec![range(Included("a"), Included("d"))],
        ),
        (
            vec![
                range(Excluded("c"), Included("d")),
                range(Included("a"), Excluded("c")),
            ],
            vec![
                range(Included("a"), Excluded("c")),
                range(Excluded("c"), Included("d")),
            ],
        ),
        (
            vec![
                range(Included("x"), Unbounded),
                range(Unbounded, Included("b")),
                range(Included("y"), Included("z")),
                range(Included("b"), Included("b")),
            ],
            vec![
                range(Unbounded, Included("b")),
                range(Included("x"), Unbounded),
            ],
        ),
    ];
    let family = family(1, small("memcmp"));
    for (given, expected) in cases {
        let mut reads = reads();
        for range in &given {
            reads.add_range(&family, *range).expect("fits");
        }
        let merged: Vec<_> = reads
            .families()
            .flat_map(FamilyReads::merged_ranges)
            .collect();
        assert_eq!(merged, expected);
    }
}

#[test]
fn over_the_limit_a_read_is_refused_and_nothing_changes() {
    let family = family(1, small("memcmp"));
    let mut reads = ReadSet::default();
    reads.set_limit(1000, 900);
    reads.add_point(&family, b"a").expect("fits");
    let long = [7; 100];
    let before = reads.bytes();
    let error = reads.add_point(&family, &long).expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert_eq!(reads.bytes(), before);
    assert_eq!(
        reads
            .families()
            .map(|reads| reads.points().len())
            .sum::<usize>(),
        1
    );
}
