//! Records against changed input.

use kingtide_base::FileId;

use kingtide_collections::Lz4Dictionary;

use super::*;
use crate::CodecId;
use crate::block::{BlockFault, BlockPlace};

const PLACE: BlockPlace = BlockPlace {
    file: FileId(3),
    offset: 77,
};

#[test]
fn a_record_fails_with_every_changed_bit_and_in_another_place() {
    for codec in [CodecId::None, CodecId::Snappy, CodecId::Lz4, CodecId::Zstd] {
        let mut bytes = Vec::new();
        let length = encode_record(&mut bytes, codec, 42, &[5; 100], PLACE);
        assert_eq!(length as usize, bytes.len());
        assert_eq!(peek_record_bytes(&bytes), Some(u64::from(length)));
        let mut value = Vec::new();
        let header = open_record(&bytes, PLACE, &mut value).expect("intact");
        assert_eq!((header.key_hash, header.raw_bytes), (42, 100));
        assert_eq!((header.codec, value.as_slice()), (codec, &[5; 100][..]));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open_record(&changed, PLACE, &mut value).is_err());
        }
        let elsewhere = BlockPlace {
            offset: 78,
            ..PLACE
        };
        assert!(open_record(&bytes, elsewhere, &mut value).is_err());
    }
}

/// Goal: a record whose checksum is right and whose fields lie is refused without a panic.
#[test]
fn forged_records_never_panic() {
    let mut bytes = Vec::new();
    encode_record(&mut bytes, CodecId::Lz4, 42, &[5; 100], PLACE);
    for at in 8..bytes.len() {
        for change in [1, 2, 4, 8, 16, 32, 64, 128] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let sum = kingtide_base::checksum(&changed[8..], PLACE.seed());
            changed[..8].copy_from_slice(&sum.to_le_bytes());
            let mut value = Vec::new();
            if let Ok(header) = open_record(&changed, PLACE, &mut value) {
                assert_eq!(header.raw_bytes as usize, value.len());
            }
        }
    }
}

const WORDS: &[u8] = b"{\"kind\":\"a word that all of them have\",\"tide\":\"high\",\"number\":";

fn words() -> Lz4Dictionary {
    Lz4Dictionary::new(WORDS.to_vec())
}

/// The place of a record in a file of [`PLACE`].
fn at(offset: usize) -> BlockPlace {
    BlockPlace {
        offset: offset as u64,
        ..PLACE
    }
}

/// A file, less its footer, of a dictionary and a record that uses it; where that begins, and its value.
fn with_dictionary(codec: CodecId) -> (Vec<u8>, usize, Vec<u8>) {
    let mut file = encode_vlog_header(PLACE.file).to_vec();
    let place = at(file.len());
    encode_record(&mut file, codec, DICTIONARY_KEY_HASH, WORDS, place);
    let start = file.len();
    let value = [WORDS, b"17}"].concat();
    let dictionary = (&mut words(), VLOG_HEADER_BYTES as u32);
    let length = encode_record_with(&mut file, dictionary, 42, &value, at(start));
    assert_eq!(file.len(), start + length as usize);
    (file, start, value)
}

/// As a reader does it.
fn open(file: &[u8], start: usize, value: &mut Vec<u8>) -> Result<RecordHeader, BlockFault> {
    let record = DictionaryRecord::verify(&file[start..], at(start))?;
    let place = BlockPlace {
        offset: record.dictionary(),
        ..PLACE
    };
    record.open(&Dictionary::find(&file[..start], place)?, value)
}

#[test]
fn a_record_with_a_dictionary_fails_with_every_changed_bit_of_either() {
    for codec in [CodecId::Lz4, CodecId::Lz4Fast] {
        let (file, start, value) = with_dictionary(codec);
        assert!(file.len() - start < RECORD_HEADER_BYTES + 20);
        let record = &file[start..];
        assert!(uses_dictionary(record) && !uses_dictionary(&file[VLOG_HEADER_BYTES..]));
        let peeked = peek_record(record).expect("whole");
        assert!(peeked.uses_dictionary && !peeked.is_chunked);
        let mut found = Vec::new();
        let header = open(&file, start, &mut found).expect("intact");
        assert_eq!(header, peeked);
        assert_eq!((header.key_hash, header.codec), (42, CodecId::Lz4));
        assert_eq!((header.raw_bytes as usize, &found), (value.len(), &value));
        // Without its dictionary it is not believed, and in another place neither.
        assert!(open_record(record, at(start), &mut found).is_err());
        assert!(DictionaryRecord::verify(record, at(start + 1)).is_err());
        for bit in VLOG_HEADER_BYTES * 8..file.len() * 8 {
            let mut changed = file.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&changed, start, &mut found).is_err(), "bit {bit}");
        }
    }
}

fn make_right(record: &mut [u8], place: BlockPlace) {
    let sum = kingtide_base::checksum(&record[8..], place.seed());
    record[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Goal: a record with a dictionary whose checksum is right and whose fields lie is refused without a panic, and so is a lying
/// dictionary.
#[test]
fn forged_records_with_a_dictionary_never_panic() {
    let (file, start, _) = with_dictionary(CodecId::Lz4);
    let mut value = Vec::new();
    for byte in VLOG_HEADER_BYTES + 8..file.len() {
        for change in [1, 2, 4, 8, 16, 32, 64, 128] {
            let mut changed = file.clone();
            changed[byte] ^= change;
            make_right(
                &mut changed[VLOG_HEADER_BYTES..start],
                at(VLOG_HEADER_BYTES),
            );
            make_right(&mut changed[start..], at(start));
            if let Ok(header) = open(&changed, start, &mut value) {
                assert_eq!(header.raw_bytes as usize, value.len());
            }
        }
    }
    // Every offset of a dictionary but the right one.
    for offset in (0..start as u32 + 200).chain([u32::MAX - 24, u32::MAX]) {
        let mut changed = file.clone();
        changed[start + 25..start + 29].copy_from_slice(&offset.to_le_bytes());
        make_right(&mut changed[start..], at(start));
        let is_right = offset == VLOG_HEADER_BYTES as u32;
        assert_eq!(open(&changed, start, &mut value).is_ok(), is_right);
    }
    // Every length that a value may claim to have, more than there is included.
    for raw_bytes in (0..1000).chain([65_536, 65_537, u32::MAX]) {
        let mut changed = file.clone();
        changed[start + 20..start + 24].copy_from_slice(&raw_bytes.to_le_bytes());
        make_right(&mut changed[start..], at(start));
        let is_right = raw_bytes as usize == WORDS.len() + 3;
        assert_eq!(open(&changed, start, &mut value).is_ok(), is_right);
    }
    // Cut off behind the header.
    for length in start + RECORD_HEADER_BYTES..file.len() {
        let mut changed = file[..length].to_vec();
        let stored = (length - start - RECORD_HEADER_BYTES) as u32;
        changed[start + 16..start + 20].copy_from_slice(&stored.to_le_bytes());
        make_right(&mut changed[start..], at(start));
        assert!(open(&changed, start, &mut value).is_err());
    }
}

#[test]
fn what_is_no_dictionary_is_refused_as_one() {
    let refused = |file: &[u8], offset: usize| Dictionary::find(file, at(offset)).is_err();
    let (mut file, start, _) = with_dictionary(CodecId::Lz4);
    assert!(!refused(&file, VLOG_HEADER_BYTES));
    // One that uses a dictionary, nothing, and the end.
    assert!(refused(&file, start) && refused(&file, 0));
    assert!(refused(&file, file.len()) && refused(&file, usize::MAX));
    // A value, even one that says it is of nobody, in chunks.
    let value = file.len();
    encode_record(&mut file, CodecId::None, 42, WORDS, at(value));
    assert!(refused(&file, value));
    let chunked = file.len();
    let header = encode_chunked_header(DICTIONARY_KEY_HASH, (0, 0), at(chunked));
    file.extend_from_slice(&header);
    assert!(refused(&file, chunked));
    // One that is too long; the longest is not.
    for (bytes, is_refused) in [(64 << 10, false), ((64 << 10) + 1, true)] {
        let long = file.len();
        encode_record(&mut file, CodecId::None, 0, &vec![7; bytes], at(long));
        assert_eq!(refused(&file, long), is_refused);
    }
    // A dictionary that reaches into the record which uses it, or is another than it names.
    let (file, start, _) = with_dictionary(CodecId::Lz4);
    let record = DictionaryRecord::verify(&file[start..], at(start)).expect("intact");
    let mut other = vec![0; 40];
    encode_record(&mut other, CodecId::None, 0, WORDS, at(40));
    let other = Dictionary::find(&other, at(40)).expect("intact");
    assert!(record.open(&other, &mut Vec::new()).is_err());
    let mut long = vec![0; VLOG_HEADER_BYTES];
    let place = at(VLOG_HEADER_BYTES);
    encode_record(&mut long, CodecId::None, 0, &[7; 200], place);
    let long = Dictionary::find(&long, place).expect("intact");
    assert!(record.open(&long, &mut Vec::new()).is_err());
}

/// Goal: what does not shrink by an eighth with a dictionary is stored as it is, and it is known before.
#[test]
fn a_dictionary_is_used_where_it_saves_an_eighth() {
    let mut scratch = Vec::new();
    for unlike in 0..400 {
        let value: Vec<u8> = (0..unlike)
            .map(|byte| (byte * byte * 31 + byte) as u8)
            .chain(WORDS.iter().copied())
            .collect();
        let stored = stored_bytes_with(&mut words(), &value, &mut scratch);
        let mut record = Vec::new();
        encode_record_with(&mut record, (&mut words(), 32), 1, &value, at(200));
        assert_eq!(record.len(), stored + RECORD_HEADER_BYTES);
        let is_packed = uses_dictionary(&record);
        assert_eq!(is_packed, stored <= value.len() - value.len() / 8);
        if !is_packed {
            assert_eq!(record[RECORD_HEADER_BYTES..], value);
        }
    }
    let mut record = Vec::new();
    for value in [&b""[..], &[0; (64 << 10) + 1]] {
        record.clear();
        encode_record_with(&mut record, (&mut words(), 32), 1, value, at(200));
        assert_eq!(record[RECORD_HEADER_BYTES..], *value);
    }
}

/// A chunk that uses a dictionary, and is whole but for that.
#[test]
fn a_chunk_uses_no_dictionary() {
    let (mut file, start, _) = with_dictionary(CodecId::Lz4);
    let record = file.split_off(start);
    let mut chunk = record.clone();
    let place = at(start + RECORD_HEADER_BYTES);
    make_right(&mut chunk, place);
    DictionaryRecord::verify(&chunk, place).expect("whole");
    let header = encode_chunked_header(42, (chunk.len() as u32, 66), at(start));
    let mut walk = ChunkWalk::begin(&header, at(start)).expect("whole");
    assert!(walk.chunk_bytes(&chunk).is_err());
    assert!(walk.open(&chunk, (&mut Vec::new(), 0)).is_err());
    let whole = [&header[..], &chunk].concat();
    assert!(open_record(&whole, at(start), &mut Vec::new()).is_err());
}
