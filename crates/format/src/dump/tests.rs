use super::*;
use crate::{FrameHeader, push_frame};
use kingtide_base::{SegmentId, SeqNo};

const FRAMES: usize = SEGMENT_FRAMES_OFFSET as usize;

fn segment() -> Vec<u8> {
    let header = SegmentHeader {
        segment: SegmentId(1),
        salt: 2,
        database: Some(kingtide_base::DatabaseId(3)),
        base: Lsn(1000),
        bytes: 2048,
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(SEGMENT_HEADER_COPY_OFFSET as usize, 0);
    bytes.extend_from_slice(&header.encode());
    bytes.resize(FRAMES, 0);
    for sequence in 1..=3 {
        let position = Lsn(1000 + (bytes.len() - FRAMES) as u64);
        let header = FrameHeader {
            is_packed: false,
            payload_bytes: 7,
            kind: FrameKind::PartFirst,
            sequence: SeqNo(sequence),
            durable: position,
        };
        push_frame(&mut bytes, &header, b"payload", 2, position);
    }
    bytes
}

#[test]
fn the_end_of_a_damaged_segment_tells_what_follows() {
    let mut bytes = segment();
    assert!(dump_segment(&bytes).ends_with("00000490  end of file\n"));
    bytes[FRAMES + 48 + FRAME_HEADER_BYTES] ^= 1;
    let dump = dump_segment(&bytes);
    let end = "\
        00000430  end: the frame fails its checksum\n\
        00000460  a valid frame follows; the log was durable up to 1096\n";
    assert!(dump.ends_with(end), "{dump}");
}

#[test]
fn a_damaged_copy_of_the_header_is_told_and_the_other_one_counts() {
    for damaged in [0, SEGMENT_HEADER_COPY_OFFSET as usize] {
        let mut bytes = segment();
        bytes[damaged + 9] ^= 1;
        let dump = dump_segment(&bytes);
        assert!(dump.contains(&format!("{damaged:08x}  no header: ")));
        assert!(dump.ends_with("00000490  end of file\n"), "{dump}");
    }
}

/// Goal: damaged files are dumped, not refused, and never make the dump panic. Method: every truncation and every
/// flipped bit of a small segment.
#[test]
fn damaged_files_are_dumped() {
    let whole = segment();
    for cut in 0..whole.len() {
        assert!(!dump_segment(&whole[..cut]).is_empty());
        assert!(!dump_manifest(&whole[..cut]).is_empty());
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!dump_segment(&damaged).is_empty());
    }
}

#[test]
fn long_fields_are_cut() {
    let mut dump = Dump::default();
    dump.field(0, &[0xab; 1000], "long");
    assert_eq!(dump.text.lines().count(), ROWS_MAX + 1);
    assert!(dump.text.ends_with("00000080  ... 872 bytes more\n"));
}
