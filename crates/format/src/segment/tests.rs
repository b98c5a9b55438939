use super::*;
use crate::{MANIFEST_VERSION, ManifestHeader};

const SEGMENT: SegmentHeader = SegmentHeader {
    segment: SegmentId(9),
    salt: 0x0123_4567_89ab_cdef,
    database: Some(DatabaseId(0x00112233_44556677_8899aabb_ccddeeff)),
    base: Lsn(1 << 20),
    bytes: 1 << 20,
};
const MANIFEST: ManifestHeader = ManifestHeader {
    number: 7,
    salt: 0xfedc_ba98_7654_3210,
    snapshot_bytes: 4096,
};

#[test]
fn headers_survive_a_round_trip() {
    assert_eq!(SegmentHeader::decode(&SEGMENT.encode()), Ok(SEGMENT));
    assert_eq!(ManifestHeader::decode(&MANIFEST.encode()), Ok(MANIFEST));
    let mut longer = SEGMENT.encode().to_vec();
    longer.extend_from_slice(b"frames");
    assert_eq!(SegmentHeader::decode(&longer), Ok(SEGMENT));
}

/// Goal: a header of an earlier version does not name a database. Method: what is written without one, and the bytes of
/// version 2, where something else stood.
#[test]
fn earlier_versions_name_no_database() {
    let without = SegmentHeader {
        database: None,
        ..SEGMENT
    };
    assert_eq!(SegmentHeader::decode(&without.encode()), Ok(without));
    let bytes = SEGMENT.encode();
    let body: [u8; BODY_BYTES] = crate::header::field(&bytes, 8);
    for version in 1..SEGMENT_VERSION_DATABASE {
        let bytes = encode_header(SEGMENT_MAGIC, version, &body);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(without));
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    let segment = SEGMENT.encode();
    let manifest = MANIFEST.encode();
    for cut in 0..SEGMENT_HEADER_BYTES {
        let fault = Err(HeaderFault::Truncated);
        assert_eq!(SegmentHeader::decode(&segment[..cut]), fault);
    }
    for bit in 0..SEGMENT_HEADER_BYTES * 8 {
        let flip = |mut bytes: [u8; 64]| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        assert!(matches!(
            SegmentHeader::decode(&flip(segment)),
            Err(HeaderFault::Checksum { .. })
        ));
        assert!(matches!(
            ManifestHeader::decode(&flip(manifest)),
            Err(HeaderFault::Checksum { .. })
        ));
    }
}

/// A file whose header has the copies `first` and `second`.
fn file(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT_FRAMES_OFFSET as usize];
    let copy = SEGMENT_HEADER_COPY_OFFSET as usize;
    bytes[..first.len()].copy_from_slice(first);
    bytes[copy..copy + second.len()].copy_from_slice(second);
    bytes
}

#[test]
fn one_whole_copy_of_the_header_is_enough() {
    let whole = SEGMENT.encode();
    let mut damaged = whole;
    damaged[9] ^= 1;
    let newer = encode_header(SEGMENT_MAGIC, SEGMENT_VERSION + 1, &[9; BODY_BYTES]);
    let either = |first: &[u8], second: &[u8]| SegmentHeader::decode_either(&file(first, second));
    assert_eq!(either(&whole, &whole), Ok(SEGMENT));
    assert_eq!(either(&whole, &damaged), Ok(SEGMENT));
    assert_eq!(either(&damaged, &whole), Ok(SEGMENT));
    assert_eq!(either(&[], &whole), Ok(SEGMENT));
    assert_eq!(either(&[], &damaged), Err(HeaderFault::Empty));
    assert!(matches!(
        either(&damaged, &[]),
        Err(HeaderFault::Checksum { .. })
    ));
    let refused = Err(HeaderFault::NewerVersion(SEGMENT_VERSION + 1));
    assert_eq!(either(&newer, &whole), refused);
    assert_eq!(either(&damaged, &newer), refused);
    assert_eq!(SegmentHeader::decode_either(&whole), Ok(SEGMENT));
    assert_eq!(
        SegmentHeader::decode_either(&damaged[..63]),
        Err(HeaderFault::Truncated)
    );
}

#[test]
fn one_kind_of_file_is_not_taken_for_another() {
    let malformed = HeaderFault::Malformed;
    assert_eq!(SegmentHeader::decode(&MANIFEST.encode()), Err(malformed));
    assert_eq!(ManifestHeader::decode(&SEGMENT.encode()), Err(malformed));
    assert_eq!(SegmentHeader::decode(&[0; 64]), Err(HeaderFault::Empty));
}

#[test]
fn newer_versions_are_refused_by_name() {
    for version in [SEGMENT_VERSION.max(MANIFEST_VERSION) + 1, 9, u32::MAX] {
        let newer = Err(HeaderFault::NewerVersion(version));
        let bytes = encode_header(SEGMENT_MAGIC, version, &[9; BODY_BYTES]);
        assert_eq!(SegmentHeader::decode(&bytes), newer);
        let bytes = encode_header(*b"KTMF", version, &[9; BODY_BYTES]);
        assert_eq!(ManifestHeader::decode(&bytes).map(|_| SEGMENT), newer);
    }
    let bytes = encode_header(SEGMENT_MAGIC, 0, &[9; BODY_BYTES]);
    assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Malformed));
}

#[test]
fn impossible_fields_are_malformed() {
    let short = SegmentHeader {
        bytes: SEGMENT_FRAMES_OFFSET - 1,
        ..SEGMENT
    };
    assert_eq!(
        SegmentHeader::decode(&short.encode()),
        Err(HeaderFault::Malformed)
    );
    let bytes = encode_header(*b"KTMF", 1, &[9; BODY_BYTES]);
    assert_eq!(ManifestHeader::decode(&bytes), Err(HeaderFault::Malformed));
}
