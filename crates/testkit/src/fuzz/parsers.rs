//! Decoders of single structures.

use std::sync::Arc;

use kingtide_base::{
    Batch, DatabaseId, EntryKind, EntryRef, FamilyId, FileId, KeyOrder, Lsn, SeqNo, ValueRef,
    checksum, key_hash,
};
use kingtide_collections::{Filter, FilterBuilder, Lz4Dictionary};
use kingtide_format::{
    CodecId, Control, Edit, FRAME_HEADER_BYTES, FrameHeader, FrameKind, ManifestHeader, Op,
    OpReader, RecordReader, SegmentHeader,
    block::{self, BlockDictionary, BlockKind, BlockPlace, DataBlock},
    decode_edits, decode_frame, dump_manifest, dump_segment, encode_edits, find_frame, klog,
    push_frame, split_control, vlog, write_op, write_section_header,
};
use kingtide_table::Fences;

use super::Target;

const FILE: FileId = FileId(7);
const PLACE: BlockPlace = BlockPlace {
    file: FILE,
    offset: 64,
};

/// Records of the log: sections, operations, two-phase control sections and locks.
pub(super) const LOG_RECORD: Target = Target {
    name: "log_record",
    run: |bytes| {
        let Ok((control, rest)) = split_control(bytes) else {
            return;
        };
        if let Some(Control::Prepare(prepare)) = control {
            for (_, locks) in prepare.locks.clone().flatten() {
                assert!(locks.take_while(Result::is_ok).count() <= bytes.len());
            }
        }
        let mut operations = 0;
        for section in RecordReader::new(rest).flatten() {
            operations += walk(section.ops, bytes);
        }
        assert!(operations <= bytes.len());
    },
    seeds: || {
        let mut ops = Vec::new();
        for key in [b"a".as_slice(), b"key", &[0; 40]] {
            let op = Op {
                kind: EntryKind::Put,
                key,
                value: b"value",
                expires_at: 0,
            };
            write_op(&mut ops, &op);
        }
        let mut record = Vec::new();
        write_section_header(&mut record, FamilyId(3), 3, ops.len() as u64);
        record.extend_from_slice(&ops);
        vec![record, Vec::new()]
    },
};

fn walk(ops: OpReader<'_>, record: &[u8]) -> usize {
    let mut count = 0;
    for op in ops.flatten() {
        assert!(op.key.len() + op.value.len() <= record.len());
        count += 1;
    }
    count
}

/// Frames: the input is cut into payloads, which are framed as the log does it; bytes of the result are then changed.
pub(super) const LOG_FRAMES: Target = Target {
    name: "log_frames",
    run: |bytes| {
        const SALT: u64 = 99;
        let (changes, payloads) = bytes.split_at(bytes.len().min(8));
        let mut framed = Vec::new();
        for payload in payloads.chunks(37) {
            let header = FrameHeader {
                is_packed: false,
                kind: FrameKind::Commit,
                payload_bytes: payload.len() as u32,
                sequence: SeqNo(framed.len() as u64 + 1),
                durable: Lsn(0),
            };
            let position = Lsn(framed.len() as u64);
            push_frame(&mut framed, &header, payload, SALT, position);
        }
        let intact = framed.clone();
        for pair in changes.chunks_exact(2) {
            let place = usize::from(pair[0]) * 3;
            if let Some(byte) = framed.get_mut(place) {
                *byte ^= pair[1];
            }
        }
        let mut at = 0;
        while let Some(rest) = framed.get(at..).filter(|rest| !rest.is_empty()) {
            match decode_frame(rest, SALT, Lsn(at as u64)) {
                Ok(frame) => {
                    let start = at + FRAME_HEADER_BYTES;
                    let written = intact.get(start..start + frame.payload.len());
                    assert_eq!(written, Some(frame.payload), "damage was not seen");
                    at += frame.bytes;
                }
                Err(_) => match find_frame(&rest[1..], SALT, Lsn(at as u64 + 1)) {
                    Some((offset, _)) => at += offset + 1,
                    None => break,
                },
            }
        }
    },
    seeds: || vec![vec![0; 100], (0..=255).collect()],
};

/// Edits of the manifest: what is read is written the same.
pub(super) const MANIFEST_EDITS: Target = Target {
    name: "manifest_edits",
    run: |bytes| {
        if let Ok(edits) = decode_edits(bytes) {
            let again = encode_edits(&edits);
            assert_eq!(decode_edits(&again).as_ref(), Ok(&edits));
        }
    },
    seeds: || {
        vec![
            encode_edits(&[Edit::NextFileId(FileId(9)), Edit::LogDurable(Lsn(77))]),
            encode_edits(&[Edit::Identity(DatabaseId(5))]),
            Vec::new(),
        ]
    },
};

/// The annotated dumps, which take damaged files by purpose, and the headers of log and manifest.
pub(super) const DUMPS: Target = Target {
    name: "dumps",
    run: |bytes| {
        let length = dump_segment(bytes).len()
            + dump_manifest(bytes).len()
            + klog::dump_klog(bytes, FILE).len()
            + vlog::dump_vlog(bytes, FILE).len();
        assert!(length <= 4_000 + bytes.len() * 400);
        let _ = SegmentHeader::decode_either(bytes);
        let _ = ManifestHeader::decode(bytes);
        let _ = vlog::decode_vlog_header(bytes, FILE);
    },
    seeds: || vec![vlog::encode_vlog_header(FILE).to_vec(), vec![0; 64]],
};

/// The dictionary of data blocks that use one of one block.
fn block_dictionary() -> Arc<BlockDictionary> {
    let mut dictionary = BlockDictionary::default();
    let column: Vec<u8> = (0..32 << 10).map(|at: u32| (at % 251) as u8).collect();
    dictionary.add(&column);
    Arc::new(dictionary)
}

/// A data block that uses [`block_dictionary`], as [`DATA_BLOCK`] takes it.
fn block_with_dictionary() -> Vec<u8> {
    let mut builder = block::DataBlockBuilder::new();
    for number in 0..3_u8 {
        let value: Vec<u8> = (number * 40..number * 40 + 60).collect();
        builder.add(&EntryRef {
            key: &[b'k', number],
            sequence: SeqNo(3),
            kind: EntryKind::Put,
            expires_at: 0,
            value: ValueRef::Inline(&value),
        });
    }
    let mut words = Lz4Dictionary::new(block_dictionary().bytes().to_vec());
    let mut block = Vec::new();
    builder.finish_with((&mut words, 1), CodecId::Lz4, PLACE, &mut block);
    block.split_off(8)
}

/// Data blocks, whose checksum is made right: decoding, searching, values.
pub(super) const DATA_BLOCK: Target = Target {
    name: "data_block",
    run: |bytes| {
        let sealed = sealed_block(bytes, BlockKind::Data);
        let Ok(mut block) = DataBlock::decode(sealed, PLACE.file, PLACE.offset) else {
            return;
        };
        if block.uses_dictionary() {
            assert!(block.with_raw_values(None).is_err());
            let _ = block.set_dictionary(&block_dictionary());
        }
        let order = KeyOrder::BYTEWISE;
        let mut column = Vec::new();
        let has_values = block.decompress_values(&mut column).is_ok();
        let mut key = Vec::new();
        for index in 0..block.entries() {
            block.copy_key(index, &mut key);
            let _ = (
                block.sequence(index),
                block.kind(index),
                block.expires_at(index),
            );
            assert!(block.lower_bound(&order, &key) <= block.entries());
            assert!(block.upper_bound(&order, &key) <= block.entries());
            assert!(block.first_visible(&order, index, &key, SeqNo(5)) <= block.entries());
            if has_values {
                let _ = block.value(index, &column);
            }
            let (range, mut value) = (block.value_range(index), Vec::new());
            if block.copy_lz4_range(range.clone(), &mut value) && has_values {
                assert_eq!(value, column[range]);
            }
        }
        for start in (0..block.entries()).step_by(40) {
            let lent = start..block.entries().min(start + 50);
            let value_bytes = block.value_range(lent.end - 1).end - block.value_range(start).start;
            if (block.prefix().len() + block.middle(start).len()) < 1000 {
                let mut batch = Batch::default();
                block.lend(lent.clone(), &mut batch);
                assert_eq!(
                    (batch.len(), batch.value_bytes()),
                    (lent.len(), value_bytes)
                );
                for (place, index) in lent.enumerate() {
                    block.copy_key(index, &mut key);
                    assert_eq!(batch.key(place), key);
                    assert_eq!(batch.sequence(place), block.sequence(index));
                    assert_eq!(batch.kind(place), block.kind(index));
                    assert_eq!(batch.expires_at(place), block.expires_at(index));
                }
            }
        }
    },
    seeds: || vec![vec![0; 18], vec![1; 200], block_with_dictionary()],
};

/// A block of `kind` with the rest of its header and its payload from `bytes`, and a right length and checksum.
fn sealed_block(bytes: &[u8], kind: BlockKind) -> Vec<u8> {
    let mut block = vec![0; 8];
    block.extend_from_slice(bytes);
    block.resize(block.len().max(block::BLOCK_HEADER_BYTES), 0);
    let payload = (block.len() - block::BLOCK_HEADER_BYTES) as u32;
    block[8..12].copy_from_slice(&payload.to_le_bytes());
    block[16] = kind as u8;
    let sum = checksum(&block[8..], PLACE.seed());
    block[..8].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The index of a table.
pub(super) const INDEX: Target = Target {
    name: "index",
    run: |bytes| {
        let order = KeyOrder::BYTEWISE;
        let Ok(fences) = Fences::decode(bytes, &order) else {
            return;
        };
        let mut key = Vec::new();
        for index in 0..fences.blocks() {
            fences.copy_separator(index, &mut key);
            let extent = fences.extent(index);
            assert!(extent.start <= extent.end && extent.end <= fences.data_end());
            assert!(fences.first_at_or_after(&order, &key) <= fences.blocks());
        }
        assert!(fences.memory_bytes() <= 4096 + bytes.len() * 16);
    },
    seeds: || {
        let mut index = klog::IndexBuilder::new();
        for key in [b"a".as_slice(), b"bb", b"bc"] {
            index.add(4096, key);
        }
        vec![index.finish(), Vec::new()]
    },
};

/// The properties of a table.
pub(super) const PROPERTIES: Target = Target {
    name: "properties",
    run: |bytes| {
        let _ = klog::decode_properties(bytes, FILE);
    },
    seeds: || vec![vec![0; 80]],
};

/// Records of the value log, whose checksum is made right.
pub(super) const VALUE_RECORD: Target = Target {
    name: "value_record",
    run: |bytes| {
        let mut record = vec![0; 8];
        record.extend_from_slice(bytes);
        if record.len() >= vlog::RECORD_HEADER_BYTES {
            let stored = (record.len() - vlog::RECORD_HEADER_BYTES) as u32;
            record[16..20].copy_from_slice(&stored.to_le_bytes());
            // What is claimed to come out bounds what is allocated; a megabyte is enough to see that.
            record[22] &= 0x0f;
            record[23] = 0;
        }
        // Of a record in chunks the checksum covers the header alone.
        let covered = match record.get(24) {
            Some(128) => &record[8..vlog::RECORD_HEADER_BYTES],
            _ => &record[8..],
        };
        let sum = checksum(covered, PLACE.seed());
        record[..8].copy_from_slice(&sum.to_le_bytes());
        let mut value = Vec::new();
        if let Ok(header) = vlog::open_record(&record, PLACE, &mut value) {
            assert_eq!(header.raw_bytes as usize, value.len());
        }
        let _ = vlog::peek_record_bytes(bytes);
    },
    seeds: || {
        let mut record = Vec::new();
        let codec = CodecId::Lz4;
        vlog::encode_record(&mut record, codec, 5, &[b'x'; 300], PLACE);
        let mut chunks = Vec::new();
        for (chunk, place) in [(b"one", 25), (b"two", 53)] {
            let place = BlockPlace {
                offset: PLACE.offset + place,
                ..PLACE
            };
            vlog::encode_record(&mut chunks, codec, 5, chunk, place);
        }
        let header = vlog::encode_chunked_header(5, (chunks.len() as u32, 6), PLACE);
        vec![record[8..].to_vec(), [&header[8..], &chunks].concat()]
    },
};

/// Values with a dictionary: the input is cut in two, a dictionary and a record that uses it, whose checksum and offset are made
/// right.
pub(super) const DICTIONARY_RECORD: Target = Target {
    name: "dictionary_record",
    run: |bytes| {
        let (dictionary, rest) = bytes.split_at(bytes.len().min(50));
        let mut file = vlog::encode_vlog_header(FILE).to_vec();
        let at = |offset: usize| BlockPlace {
            file: FILE,
            offset: offset as u64,
        };
        let place = at(file.len());
        vlog::encode_record(&mut file, CodecId::None, 0, dictionary, place);
        let mut record = vec![0; 8];
        record.extend_from_slice(rest);
        if let Some(fields) = record.get_mut(16..29) {
            let stored = (rest.len() + 8 - vlog::RECORD_HEADER_BYTES) as u32;
            fields[..4].copy_from_slice(&stored.to_le_bytes());
            fields[8] = 5;
            // Of some the offset is left wrong.
            if !rest[0].is_multiple_of(8) {
                fields[9..].copy_from_slice(&(vlog::VLOG_HEADER_BYTES as u32).to_le_bytes());
            }
        }
        let place = at(file.len());
        let sum = checksum(&record[8..], place.seed());
        record[..8].copy_from_slice(&sum.to_le_bytes());
        if vlog::uses_dictionary(&record) {
            assert!(vlog::open_record(&record, place, &mut Vec::new()).is_err());
        }
        let Ok(opened) = vlog::DictionaryRecord::verify(&record, place) else {
            return;
        };
        let Ok(found) = vlog::Dictionary::find(&file, at(opened.dictionary() as usize)) else {
            return;
        };
        let mut value = Vec::new();
        if let Ok(header) = opened.open(&found, &mut value) {
            assert_eq!(header.raw_bytes as usize, value.len());
            assert!(header.uses_dictionary);
        }
    },
    seeds: || {
        let words = [b'x'; 50];
        let mut record = Vec::new();
        let mut dictionary = Lz4Dictionary::new(words.to_vec());
        vlog::encode_record_with(&mut record, (&mut dictionary, 32), 5, &[b'x'; 300], PLACE);
        let record = record.get(8..).unwrap_or_default();
        vec![[&words, record].concat(), vec![8; 100]]
    },
};

/// Filters.
pub(super) const FILTER: Target = Target {
    name: "filter",
    run: |bytes| {
        let Ok(filter) = Filter::new(bytes) else {
            return;
        };
        for hash in [0, 1, u64::MAX, key_hash(bytes)] {
            filter.prefetch(hash);
            let _ = filter.may_contain(hash);
        }
        assert!(filter.memory_bytes() <= 4096 + bytes.len() * 2);
    },
    seeds: || {
        let mut builder = FilterBuilder::new(0.01);
        (0..100_u64).for_each(|key| builder.add_hash(key_hash(&key.to_le_bytes())));
        vec![builder.finish(), Vec::new()]
    },
};
