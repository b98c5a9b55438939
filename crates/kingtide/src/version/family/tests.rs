use kingtide_base::{SeqNo, built_in_comparator};

use super::*;

fn table(file: u64, smallest: &[u8], largest: &[u8], sequence_max: u64) -> Arc<TableMeta> {
    Arc::new(TableMeta {
        file: FileId(file),
        file_bytes: 100,
        footer_checksum: file,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        sequence_min: SeqNo(sequence_max.saturating_sub(9)),
        sequence_max: SeqNo(sequence_max),
        sequence_base: SeqNo::ZERO,
        entries: 10,
        tombstones: 1,
        oldest_tombstone: kingtide_format::OldestTombstone::default(),
        range_deletes: 0,
        is_largest_excluded: false,
        raw_bytes: 200,
        value_files: vec![kingtide_format::ValueFileUse {
            file: FileId(1),
            records: 1,
            bytes: 50,
        }],
    })
}

fn files<'a>(tables: impl IntoIterator<Item = &'a Arc<TableMeta>>) -> Vec<u64> {
    tables.into_iter().map(|table| table.file.0).collect()
}

/// Level 1: 4 over c..m is newer than 3 over a..z. Level 3: 7 over a..c, 8 over d..f, 9 over m..m.
fn version() -> Version {
    let tables = [
        (1, table(3, b"a", b"z", 30)),
        (1, table(4, b"c", b"m", 40)),
        (3, table(9, b"m", b"m", 9)),
        (3, table(7, b"a", b"c", 7)),
        (3, table(8, b"d", b"f", 8)),
    ];
    Version::from_tables(KeyOrder::BYTEWISE, tables).expect("disjoint")
}

#[test]
fn level_one_is_read_newest_first_and_deeper_levels_by_key() {
    let version = version();
    let levels: Vec<_> = version
        .levels()
        .map(|level| files(level.tables()))
        .collect();
    assert_eq!(levels, [vec![4, 3], vec![], vec![7, 8, 9]]);
    let all: Vec<_> = version
        .tables()
        .map(|(level, table)| (level, table.file.0))
        .collect();
    assert_eq!(all, [(1, 4), (1, 3), (3, 7), (3, 8), (3, 9)]);
    assert_eq!(version.table_levels.get(&FileId(8)), Some(&3));
    assert_eq!(version.table_levels.get(&FileId(5)), None);
    assert!(version.level(0).is_none() && version.level(4).is_none());
    assert!(version.order.is_bytewise());
}

#[test]
fn keys_find_their_tables() {
    let version = version();
    let by_key = |level, key: &[u8]| files(version.tables_for_key(level, key));
    assert_eq!(by_key(1, b"d"), [4, 3]);
    assert_eq!(by_key(1, b"b"), [3]);
    assert_eq!(by_key(3, b"c"), [7]);
    assert_eq!(by_key(3, b"ca"), [0_u64; 0]);
    assert_eq!(by_key(3, b"m"), [9]);
    assert_eq!(by_key(2, b"m"), [0_u64; 0]);
    assert_eq!(by_key(9, b"m"), [0_u64; 0]);
}

#[test]
fn totals_are_sums() {
    let version = version();
    let level = version.level_totals(3);
    assert_eq!(
        (level.tables, level.file_bytes, level.raw_bytes),
        (3, 300, 600)
    );
    assert_eq!(
        (level.entries, level.tombstones, level.value_bytes),
        (30, 3, 150)
    );
    assert_eq!(version.level_totals(1).tables, 2);
    assert_eq!(version.level_totals(2), LevelTotals::default());
}

#[test]
fn a_change_makes_a_new_version_and_shares_what_it_does_not_touch() {
    let old = version();
    let to_bottom = TableMove {
        file: FileId(4),
        from: 1,
        to: 2,
    };
    let added = [(1, table(10, b"k", b"p", 50))];
    let new = old
        .apply(&added, &[(1, FileId(3))], &[to_bottom])
        .expect("fits");
    let levels: Vec<_> = new.levels().map(|level| files(level.tables())).collect();
    assert_eq!(levels, [vec![10], vec![4], vec![7, 8, 9]]);
    assert!(Arc::ptr_eq(&old.levels[2], &new.levels[2]));
    assert_eq!(old.table_levels.get(&FileId(3)), Some(&1));
    assert_eq!(new.table_levels.get(&FileId(3)), None);
    assert_eq!(new.table_levels.get(&FileId(4)), Some(&2));
    let removed = [(3, FileId(7)), (3, FileId(8)), (3, FileId(9))];
    let shallow = new.apply(&[], &removed, &[]).expect("fits");
    assert_eq!(
        shallow.levels().len(),
        2,
        "empty levels at the bottom vanish"
    );
}

#[test]
fn what_is_no_version_is_refused() {
    let version = version();
    let fault = |added: &[(u8, Arc<TableMeta>)], removed: &[(u8, FileId)], moved: &[TableMove]| {
        version.apply(added, removed, moved).expect_err("refused")
    };
    let file = FileId(9);
    let moved = |from, to| TableMove { file, from, to };
    let missing = |level| VersionFault::Missing { file, level };
    assert_eq!(fault(&[], &[(2, file)], &[]), missing(2));
    assert_eq!(fault(&[], &[(3, file), (3, file)], &[]), missing(3));
    assert_eq!(fault(&[], &[], &[moved(1, 2)]), missing(1));
    assert_eq!(fault(&[], &[], &[moved(3, 17)]), VersionFault::Level(17));
    assert_eq!(fault(&[], &[(0, file)], &[]), VersionFault::Level(0));
    let again = [(2, table(9, b"a", b"b", 1))];
    assert_eq!(fault(&again, &[], &[]), VersionFault::Duplicate { file });
    let backwards = [(1, table(11, b"b", b"a", 1))];
    let range = VersionFault::KeyRange { file: FileId(11) };
    assert_eq!(fault(&backwards, &[], &[]), range);
    let touching = [(3, table(11, b"c", b"cc", 1))];
    let overlap = VersionFault::Overlap {
        level: 3,
        left: FileId(7),
        right: FileId(11),
    };
    assert_eq!(fault(&touching, &[], &[]), overlap);
}

/// Keys of all kinds of heads: alone in their first 8 bytes, equal to others when padded with zeros, equal to others in
/// their first 8 bytes.
fn awkward_key(number: u64) -> Vec<u8> {
    let number = number as u8;
    match number {
        0..8 => vec![number],
        8..16 => [&[3], vec![0; usize::from(number) - 7].as_slice()].concat(),
        _ => [[5; 8].as_slice(), &[number]].concat(),
    }
}

/// Goal: the search finds what a look at every table finds, in every order. Method: 200 versions of random tables
/// with awkward keys from a fixed seed, every key.
#[test]
fn searches_agree_with_a_look_at_every_table() {
    let mut seed = 0x5eed_u64;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for name in ["memcmp", "reverse_memcmp"] {
        let order = KeyOrder::new(built_in_comparator(name).expect("built in"));
        for _ in 0..100 {
            let mut version = Version::empty(order.clone());
            for file in 1..12 {
                let level = 1 + random(3) as u8;
                let mut ends = [awkward_key(random(24)), awkward_key(random(24))];
                ends.sort_by(|left, right| order.compare(left, right));
                let added = [(level, table(file, &ends[0], &ends[1], random(99)))];
                // An overlap on a deeper level is refused; the version then stays as it is.
                version = version.apply(&added, &[], &[]).unwrap_or(version);
            }
            for (level, key) in (1..=3).flat_map(|level| (0..26).map(move |key| (level, key))) {
                let key = awkward_key(key);
                let expected: Vec<u64> = version
                    .level(level)
                    .map_or_else(Vec::new, |level| level.tables().to_vec())
                    .iter()
                    .filter(|table| order.compare(&table.largest, &key).is_ge())
                    .filter(|table| order.compare(&table.smallest, &key).is_le())
                    .map(|table| table.file.0)
                    .collect();
                let found = files(version.tables_for_key(level, &key));
                assert_eq!(found, expected, "{name} level {level} {key:?}");
            }
        }
    }
}

/// Goal: what lies under a level is found there, and nothing above it is held. Method: tables are asked for, and whether they are
/// held once the version itself is dropped.
#[test]
fn what_lies_below_holds_nothing_above() {
    for level in 0..=4 {
        let whole = version();
        let below = whole.below(level);
        let tables = whole.tables().map(|(of, table)| (of, Arc::clone(table)));
        let (above, under): (Vec<_>, Vec<_>) = tables.partition(|(of, _)| *of <= level);
        let found: Vec<_> = below.tables().map(|(_, table)| table.file).collect();
        let expected: Vec<_> = under.iter().map(|(_, table)| table.file).collect();
        assert_eq!(found, expected, "under level {level}");
        let depth = if under.is_empty() { 0 } else { whole.depth() };
        assert_eq!(below.depth(), depth, "under level {level}");
        assert_eq!(
            files(below.tables_for_key(3, b"e")).len(),
            usize::from(level < 3)
        );
        drop(whole);
        let is_held = |(_, table): &(u8, Arc<TableMeta>)| Arc::strong_count(table) > 1;
        assert!(under.iter().all(is_held), "under level {level}");
        assert!(!above.iter().any(is_held), "under level {level}");
    }
}
