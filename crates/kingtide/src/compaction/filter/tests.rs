//! Goal: no snapshot, live or future, reads anything else after a pass than before it, and what it could drop is
//! dropped. Method: all small histories of one key, with all sets of snapshots.

use kingtide_base::{RangeTombstone, built_in_comparator};

use super::*;

/// The clock of the oldest snapshot; another snapshot reads at `CLOCK_LATER`.
const CLOCK: i64 = 10;
const CLOCK_LATER: i64 = 12;
const SEQUENCE_MAX: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    sequence: u64,
    kind: EntryKind,
    expires_at: i64,
}

const SHAPES: [(EntryKind, i64); 5] = [
    (EntryKind::Put, 0),
    (EntryKind::Put, CLOCK),
    (EntryKind::Put, CLOCK_LATER),
    (EntryKind::Delete, 0),
    (EntryKind::SingleDelete, 0),
];

/// All histories of at most four versions with distinct sequence numbers from 2 on, newest first.
fn histories() -> Vec<Vec<Version>> {
    let mut all = vec![Vec::new()];
    for sequence in 2..=SEQUENCE_MAX {
        for shorter in all.clone() {
            if shorter.len() == 4 {
                continue;
            }
            for (kind, expires_at) in SHAPES {
                let version = Version {
                    sequence,
                    kind,
                    expires_at,
                };
                all.push([&[version], &shorter[..]].concat());
            }
        }
    }
    all
}

/// The sequence number of the version that decides, if it is a value.
fn read(history: &[Version], snapshot: u64, now: i64) -> Option<u64> {
    let version = history
        .iter()
        .find(|version| version.sequence <= snapshot)?;
    let is_live =
        version.kind == EntryKind::Put && (version.expires_at == 0 || version.expires_at > now);
    is_live.then_some(version.sequence)
}

/// What lies below a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// No level.
    Bottom,
    /// An older version of the key, found by the lookup.
    Older,
    /// Levels without the key, as the lookup tells.
    OtherKeys,
    /// Levels, and no lookup.
    Unknown,
}

fn pass(history: &[Version], boundaries: &[SeqNo], below: Below) -> Vec<Version> {
    let order = KeyOrder::BYTEWISE;
    let is_bottom = below == Below::Bottom;
    let mut filter = VersionFilter::new(order, boundaries.to_vec(), is_bottom, CLOCK);
    if matches!(below, Below::Older | Below::OtherKeys) {
        filter = filter.with_lookup(Arc::new(move |_| below == Below::Older));
    }
    let mut kept = Vec::new();
    for version in history {
        match filter.keep(
            b"k",
            SeqNo(version.sequence),
            version.kind,
            version.expires_at,
        ) {
            Decision::Keep => kept.push(*version),
            Decision::KeepAsDelete => kept.push(Version {
                kind: EntryKind::Delete,
                expires_at: 0,
                ..*version
            }),
            Decision::Drop => {}
        }
    }
    kept
}

/// Checks one history under one set of boundaries, the last of which is the visible number.
fn check(history: &[Version], boundaries: &[SeqNo], below: Below) {
    let what = || format!("{history:?}, boundaries {boundaries:?}, below {below:?}");
    let kept = pass(history, boundaries, below);
    // Above the bottom an older version may lie in another table; the pass does not see it.
    let oldest = Version {
        sequence: 1,
        kind: EntryKind::Put,
        expires_at: 0,
    };
    let whole = |versions: &[Version]| {
        let mut versions = versions.to_vec();
        if matches!(below, Below::Older | Below::Unknown) {
            versions.push(oldest);
        }
        versions
    };
    let (before, after) = (whole(history), whole(&kept));
    let visible = boundaries[boundaries.len() - 1].0;
    let future = visible + 1..=SEQUENCE_MAX;
    for snapshot in boundaries.iter().map(|bound| bound.0).chain(future) {
        for now in [CLOCK, CLOCK_LATER] {
            assert_eq!(
                read(&before, snapshot, now),
                read(&after, snapshot, now),
                "snapshot {snapshot}, clock {now}: {}",
                what()
            );
        }
    }
    // The newest version that a validating commit may look for stays, unless the oldest boundary already covers it.
    let newest = history.first().filter(|v| v.sequence > boundaries[0].0);
    assert!(
        newest.is_none_or(|newest| kept[0].sequence == newest.sequence),
        "{}",
        what()
    );
    let is_covered = |version: &&Version| version.sequence <= visible;
    assert!(
        kept.iter().filter(is_covered).count() <= boundaries.len(),
        "more versions than stripes: {}",
        what()
    );
    let is_expired = |version: &Version| version.expires_at != 0 && version.expires_at <= CLOCK;
    assert!(
        !kept.iter().filter(is_covered).any(is_expired),
        "an expired value takes space: {}",
        what()
    );
    let oldest = kept.last().filter(|v| v.sequence <= boundaries[0].0);
    if below == Below::Bottom
        && let Some(oldest) = oldest
    {
        assert_eq!(oldest.kind, EntryKind::Put, "{}", what());
    }
    if below == Below::OtherKeys
        && let Some(oldest) = oldest
    {
        assert_ne!(oldest.kind, EntryKind::SingleDelete, "{}", what());
    }
    assert_eq!(pass(&kept, boundaries, below), kept, "{}", what());
}

#[test]
fn every_snapshot_reads_the_same_before_and_after() {
    for history in histories() {
        for visible in 1..=SEQUENCE_MAX {
            for chosen in 0_u64..1 << visible {
                let mut boundaries: Vec<SeqNo> = (0..visible)
                    .filter(|snapshot| chosen >> snapshot & 1 == 1)
                    .map(SeqNo)
                    .collect();
                boundaries.push(SeqNo(visible));
                for below in [
                    Below::Bottom,
                    Below::Older,
                    Below::OtherKeys,
                    Below::Unknown,
                ] {
                    check(&history, &boundaries, below);
                }
            }
        }
    }
}

#[test]
fn keys_are_told_apart_by_the_order_and_in_one_commit_the_later_operation_counts() {
    let order = KeyOrder::new(built_in_comparator("case_insensitive").expect("built in"));
    let mut filter = VersionFilter::new(order, vec![SeqNo(9)], true, CLOCK);
    let mut put = |key: &[u8], sequence| filter.keep(key, SeqNo(sequence), EntryKind::Put, 0);
    assert_eq!(put(b"a", 3), Decision::Keep);
    assert_eq!(put(b"A", 3), Decision::Drop);
    assert_eq!(put(b"a", 1), Decision::Drop);
    assert_eq!(put(b"ab", 3), Decision::Keep);
    assert_eq!(put(b"AB", 2), Decision::Drop);
    assert_eq!(put(b"b", 3), Decision::Keep);
}

#[test]
fn reserved_kinds_are_kept_and_decide_nothing() {
    let mut filter = VersionFilter::new(KeyOrder::BYTEWISE, vec![SeqNo(9)], true, CLOCK);
    for kind in [EntryKind::Merge, EntryKind::RangeDelete] {
        assert_eq!(filter.keep(b"k", SeqNo(5), kind, 0), Decision::Keep);
    }
    assert_eq!(
        filter.keep(b"k", SeqNo(4), EntryKind::Put, 0),
        Decision::Keep
    );
    assert_eq!(
        filter.keep(b"k", SeqNo(3), EntryKind::Merge, 0),
        Decision::Keep
    );
    assert_eq!(
        filter.keep(b"k", SeqNo(2), EntryKind::Put, 0),
        Decision::Drop
    );
}

#[test]
fn without_boundaries_everything_is_kept() {
    let mut filter = VersionFilter::new(KeyOrder::BYTEWISE, Vec::new(), true, CLOCK);
    for sequence in (0..5).rev() {
        let decision = filter.keep(b"k", SeqNo(sequence), EntryKind::Delete, 0);
        assert_eq!(decision, Decision::Keep);
    }
}

#[test]
fn a_single_delete_is_looked_up_once_and_only_where_it_may_vanish() {
    use std::sync::{Arc, Mutex};

    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&asked);
    let boundaries = vec![SeqNo(4), SeqNo(9)];
    let mut filter = VersionFilter::new(KeyOrder::BYTEWISE, boundaries, false, CLOCK).with_lookup(
        Arc::new(move |key| {
            list.lock().expect("no panic").push(key.to_vec());
            false
        }),
    );
    let mut keep =
        |key: &[u8], sequence, kind| filter.keep(key, SeqNo(sequence), kind, 0) == Decision::Keep;
    // In the lowest stripe: the pair goes.
    assert!(!keep(b"a", 4, EntryKind::SingleDelete));
    assert!(!keep(b"a", 2, EntryKind::Put));
    // A snapshot at 4 is older: a commit of its transaction must find the single delete.
    assert!(keep(b"b", 6, EntryKind::SingleDelete));
    assert!(!keep(b"b", 5, EntryKind::Put));
    // A snapshot separates the two.
    assert!(keep(b"c", 6, EntryKind::SingleDelete));
    assert!(keep(b"c", 3, EntryKind::Put));
    // Newer than every reader, and other kinds.
    assert!(keep(b"d", 10, EntryKind::SingleDelete));
    assert!(keep(b"e", 3, EntryKind::Delete));
    assert!(keep(b"f", 3, EntryKind::Put));
    assert_eq!(*asked.lock().expect("no panic"), vec![b"a".to_vec()]);
}

/// Goal: range deletes drop what they cover, unless a boundary lies between, and are dropped themselves only in the
/// lowest stripe of the bottom. Method: all small histories of one key, with range deletes at all pairs of numbers over it,
/// read at every snapshot before and after a pass.
#[test]
fn every_snapshot_reads_the_same_beside_range_deletes() {
    let puts = histories().into_iter().filter(|history| {
        let is_plain = |version: &Version| version.expires_at == 0;
        history.len() <= 3 && history.iter().all(is_plain)
    });
    for history in puts {
        for first in 2..=SEQUENCE_MAX {
            for second in first..=SEQUENCE_MAX {
                for bits in 0_u64..1 << (SEQUENCE_MAX - 1) {
                    let mut boundaries: Vec<SeqNo> = (2..=SEQUENCE_MAX)
                        .filter(|number| bits >> (number - 2) & 1 == 1)
                        .map(SeqNo)
                        .collect();
                    boundaries.push(SeqNo(SEQUENCE_MAX));
                    for is_bottom in [false, true] {
                        check_beside_ranges(&history, [first, second], &boundaries, is_bottom);
                    }
                }
            }
        }
    }
}

/// What a snapshot reads: the number of the value.
fn read_beside(history: &[Version], ranges: &[u64], snapshot: u64) -> Option<u64> {
    let cover = ranges.iter().filter(|number| **number <= snapshot).max();
    read(history, snapshot, CLOCK).filter(|number| cover.is_none_or(|cover| cover <= number))
}

fn check_beside_ranges(
    history: &[Version],
    ranges: [u64; 2],
    boundaries: &[SeqNo],
    is_bottom: bool,
) {
    let order = KeyOrder::BYTEWISE;
    let mut filter = VersionFilter::new(order, boundaries.to_vec(), is_bottom, CLOCK);
    filter.set_ranges(ranges.map(|sequence| RangeTombstone {
        start: b"a",
        end: b"z",
        sequence: SeqNo(sequence),
    }));
    let ranges_kept: Vec<u64> = filter
        .ranges_kept()
        .tombstones()
        .map(|tombstone| tombstone.sequence.0)
        .collect();
    let kept: Vec<Version> = history
        .iter()
        .filter(|version| {
            let sequence = SeqNo(version.sequence);
            filter.keep(b"key", sequence, version.kind, 0) != Decision::Drop
        })
        .copied()
        .collect();
    let what = || format!("{history:?}, {ranges:?}, {boundaries:?}, bottom {is_bottom}");
    let below = Version {
        sequence: 1,
        kind: EntryKind::Put,
        expires_at: 0,
    };
    let whole = |versions: &[Version]| match is_bottom {
        true => versions.to_vec(),
        false => [versions, &[below]].concat(),
    };
    for snapshot in boundaries {
        assert_eq!(
            read_beside(&whole(&kept), &ranges_kept, snapshot.0),
            read_beside(&whole(history), &ranges, snapshot.0),
            "{} at {snapshot}",
            what()
        );
    }
    // Whatever is hidden from everybody is gone.
    for version in kept.iter().filter(|version| version.kind == EntryKind::Put) {
        let is_seen =
            |snapshot: &SeqNo| read_beside(history, &ranges, snapshot.0) == Some(version.sequence);
        assert!(
            boundaries.iter().any(is_seen),
            "{} keeps {version:?}",
            what()
        );
    }
    if is_bottom {
        let lowest = boundaries[0].0;
        assert!(
            ranges_kept.iter().all(|number| *number > lowest),
            "{}",
            what()
        );
    }
}
