//! Blocks and codecs against arbitrary input. What intact blocks hold is tested with whole tables.

use std::sync::Arc;

use kingtide_base::{EntryKind, EntryRef, FileId, KeyOrder, SeqNo, ValuePointer, ValueRef};
use kingtide_collections::Lz4Dictionary;

use super::*;
use crate::CodecId;

const CODECS: [CodecId; 5] = [
    CodecId::None,
    CodecId::Snappy,
    CodecId::Lz4,
    CodecId::Zstd,
    CodecId::Lz4Fast,
];

const PLACE: BlockPlace = BlockPlace {
    file: FileId(9),
    offset: 4096,
};

fn samples() -> Vec<Vec<u8>> {
    let ramp: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8).collect();
    let noise: Vec<u8> = (0..5000_u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
        .collect();
    vec![Vec::new(), vec![1], vec![7; 100_000], ramp, noise]
}

#[test]
fn codecs_give_back_what_they_got() {
    for codec in CODECS {
        for raw in samples() {
            let mut stored = b"before".to_vec();
            compress(codec, &raw, &mut stored).expect("any input below the limit");
            let mut back = vec![9; 10];
            decompress(codec, &stored[6..], raw.len(), &mut back).expect("intact");
            assert_eq!(back, raw, "{codec:?}");
            assert_eq!(stored[..6], *b"before");
        }
    }
}

#[test]
fn what_saves_less_than_an_eighth_is_stored_raw() {
    for codec in CODECS {
        for raw in samples() {
            let mut stored = Vec::new();
            let used = compress_if_smaller(codec, &raw, &mut stored);
            if used == CodecId::None {
                assert_eq!(stored, raw);
            } else {
                assert_eq!(used, codec);
                assert!(stored.len() <= raw.len() - raw.len() / 8);
            }
        }
        let mut stored = Vec::new();
        let used = compress_if_smaller(codec, &[7; 100_000], &mut stored);
        assert_eq!(used, codec, "a constant compresses");
    }
}

#[test]
fn wrong_lengths_and_forged_lengths_are_refused() {
    for codec in CODECS {
        let raw = vec![7_u8; 1000];
        let mut stored = Vec::new();
        compress(codec, &raw, &mut stored).expect("any input");
        let mut back = Vec::new();
        for length in [
            0,
            1,
            999,
            1001,
            RAW_BYTES_MAX,
            RAW_BYTES_MAX + 1,
            usize::MAX,
        ] {
            assert!(
                decompress(codec, &stored, length, &mut back).is_err(),
                "{codec:?}"
            );
            assert!(back.is_empty());
        }
        for cut in 0..stored.len() {
            assert!(decompress(codec, &stored[..cut], raw.len(), &mut back).is_err());
        }
    }
}

/// Goal: garbage never panics and never gives more than was asked for. Method: every byte of compressed data changed.
#[test]
fn damaged_compressed_bytes_never_panic() {
    for codec in CODECS {
        for raw in samples() {
            let mut stored = Vec::new();
            compress(codec, &raw[..raw.len().min(600)], &mut stored).expect("any input");
            let length = raw.len().min(600);
            for at in 0..stored.len() {
                for change in [1, 0x10, 0xff] {
                    let mut bytes = stored.clone();
                    bytes[at] ^= change;
                    let mut back = Vec::new();
                    if decompress(codec, &bytes, length, &mut back).is_ok() {
                        assert_eq!(back.len(), length);
                    }
                }
            }
        }
    }
}

fn sample_block(codec: CodecId, is_mixed: bool) -> Vec<u8> {
    let mut builder = DataBlockBuilder::new();
    let keys: Vec<String> = (0..20)
        .map(|i| {
            if is_mixed {
                format!("key{}", "x".repeat(i))
            } else {
                format!("key{i:03}end")
            }
        })
        .collect();
    for (key, i) in keys.iter().zip(0..) {
        let value = [i; 12];
        builder.add(&EntryRef {
            key: key.as_bytes(),
            sequence: SeqNo(1000 + u64::from(i) * 77),
            kind: if is_mixed && i % 3 == 0 {
                EntryKind::Merge
            } else {
                EntryKind::Put
            },
            expires_at: if is_mixed { i64::from(i) << 30 } else { 0 },
            value: if is_mixed && i % 4 == 0 {
                ValueRef::Separated(ValuePointer {
                    file: FileId(5),
                    offset: 1 << 33,
                    record_bytes: 900,
                    value_bytes: 800,
                })
            } else {
                ValueRef::Inline(&value)
            },
        });
    }
    let mut bytes = Vec::new();
    builder.finish(codec, PLACE, &mut bytes);
    assert!(builder.is_empty());
    bytes
}

/// Calls everything a reader may call.
fn exercise(block: &DataBlock) {
    let reverse = kingtide_base::built_in_comparator("reverse_memcmp").expect("built in");
    let mut key = Vec::new();
    let mut column = Vec::new();
    let has_column = block.decompress_values(&mut column).is_ok();
    for order in [KeyOrder::BYTEWISE, KeyOrder::new(reverse)] {
        for probe in [
            &b""[..],
            b"key",
            b"key005",
            b"key005end",
            b"key005ene",
            b"z",
        ] {
            let low = block.lower_bound(&order, probe);
            let high = block.upper_bound(&order, probe);
            assert!(low <= block.entries());
            assert!(high <= block.entries());
            if low < block.entries() {
                let _ = block.has_key(&order, low, probe);
                let _ = block.first_visible(&order, low, probe, SeqNo(1300));
            }
        }
    }
    for index in 0..block.entries() {
        block.copy_key(index, &mut key);
        block.copy_next_key(index, &mut key);
        let _ = (block.sequence(index), block.kind(index));
        assert!(block.expires_at(index) >= 0);
        if has_column {
            let _ = block.value(index, &column);
        }
    }
}

/// Goal: bytes that lie are refused or read without a panic, even when their checksum is right. Method: every byte
/// after the checksum takes many values, and the checksum is made right again.
#[test]
fn forged_blocks_never_panic() {
    for (codec, is_mixed) in [
        (CodecId::None, true),
        (CodecId::Lz4, false),
        (CodecId::Zstd, true),
    ] {
        let whole = sample_block(codec, is_mixed);
        exercise(&DataBlock::decode(whole.clone(), PLACE.file, PLACE.offset).expect("intact"));
        for at in 8..whole.len() {
            for change in [1, 2, 4, 8, 16, 32, 64, 128, 0xff, 0x7f] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let sum = kingtide_base::checksum(&bytes[8..], PLACE.seed());
                bytes[..8].copy_from_slice(&sum.to_le_bytes());
                if let Ok(block) = DataBlock::decode(bytes, PLACE.file, PLACE.offset) {
                    exercise(&block);
                }
            }
        }
        for length in 0..whole.len() {
            assert!(DataBlock::decode(whole[..length].to_vec(), PLACE.file, PLACE.offset).is_err());
        }
    }
}

/// Goal: stripping pays. Method: keys that differ in one byte in the middle cost one byte each.
#[test]
fn shared_beginnings_and_ends_of_keys_are_stored_once() {
    let mut builder = DataBlockBuilder::new();
    for i in 0..100_u8 {
        builder.add(&EntryRef {
            key: &[1, 2, 3, 4, 5, 6, 7, i, 0, 0, 0, 0, 0, 0, 0, 0],
            sequence: SeqNo(5),
            kind: EntryKind::Put,
            expires_at: 0,
            value: ValueRef::Inline(b"v"),
        });
    }
    let mut bytes = Vec::new();
    builder.finish(CodecId::None, PLACE, &mut bytes);
    assert!(bytes.len() < 100 * 2 + 60, "{}", bytes.len());
    let block = DataBlock::decode(bytes, PLACE.file, PLACE.offset).expect("intact");
    assert_eq!(block.prefix(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(block.middle(42), [42]);
    assert_eq!(block.suffix(), [0; 8]);
}

#[test]
fn pointers_survive_a_round_trip() {
    for offset in [0, 127, 1 << 40, u64::MAX] {
        let pointer = ValuePointer {
            file: FileId(offset ^ 3),
            offset,
            record_bytes: u32::MAX,
            value_bytes: 0,
        };
        let mut bytes = Vec::new();
        encode_pointer(&mut bytes, &pointer);
        assert_eq!(decode_pointer(&bytes), Ok(pointer));
        for cut in 0..bytes.len() {
            assert!(decode_pointer(&bytes[..cut]).is_err());
        }
        bytes.push(0);
        assert!(decode_pointer(&bytes).is_err());
    }
}

/// Goal: columns of more than 64 KiB have wide ends. Method: long keys and long values of many lengths in one block.
#[test]
fn large_blocks_have_wide_ends() {
    let mut builder = DataBlockBuilder::new();
    let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..300_usize)
        .map(|i| {
            let mut key = format!("{i:04}").into_bytes();
            key.resize(300 + i % 7, b'k');
            (key, vec![i as u8; 400 + i % 5])
        })
        .collect();
    for (key, value) in &entries {
        builder.add(&EntryRef {
            key,
            sequence: SeqNo::MAX,
            kind: EntryKind::Put,
            expires_at: i64::MAX,
            value: ValueRef::Inline(value),
        });
    }
    let mut bytes = Vec::new();
    builder.finish(CodecId::Lz4, PLACE, &mut bytes);
    let block = DataBlock::decode(bytes, PLACE.file, PLACE.offset).expect("intact");
    let mut column = Vec::new();
    block.decompress_values(&mut column).expect("intact");
    let order = KeyOrder::BYTEWISE;
    let mut found = Vec::new();
    for (index, (key, value)) in entries.iter().enumerate() {
        assert_eq!(block.lower_bound(&order, key), index);
        assert_eq!(block.upper_bound(&order, key), index + 1);
        block.copy_key(index, &mut found);
        assert_eq!(found, *key);
        assert_eq!(block.value(index, &column), Ok(ValueRef::Inline(value)));
        assert_eq!(block.sequence(index), SeqNo::MAX);
        assert_eq!(block.expires_at(index), i64::MAX);
    }
}

/// Goal: a block with raw values answers as the one that it was made from, and takes the memory that was said. Method: blocks of
/// every codec and shape, one with raised sequence numbers.
#[test]
fn raw_values_are_those_of_the_block() {
    for codec in CODECS {
        for is_mixed in [false, true] {
            let bytes = sample_block(codec, is_mixed);
            let mut block = DataBlock::decode(bytes, PLACE.file, PLACE.offset).expect("intact");
            block.raise_sequences(SeqNo(5));
            let raw = block.with_raw_values(None).expect("intact");
            assert_eq!(raw.memory_bytes(), block.raw_memory_bytes());
            assert_eq!(raw.checksum(), block.checksum());
            let mut column = Vec::new();
            block.decompress_values(&mut column).expect("intact");
            assert_eq!(raw.raw_values(), Some(&column[..]));
            assert_eq!(raw.search_bytes(), block.search_bytes());
            for index in 0..block.entries() {
                assert_eq!(raw.sequence(index), block.sequence(index));
                assert_eq!(raw.value(index, &column), block.value(index, &column));
            }
        }
    }
}

#[test]
fn values_that_do_not_decompress_do_not_become_raw() {
    let mut bytes = sample_block(CodecId::Lz4, false);
    bytes.pop();
    let payload_bytes = (bytes.len() - BLOCK_HEADER_BYTES) as u32;
    bytes[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
    let sum = kingtide_base::checksum(&bytes[8..], PLACE.seed());
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    let block = DataBlock::decode(bytes, PLACE.file, PLACE.offset).expect("its checksum is right");
    assert!(block.with_raw_values(None).is_err());
}

/// Adds twenty entries whose values resemble those of all other numbers, and not each other.
fn add_phrases(builder: &mut DataBlockBuilder, number: u32) {
    for entry in 0..20_u32 {
        let noise =
            (entry * 1000..).map(|at| at.wrapping_mul(0x9e37_79b9).rotate_left(9).to_le_bytes());
        let mut value: Vec<u8> = noise.take(20).flatten().collect();
        value.extend_from_slice(&number.to_le_bytes());
        builder.add(&EntryRef {
            key: format!("{number:06} {entry:03}").as_bytes(),
            sequence: SeqNo(7),
            kind: EntryKind::Put,
            expires_at: 0,
            value: ValueRef::Inline(&value),
        });
    }
}

/// The whole dictionary of a table of such entries.
fn dictionary_of_phrases() -> BlockDictionary {
    let mut dictionary = BlockDictionary::default();
    let mut builder = DataBlockBuilder::new();
    while !dictionary.is_full() {
        add_phrases(&mut builder, dictionary.blocks().into());
        builder.add_to(&mut dictionary);
        builder.finish(CodecId::Lz4, PLACE, &mut Vec::new());
    }
    dictionary
}

fn phrases_with(dictionary: &BlockDictionary) -> Vec<u8> {
    let mut builder = DataBlockBuilder::new();
    add_phrases(&mut builder, 4711);
    let mut words = Lz4Dictionary::new(dictionary.bytes().to_vec());
    let saved = builder.saved_with(&mut words, CodecId::Lz4, &mut Vec::new());
    assert!(saved > 1000, "{saved}");
    let mut bytes = Vec::new();
    let packed = (&mut words, dictionary.blocks());
    builder.finish_with(packed, CodecId::Lz4, PLACE, &mut bytes);
    bytes
}

/// Goal: a block with a dictionary has the values of the one without, whole and one by one, raw too; it has none without the
/// dictionary, and takes none that is not whole or of another number of blocks.
#[test]
fn blocks_with_a_dictionary_have_their_values_with_it_alone() {
    let mut builder = DataBlockBuilder::new();
    add_phrases(&mut builder, 4711);
    let mut plain = Vec::new();
    builder.finish(CodecId::Lz4, PLACE, &mut plain);
    let dictionary = dictionary_of_phrases();
    let bytes = phrases_with(&dictionary);
    assert!(
        bytes.len() * 2 < plain.len(),
        "{} of {}",
        bytes.len(),
        plain.len()
    );
    let plain = DataBlock::decode(plain, PLACE.file, PLACE.offset).expect("intact");
    assert!(!plain.uses_dictionary());
    let mut wanted = Vec::new();
    plain.decompress_values(&mut wanted).expect("intact");

    let mut block = DataBlock::decode(bytes, PLACE.file, PLACE.offset).expect("intact");
    assert!(block.uses_dictionary() && block.lz4_values().is_none());
    let mut column = Vec::new();
    assert!(block.decompress_values(&mut column).is_err());
    assert!(block.with_raw_values(None).is_err());
    assert!(!block.copy_lz4_range(0..10, &mut column));
    let part = Arc::new(BlockDictionary::default());
    assert!(block.set_dictionary(&part).is_err());
    let mut other = BlockDictionary::default();
    while !other.is_full() {
        other.add(&[1; 8000]);
    }
    assert!(block.set_dictionary(&Arc::new(other)).is_err());

    block
        .set_dictionary(&Arc::new(dictionary))
        .expect("its own");
    block.decompress_values(&mut column).expect("intact");
    assert_eq!(column, wanted);
    for index in 0..block.entries() {
        let mut value = Vec::new();
        let range = block.value_range(index);
        if block.copy_lz4_range(range.clone(), &mut value) {
            assert_eq!(value, wanted[range]);
        }
        assert_eq!(block.value(index, &column), plain.value(index, &wanted));
    }
    let raw = block.with_raw_values(None).expect("intact");
    assert_eq!(raw.raw_values(), Some(&wanted[..]));
    assert!(!raw.uses_dictionary() && raw.memory_bytes() == block.raw_memory_bytes());
    let memory = kingtide_collections::BlockMemory::new(
        64 << 20,
        &kingtide_collections::MemoryBudget::unlimited(),
    );
    let moved = block.moved_to(memory.as_ref());
    moved.decompress_values(&mut column).expect("intact");
    assert_eq!(column, wanted);
}

/// Goal: as [`forged_blocks_never_panic`], of a block with a dictionary.
#[test]
fn forged_blocks_with_a_dictionary_never_panic() {
    let dictionary = Arc::new(dictionary_of_phrases());
    let whole = phrases_with(&dictionary);
    for at in 8..whole.len() {
        for change in [1, 2, 4, 8, 16, 32, 64, 128, 0xff, 0x7f] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            let sum = kingtide_base::checksum(&bytes[8..], PLACE.seed());
            bytes[..8].copy_from_slice(&sum.to_le_bytes());
            let Ok(mut block) = DataBlock::decode(bytes, PLACE.file, PLACE.offset) else {
                continue;
            };
            exercise(&block);
            if block.set_dictionary(&dictionary).is_ok() {
                exercise(&block);
            }
            let mut value = Vec::new();
            let range = block.value_range(0);
            if block.copy_lz4_range(range.clone(), &mut value) {
                assert_eq!(value.len(), range.len());
            }
        }
    }
}

/// Goal: no block but a data block may say that it uses a dictionary.
#[test]
fn sections_have_no_dictionary() {
    let mut bytes = Vec::new();
    write_section(&mut bytes, BlockKind::Index, CodecId::Lz4, &[7; 900], PLACE).expect("short");
    bytes[17] = 5;
    let sum = kingtide_base::checksum(&bytes[8..], PLACE.seed());
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    assert!(open_section(&bytes, BlockKind::Index, PLACE).is_err());
}
