use kingtide_base::{FileId, SeqNo};
use kingtide_format::OldestTombstone;

use super::*;

/// A table from `keys`, with the commits `sequences`, the oldest tombstone's number and date.
fn table(keys: [&str; 2], sequences: [u64; 2], oldest: u64, since: u64) -> TableMeta {
    TableMeta {
        file: FileId(1),
        file_bytes: 100,
        footer_checksum: 0,
        smallest: keys[0].into(),
        largest: keys[1].into(),
        is_largest_excluded: false,
        sequence_min: SeqNo(sequences[0]),
        sequence_max: SeqNo(sequences[1]),
        sequence_base: SeqNo::ZERO,
        entries: 10,
        tombstones: u64::from(oldest > 0),
        oldest_tombstone: OldestTombstone {
            sequence: SeqNo(oldest),
            since,
        },
        range_deletes: 0,
        raw_bytes: 100,
        value_files: Vec::new(),
    }
}

fn dates(inputs: &[TableMeta], outputs: &[TableMeta]) -> Vec<u64> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|table| (2, Arc::new(table.clone())))
        .collect();
    let mut output = Output {
        tables: outputs.to_vec(),
        ..Output::default()
    };
    output.inherit_dates(&inputs, &KeyOrder::BYTEWISE, 1000);
    let tables = output.tables.iter();
    tables.map(|table| table.oldest_tombstone.since).collect()
}

/// Goal: a merge makes no tombstone younger, and makes one older only where it cannot tell. Method: outputs beside, over
/// and newer than inputs of several dates.
#[test]
fn merges_hand_on_the_oldest_date_that_can_be_meant() {
    let old = table(["a", "f"], [1, 9], 4, 100);
    let fresh = table(["a", "z"], [20, 30], 25, 500);
    let inputs = [old, fresh];
    // Holds the tombstone of the old one.
    assert_eq!(dates(&inputs, &[table(["a", "c"], [1, 30], 4, 0)]), [100]);
    // Behind its keys; as new as the other's only.
    let apart = table(["g", "z"], [1, 30], 25, 0);
    let newer = table(["a", "f"], [1, 30], 25, 0);
    assert_eq!(dates(&inputs, &[apart, newer]), [500, 500]);
    // A number that both could have had.
    assert_eq!(dates(&inputs, &[table(["a", "z"], [1, 30], 9, 0)]), [100]);
    // None is left, and one that the inputs did not have.
    assert_eq!(dates(&inputs, &[table(["a", "z"], [1, 30], 0, 0)]), [0]);
    let puts = table(["a", "z"], [1, 30], 0, 0);
    assert_eq!(dates(&[puts], &[table(["a", "z"], [1, 30], 5, 0)]), [1000]);
}

#[test]
fn a_flush_dates_what_has_no_date() {
    let mut output = Output {
        tables: vec![
            table(["a", "b"], [1, 2], 2, 0),
            table(["c", "d"], [1, 2], 0, 0),
            table(["e", "f"], [1, 2], 1, 7),
        ],
        ..Output::default()
    };
    output.date_tombstones(55);
    let tables = output.tables.iter();
    let dates: Vec<_> = tables.map(|table| table.oldest_tombstone.since).collect();
    assert_eq!(dates, [55, 0, 7]);
}
