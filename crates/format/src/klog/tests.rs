//! Index, properties and footer against truncated and changed input.

use kingtide_base::{FamilyId, FileId, Fragments, KeyOrder, RangeTombstone, SeqNo};

use super::*;
use crate::block::BlockDictionary;
use crate::{CodecId, TableMeta, ValueFileUse};

fn meta() -> TableMeta {
    TableMeta {
        file: FileId(4),
        file_bytes: 0,
        footer_checksum: 0,
        smallest: b"a".to_vec(),
        largest: b"zz".to_vec(),
        sequence_min: SeqNo(1),
        sequence_max: SeqNo::MAX,
        sequence_base: SeqNo::ZERO,
        entries: 12,
        tombstones: 3,
        oldest_tombstone: crate::OldestTombstone::default(),
        range_deletes: 0,
        is_largest_excluded: false,
        raw_bytes: 1 << 40,
        value_files: vec![
            ValueFileUse {
                file: FileId(1),
                records: 2,
                bytes: 3,
            },
            ValueFileUse {
                file: FileId(9),
                records: 200,
                bytes: 300_000,
            },
        ],
    }
}

#[test]
fn properties_survive_a_round_trip_and_truncations_are_refused() {
    for ranges in [Fragments::default(), ranges()] {
        check_properties(&ranges, None);
        check_properties(&ranges, Some((FamilyId(7), "tides", None)));
        let mut dictionary = BlockDictionary::default();
        while !dictionary.is_full() {
            dictionary.add(b"7");
        }
        check_properties(&ranges, Some((FamilyId(7), "tides", Some(&dictionary))));
    }
}

/// Three fragments with four numbers.
fn ranges() -> Fragments {
    let tombstones = [(&b"a"[..], &b"k"[..], 9), (b"f", b"zz", 4)];
    let tombstones = tombstones.map(|(start, end, sequence)| RangeTombstone {
        start,
        end,
        sequence: SeqNo(sequence),
    });
    Fragments::build(&KeyOrder::BYTEWISE, tombstones, &[])
}

fn check_properties(ranges: &Fragments, family: Option<OfFamily<'_>>) {
    let plain = encode_properties(&meta(), "memcmp", &Fragments::default(), None);
    let mut meta = meta();
    if !ranges.is_empty() {
        meta.range_deletes = 4;
        meta.is_largest_excluded = true;
    }
    let payload = encode_properties(&meta, "memcmp", ranges, family);
    let expected = Properties {
        order_name: "memcmp".to_owned(),
        meta,
        ranges: ranges.list().to_vec(),
        family: family.map(|(id, name, _)| (id, name.to_owned())),
        dictionary: family.and_then(|(_, _, dictionary)| dictionary.cloned()),
    };
    let without = encode_properties(&expected.meta, "memcmp", ranges, None);
    let plain_family = family.map(|(id, name, _)| (id, name, None));
    let of_family = encode_properties(&expected.meta, "memcmp", ranges, plain_family);
    assert_eq!(decode_properties(&payload, FileId(4)), Ok(expected));
    let wholes = [plain.len(), without.len(), of_family.len()];
    for cut in (0..payload.len()).filter(|cut| !wholes.contains(cut)) {
        assert!(decode_properties(&payload[..cut], FileId(4)).is_err());
    }
    for at in 0..payload.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = payload.clone();
            bytes[at] = value;
            let _ = decode_properties(&bytes, FileId(4));
        }
    }
}

fn read_index(payload: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, kingtide_base::Truncated> {
    let mut reader = IndexReader::new(payload)?;
    let mut blocks = Vec::new();
    while let Some(entry) = reader.next_block()? {
        blocks.push((entry.block_bytes, entry.separator.to_vec()));
    }
    Ok(blocks)
}

#[test]
fn an_index_survives_a_round_trip_and_truncations_are_refused() {
    let blocks: Vec<(u64, Vec<u8>)> = [&b"ab"[..], b"abc", b"abd", b"b", b"", b"bcd"]
        .iter()
        .zip(500..)
        .map(|(separator, bytes)| (bytes, separator.to_vec()))
        .collect();
    let mut builder = IndexBuilder::new();
    for (bytes, separator) in &blocks {
        builder.add(*bytes, separator);
    }
    assert_eq!(builder.blocks(), 6);
    let payload = builder.finish();
    assert_eq!(read_index(&payload), Ok(blocks));
    for cut in 0..payload.len() {
        assert!(read_index(&payload[..cut]).is_err());
    }
    let mut longer = payload.clone();
    longer.push(0);
    assert!(read_index(&longer).is_err());
    for at in 0..payload.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = payload.clone();
            bytes[at] = value;
            let _ = read_index(&bytes);
        }
    }
}

#[test]
fn a_footer_fails_with_every_changed_bit_in_another_file_and_at_another_offset() {
    let footer = KlogFooter {
        index_offset: 100,
        filter_offset: 200,
        properties_offset: 300,
        index_checksum: 1,
        filter_checksum: 2,
        properties_checksum: 3,
        blocks: 4,
        codec: CodecId::Zstd,
        content: 5,
        version: KLOG_VERSION,
    };
    let (bytes, sum) = footer.encode(FileId(4), 400);
    let file_bytes = 400 + bytes.len() as u64;
    assert_eq!(
        KlogFooter::decode(&bytes, FileId(4), file_bytes),
        Ok((footer, sum))
    );
    let (later, _) = KlogFooter {
        version: KLOG_VERSION + 1,
        ..footer
    }
    .encode(FileId(4), 400);
    assert_eq!(
        KlogFooter::decode(&later, FileId(4), file_bytes),
        Err(TailFault::Newer(KLOG_VERSION + 1))
    );
    for version in KLOG_VERSION_PLAIN..KLOG_VERSION_CONTENT {
        let footer = |content| KlogFooter {
            content,
            version,
            ..footer
        };
        let read = |footer: KlogFooter| {
            let (bytes, _) = footer.encode(FileId(4), 400);
            KlogFooter::decode(&bytes, FileId(4), file_bytes).map(|(read, _)| read)
        };
        assert_eq!(read(footer(0)), Ok(footer(0)));
        assert!(read(footer(5)).is_err(), "what was zero then");
    }
    assert!(KlogFooter::decode(&bytes, FileId(5), file_bytes).is_err());
    assert!(KlogFooter::decode(&bytes, FileId(4), file_bytes + 1).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let answer = KlogFooter::decode(&changed, FileId(4), file_bytes);
        assert!(matches!(answer, Err(TailFault::Damaged(_))), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        assert!(KlogFooter::decode(&bytes[..cut], FileId(4), file_bytes).is_err());
    }
}

#[test]
fn dumps_of_garbage_say_what_is_wrong() {
    for bytes in [&b""[..], b"garbage", &[0xff; 200]] {
        assert!(dump_klog(bytes, FileId(1)).contains("FAULT"));
        assert!(crate::vlog::dump_vlog(bytes, FileId(1)).contains("FAULT"));
    }
}
