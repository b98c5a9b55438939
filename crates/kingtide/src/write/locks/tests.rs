use super::*;
use crate::family::testing;

fn family() -> Arc<Family> {
    testing::family(1, testing::small("memcmp"))
}

#[test]
fn the_stronger_lock_on_a_key_counts_whichever_came_first() {
    let family = family();
    for modes in [
        [LockMode::Shared, LockMode::Exclusive],
        [LockMode::Exclusive, LockMode::Shared],
    ] {
        let mut locks = LockSet::default();
        for mode in modes {
            locks.add_point(&family, mode, b"k");
        }
        locks.seal();
        assert_eq!(locks.point_count(), 1);
        let held = &locks.families()[0];
        assert!(held.point_blocks(&held.points[0], LockMode::Shared, b"k"));
        assert!(!held.point_blocks(&held.points[0], LockMode::Exclusive, b"l"));
    }
}

#[test]
fn ranges_are_joined_and_empty_ones_go() {
    let family = family();
    let mut locks = LockSet::default();
    let (low, high) = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"d"[..]));
    let shared = LockMode::Shared;
    locks.add_range(
        &family,
        shared,
        (Bound::Excluded(b"d"), Bound::Included(b"e")),
    );
    locks.add_range(&family, shared, (low, high));
    locks.add_range(
        &family,
        shared,
        (Bound::Included(b"c"), Bound::Included(b"d")),
    );
    locks.add_range(
        &family,
        shared,
        (Bound::Included(b"x"), Bound::Excluded(b"x")),
    );
    locks.add_range(&family, shared, (Bound::Included(b"z"), Bound::Unbounded));
    locks.seal();
    let ranges: Vec<_> = locks.families()[0].ranges(shared).collect();
    let expected: [KeyRange<'_>; 3] = [
        (low, Bound::Included(b"d")),
        (Bound::Excluded(b"d"), Bound::Included(b"e")),
        (Bound::Included(b"z"), Bound::Unbounded),
    ];
    assert_eq!(ranges, expected);
    assert!(locks.needs_search());
}

#[test]
fn a_set_of_empty_ranges_locks_nothing() {
    let family = family();
    let mut locks = LockSet::default();
    let nothing = (Bound::Excluded(&b"a"[..]), Bound::Excluded(&b"a"[..]));
    locks.add_range(&family, LockMode::Exclusive, nothing);
    locks.seal();
    assert!(locks.families().is_empty() && locks.of_family(family.id).is_none());
    assert!(!locks.needs_search());
}
