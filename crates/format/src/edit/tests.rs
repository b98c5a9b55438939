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
        TableMeta {
            file: FileId(file),
            file_bytes,
            footer_checksum,
            smallest,
            largest,
            sequence_min: SeqNo(min),
            sequence_max: SeqNo(max),
            entries,
            tombstones,
            range_deletes: entries % 3,
            is_largest_excluded: entries % 3 == 2,
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
    assert_eq!(fault(&[16, 0]), EditFault::UnknownTag(16));
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
