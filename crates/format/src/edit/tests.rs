use super::*;
use proptest::prelude::*;

fn options() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(("[a-z_]{1,12}", ".{0,12}"), 0..4)
}

fn level() -> impl Strategy<Value = u8> {
    1..=LEVELS_MAX as u8
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..30)
}

fn table() -> impl Strategy<Value = TableMeta> {
    let uses = proptest::collection::vec(any::<(u64, u64, u64)>(), 0..4);
    (any::<[u64; 8]>(), key(), key(), uses).prop_map(|(numbers, smallest, largest, uses)| {
        let [
            file,
            file_bytes,
            footer_checksum,
            min,
            max,
            entries,
            tombstones,
            raw_bytes,
        ] = numbers;
        let is_loaded = entries % 5 == 4;
        let range_deletes = if is_loaded { 0 } else { entries % 3 };
        // Otherwise the manifest of a version that did not record it.
        let knows_age = min <= max && file % 2 == 0 && !is_loaded && tombstones > 0;
        let oldest_tombstone = match knows_age {
            true => OldestTombstone {
                sequence: SeqNo(min.midpoint(max)),
                since: footer_checksum.max(1),
            },
            false => OldestTombstone::default(),
        };
        TableMeta {
            oldest_tombstone,
            file: FileId(file),
            file_bytes,
            footer_checksum,
            smallest,
            largest,
            sequence_min: SeqNo(min),
            sequence_max: SeqNo(max),
            sequence_base: SeqNo(if is_loaded { min } else { 0 }),
            entries,
            tombstones: if is_loaded { 0 } else { tombstones },
            range_deletes,
            is_largest_excluded: range_deletes == 2,
            raw_bytes,
            value_files: uses
                .into_iter()
                .map(|(file, records, bytes)| ValueFileUse {
                    file: FileId(file),
                    records,
                    bytes,
                })
                .collect(),
        }
    })
}

fn value_file() -> impl Strategy<Value = ValueFileMeta> {
    any::<[u64; 4]>().prop_map(
        |[file, file_bytes, footer_checksum, records]| ValueFileMeta {
            file: FileId(file),
            file_bytes,
            footer_checksum,
            records,
        },
    )
}

fn family_edit() -> impl Strategy<Value = Edit> {
    let id = || any::<u32>().prop_map(FamilyId);
    prop_oneof![
        id().prop_map(Edit::NextFamilyId),
        id().prop_map(|id| Edit::DropFamily { id }),
        (id(), ".{1,20}", options()).prop_map(|(id, name, options)| Edit::AddFamily {
            id,
            name,
            options
        }),
        (id(), ".{1,20}").prop_map(|(id, name)| Edit::RenameFamily { id, name }),
        (id(), options()).prop_map(|(id, options)| Edit::SetFamilyOptions { id, options }),
        (id(), any::<u64>()).prop_map(|(family, sequence)| Edit::FlushedThrough {
            family,
            sequence: SeqNo(sequence)
        }),
    ]
}

fn file_edit() -> impl Strategy<Value = Edit> {
    let id = || any::<u32>().prop_map(FamilyId);
    let file = || any::<u64>().prop_map(FileId);
    prop_oneof![
        (id(), level(), table()).prop_map(|(family, level, meta)| Edit::AddTable {
            family,
            level,
            meta
        }),
        (id(), level(), file()).prop_map(|(family, level, file)| Edit::RemoveTable {
            family,
            level,
            file
        }),
        (id(), level(), level(), file()).prop_map(|(family, from, to, file)| Edit::MoveTable {
            family,
            from,
            to,
            file
        }),
        file().prop_map(Edit::NextFileId),
        file().prop_map(Edit::RemoveValueFile),
        value_file().prop_map(Edit::AddValueFile),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        family_edit(),
        file_edit(),
        any::<u64>().prop_map(|position| Edit::LogDurable(Lsn(position))),
        any::<u128>().prop_map(|database| Edit::Identity(DatabaseId(database))),
        any::<[u64; 3]>().prop_map(|[segment, sequence, position]| Edit::LogStart {
            segment: SegmentId(segment),
            sequence: SeqNo(sequence),
            position: Lsn(position)
        }),
    ]
}

proptest! {
    #![proptest_config(crate::testing::config())]

    #[test]
    fn batches_survive_a_round_trip(edits in proptest::collection::vec(edit(), 0..6)) {
        prop_assert_eq!(decode_edits(&encode_edits(&edits)), Ok(edits));
    }

    /// A cut batch is refused, or is a shorter batch when the cut falls between two edits.
    #[test]
    fn truncations_are_refused_or_shorter(edits in proptest::collection::vec(edit(), 1..4)) {
        let bytes = encode_edits(&edits);
        for cut in 0..bytes.len() {
            if let Ok(fewer) = decode_edits(&bytes[..cut]) {
                prop_assert_eq!(&fewer[..], &edits[..fewer.len()]);
                prop_assert!(fewer.len() < edits.len());
            }
        }
    }

    /// No flipped bit makes the decoder panic or answer the batch that was written.
    #[test]
    fn flips_are_survived(edits in proptest::collection::vec(edit(), 1..3)) {
        let bytes = encode_edits(&edits);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode_edits(&damaged) != Ok(edits.clone()), "bit {} changes nothing", bit);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode_edits(&bytes);
    }
}

#[test]
fn each_rule_has_its_fault() {
    let fault = |bytes: &[u8]| decode_edits(bytes).expect_err("refused");
    assert_eq!(fault(&[tag::NEXT_FILE_ID]), EditFault::Truncated);
    assert_eq!(fault(&[19, 0]), EditFault::UnknownTag(19));
    assert_eq!(fault(&[0, 0]), EditFault::UnknownTag(0));
    assert_eq!(fault(&[tag::NEXT_FILE_ID, 2, 1, 1]), EditFault::Rest(1));
    assert_eq!(fault(&[tag::RENAME_FAMILY, 3, 1, 1, 0xff]), EditFault::Text);
    for level in [0, LEVELS_MAX as u8 + 1] {
        let bytes = [tag::REMOVE_TABLE, 3, 1, level, 1];
        assert_eq!(fault(&bytes), EditFault::Level(level));
    }
    let bytes = [tag::DROP_FAMILY, 5, 0x80, 0x80, 0x80, 0x80, 0x10];
    assert_eq!(fault(&bytes), EditFault::Id(1 << 32));
    let long_name = Edit::RenameFamily {
        id: FamilyId(1),
        name: "n".repeat(FAMILY_NAME_BYTES_MAX + 1),
    };
    assert_eq!(fault(&encode_edits(&[long_name])), EditFault::Truncated);
}

/// The bytes of a table of a bulk load, which the page of the format shows, and its rules.
#[test]
fn a_loaded_table_records_what_its_numbers_are_raised_by() {
    let meta = TableMeta {
        file: FileId(6),
        file_bytes: 300,
        footer_checksum: 1,
        smallest: b"ebb".to_vec(),
        largest: b"neap".to_vec(),
        is_largest_excluded: false,
        sequence_min: SeqNo(41),
        sequence_max: SeqNo(41),
        sequence_base: SeqNo(9),
        entries: 2,
        tombstones: 0,
        oldest_tombstone: OldestTombstone::default(),
        range_deletes: 0,
        raw_bytes: 20,
        value_files: Vec::new(),
    };
    let edit = Edit::AddTable {
        family: FamilyId(1),
        level: 2,
        meta,
    };
    let bytes = encode_edits(std::slice::from_ref(&edit));
    let expected =
        b"\x10\x1d\x01\x02\x06\xac\x02\x01\0\0\0\0\0\0\0\x03ebb\x04neap\x29\x29\x02\0\x14\0\x09";
    assert_eq!(bytes, expected);
    assert_eq!(decode_edits(&bytes), Ok(vec![edit]));
    for wrong in [0, 42] {
        let mut bytes = bytes.clone();
        *bytes.last_mut().expect("the base") = wrong;
        assert_eq!(decode_edits(&bytes), Err(EditFault::Rest(16)));
    }
    let mut with_a_tombstone = bytes;
    let tombstones = with_a_tombstone.len() - 4;
    with_a_tombstone[tombstones] = 1;
    assert_eq!(decode_edits(&with_a_tombstone), Err(EditFault::Rest(16)));
}

/// The bytes of a table that says since when it holds tombstones, which the page of the format shows, and its rules.
#[test]
fn a_table_records_since_when_it_holds_tombstones() {
    let meta = TableMeta {
        file: FileId(6),
        file_bytes: 300,
        footer_checksum: 1,
        smallest: b"ebb".to_vec(),
        largest: b"neap".to_vec(),
        is_largest_excluded: false,
        sequence_min: SeqNo(41),
        sequence_max: SeqNo(44),
        sequence_base: SeqNo::ZERO,
        entries: 2,
        tombstones: 1,
        oldest_tombstone: OldestTombstone {
            sequence: SeqNo(43),
            since: 1_900_000_000,
        },
        range_deletes: 0,
        raw_bytes: 20,
        value_files: Vec::new(),
    };
    let edit = |meta: &TableMeta| Edit::AddTable {
        family: FamilyId(1),
        level: 2,
        meta: meta.clone(),
    };
    let bytes = encode_edits(&[edit(&meta)]);
    let expected =
        b"\x11\x24\x01\x02\x06\xac\x02\x01\0\0\0\0\0\0\0\x03ebb\x04neap\x29\x2c\x02\x01\x14\0\
                     \0\0\x80\xe6\xfe\x89\x07\x2b";
    assert_eq!(bytes, expected);
    assert_eq!(decode_edits(&bytes), Ok(vec![edit(&meta)]));
    for wrong in [0, 40, 45] {
        let mut bytes = bytes.clone();
        *bytes.last_mut().expect("the sequence number") = wrong;
        assert_eq!(decode_edits(&bytes), Err(EditFault::Rest(17)));
    }
    let without = TableMeta {
        tombstones: 0,
        ..meta.clone()
    };
    assert_eq!(
        decode_edits(&encode_edits(&[edit(&without)])),
        Err(EditFault::Rest(17)),
        "none that could be old"
    );
    let with_ranges = TableMeta {
        tombstones: 0,
        range_deletes: 3,
        is_largest_excluded: true,
        ..meta
    };
    let bytes = encode_edits(&[edit(&with_ranges)]);
    assert_eq!(bytes[0], 17);
    assert_eq!(decode_edits(&bytes), Ok(vec![edit(&with_ranges)]));
}
