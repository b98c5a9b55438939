//! Keys of one letter, or a letter and more; a table of 300 KiB for each step unless it says otherwise.

use super::*;

const ORDER: KeyOrder = KeyOrder::BYTEWISE;
const STEP: u64 = 300 << 10;

fn island(smallest: &str, largest: &str) -> (Vec<u8>, Vec<u8>) {
    (smallest.into(), largest.into())
}

/// Walks along keys with their sequence numbers; answers where tables end, as the first keys that are behind.
fn walk(cuts: Cuts, entries: &[(&str, u64)], step: u64) -> Vec<String> {
    let mut cutter = Cutter::new(cuts);
    let mut found = Vec::new();
    let mut bytes = 0;
    cutter.begin(&ORDER, entries[0].0.as_bytes(), SeqNo(entries[0].1));
    for pair in entries.windows(2) {
        bytes += step;
        let keys = (pair[0].0.as_bytes(), pair[1].0.as_bytes());
        let sequence = SeqNo(pair[1].1);
        let cut = cutter.cut(&ORDER, keys, sequence, bytes);
        if let Some(cut) = cut.map(|key| String::from_utf8_lossy(key).into_owned()) {
            found.push(cut);
            bytes = 0;
            cutter.begin(&ORDER, keys.1, sequence);
        }
    }
    found
}

/// An ascent ends with a fall by more than `fall_min`, if ascents count.
fn islands(tables: Vec<(Vec<u8>, Vec<u8>)>, fall_min: Option<u64>) -> Cuts {
    Cuts {
        islands: tables.into(),
        fall_min,
        ..Cuts::default()
    }
}

#[test]
fn tables_end_at_given_keys_however_small_they_are() {
    let at = |keys: &[&str]| Cuts::at(keys.iter().map(|key| key.as_bytes().to_vec()).collect());
    let entries = [("a", 1), ("b", 1), ("d", 1), ("e", 1), ("f", 1)];
    assert_eq!(walk(at(&["c", "f"]), &entries, 1), ["c", "f"]);
    // What lies before the first key, and several keys in one gap, make no empty tables.
    assert_eq!(walk(at(&["A", "a", "ba", "c", "d"]), &entries, 1), ["d"]);
    assert!(walk(at(&[]), &entries, STEP).is_empty());
}

#[test]
fn tables_end_where_keys_pass_over_a_table() {
    let entries = [("a", 1), ("b", 1), ("g", 1), ("h", 1)];
    let around = |smallest, largest| islands(vec![island(smallest, largest)], None);
    assert_eq!(walk(around("c", "d"), &entries, STEP), ["g"]);
    // It shares a key, or begins or ends beyond one.
    for (smallest, largest) in [("b", "d"), ("c", "g"), ("a", "d"), ("i", "k"), ("A", "B")] {
        let found = walk(around(smallest, largest), &entries, STEP);
        assert!(found.is_empty(), "{smallest} to {largest}: {found:?}");
    }
    assert!(walk(around("c", "d"), &entries, 1).is_empty());
}

#[test]
fn tables_end_where_ascending_commits_fall_back() {
    let cuts = || islands(Vec::new(), Some(2));
    // Two writers, each with ascending commits.
    let two = [
        ("a1", 1),
        ("a2", 3),
        ("a3", 5),
        ("b1", 2),
        ("b2", 4),
        ("b3", 6),
    ];
    assert_eq!(walk(cuts(), &two, STEP), ["b1"]);
    // They fall back by less: they share one range.
    assert!(walk(islands(Vec::new(), Some(3)), &two, STEP).is_empty());
    // Ascents that are short of the least size make no cuts, though the table is large.
    assert!(walk(cuts(), &two, STEP / 20).is_empty());
    let random: Vec<(String, u64)> = (0..400)
        .map(|at| (format!("{at:03}"), (at * 7919) % 401))
        .collect();
    let random: Vec<(&str, u64)> = random.iter().map(|(key, at)| (&**key, *at)).collect();
    assert!(walk(cuts(), &random, STEP / 50).is_empty());
    assert!(walk(islands(Vec::new(), None), &two, STEP).is_empty());
}

/// Goal: late ends count from when they are told, whatever ends were known before. Method: the same walk with ends that are told
/// after each number of keys.
#[test]
fn late_ends_count_from_when_they_are_told() {
    struct Told(usize);
    impl Late for Told {
        fn after(&self) -> usize {
            self.0
        }

        fn ends(&self) -> Vec<Vec<u8>> {
            ["b", "d", "f"].map(|key| key.as_bytes().to_vec()).into()
        }
    }
    let entries = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1)];
    let found = |after| {
        let cuts = Cuts::default().and(vec![b"c".to_vec()], Arc::new(Told(after)));
        walk(cuts, &entries, 1)
    };
    assert_eq!(found(1), ["b", "d", "f"]);
    assert_eq!(found(3), ["c", "d", "f"]);
    assert_eq!(found(4), ["c", "f"]);
    assert_eq!(found(9), ["c"]);
}
