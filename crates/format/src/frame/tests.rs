use super::*;
use kingtide_collections::pack;
use proptest::prelude::*;

const SALT: u64 = 0x5eed_5eed_5eed_5eed;

fn header(kind: FrameKind, payload: &[u8]) -> FrameHeader {
    FrameHeader {
        payload_bytes: u32::try_from(payload.len()).expect("short"),
        kind,
        is_packed: false,
        sequence: SeqNo(77),
        durable: Lsn(4096),
    }
}

fn frame(payload: &[u8], position: Lsn) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_frame(
        &mut bytes,
        &header(FrameKind::Commit, payload),
        payload,
        SALT,
        position,
    );
    bytes
}

fn kind() -> impl Strategy<Value = FrameKind> {
    (1_u8..=7).prop_map(|byte| FrameKind::from_byte(byte).expect("1 to 7 are kinds"))
}

proptest! {
    #![proptest_config(crate::testing::config())]

    #[test]
    fn frames_survive_a_round_trip(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        kind in kind(), sequence: u64, durable: u64, salt: u64, position: u64,
    ) {
        let header = FrameHeader {
            payload_bytes: payload.len() as u32,
            kind,
            is_packed: false,
            sequence: SeqNo(sequence),
            durable: Lsn(durable),
        };
        let mut bytes = Vec::new();
        push_frame(&mut bytes, &header, &payload, salt, Lsn(position));
        prop_assert_eq!(bytes.len(), frame_bytes(payload.len()));
        prop_assert_eq!(bytes.len() % FRAME_ALIGN, 0);
        bytes.extend_from_slice(&[0xee; 20]);
        let frame = decode_frame(&bytes, salt, Lsn(position)).expect("just written");
        prop_assert_eq!(frame.header, header);
        prop_assert_eq!(frame.payload, &payload[..]);
        prop_assert_eq!(frame.bytes, frame_bytes(payload.len()));
        prop_assert_eq!(decode_frame_header(&bytes[..32], salt, Lsn(position)), Ok(header));
    }

    #[test]
    fn packed_payloads_come_back(
        parts in proptest::collection::vec((any::<u8>(), 1_usize..400), 1..20), random: u64,
    ) {
        let mut payload = random.to_le_bytes().to_vec();
        for (byte, count) in parts {
            payload.resize(payload.len() + count, byte);
        }
        let mut packed = vec![0; payload.len() + payload.len() / 8 + 64];
        let bytes = pack(&payload, &mut packed).expect("there is room");
        let packed = &packed[..bytes];
        let short = pack(&payload, &mut vec![0; bytes - 1]);
        prop_assert!(short.is_none(), "too little room");
        let header = FrameHeader { is_packed: true, ..header(FrameKind::PartMiddle, packed) };
        let mut framed = Vec::new();
        push_frame(&mut framed, &header, packed, SALT, Lsn(32));
        let frame = decode_frame(&framed, SALT, Lsn(32)).expect("just written");
        prop_assert_eq!(frame.header, header);
        let mut scratch = vec![1; 3];
        prop_assert_eq!(frame.unpacked(&mut scratch), Ok(&payload[..]));
        for cut in 0..bytes {
            let frame = Frame { payload: &packed[..cut], ..frame };
            prop_assert!(frame.unpacked(&mut scratch).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode_frame(&bytes, SALT, Lsn(0)).is_err());
    }
}

/// Goal: no damage goes unseen. Method: every truncation and every flipped bit of a frame with padding; what is not
/// refused must decode to the same frame, and that may happen in the padding only.
#[test]
fn every_truncation_and_every_flipped_bit_is_refused_or_harmless() {
    let payload = b"twenty-one byte load.";
    let position = Lsn(640);
    let whole = frame(payload, position);
    let original = decode_frame(&whole, SALT, position).expect("just written");
    for cut in 0..whole.len() {
        assert_eq!(
            decode_frame(&whole[..cut], SALT, position),
            Err(FrameFault::Truncated)
        );
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let is_padding = bit / 8 >= FRAME_HEADER_BYTES + payload.len();
        match decode_frame(&damaged, SALT, position) {
            Ok(frame) => {
                assert!(is_padding, "bit {bit} changes nothing");
                assert_eq!(frame, original);
            }
            Err(fault) => assert!(!is_padding && matches!(fault, FrameFault::Checksum { .. })),
        }
    }
}

#[test]
fn a_frame_is_valid_in_one_place_only() {
    let whole = frame(b"payload", Lsn(640));
    assert!(decode_frame(&whole, SALT, Lsn(640)).is_ok());
    for (salt, position) in [(SALT, 656), (SALT, 0), (SALT + 1, 640)] {
        let fault = decode_frame(&whole, salt, Lsn(position)).expect_err("another place");
        assert!(matches!(fault, FrameFault::Checksum { .. }));
        assert_ne!(fault.checksums().0, fault.checksums().1);
    }
}

#[test]
fn zeros_are_empty_and_unknown_kinds_are_malformed() {
    assert_eq!(decode_frame(&[0; 64], SALT, Lsn(0)), Err(FrameFault::Empty));
    let mut head = encode_frame_header(
        &header(FrameKind::Mark, b""),
        payload_hash(b""),
        SALT,
        Lsn(0),
    );
    // Marks, edits and segment ends are never packed.
    for kind in [8, 2 | PACKED, 6 | PACKED, 7 | PACKED, 0x40 | 1] {
        head[KIND_OFFSET] = kind;
        reseal(&mut head);
        assert_eq!(
            decode_frame(&head, SALT, Lsn(0)),
            Err(FrameFault::Malformed)
        );
    }
    head[KIND_OFFSET] = 1;
    head[PAYLOAD_BYTES_OFFSET..KIND_OFFSET]
        .copy_from_slice(&(FRAME_PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes());
    reseal(&mut head);
    assert_eq!(
        decode_frame(&head, SALT, Lsn(0)),
        Err(FrameFault::Malformed)
    );
}

/// Goal: a forged length of a packed payload is refused before memory is taken for it. Method: lengths beyond what the bytes
/// can hold, and beyond what a frame may.
#[test]
fn impossible_lengths_of_packed_payloads_are_refused() {
    let header = FrameHeader {
        is_packed: true,
        ..header(FrameKind::Commit, b"")
    };
    for length in [u32::MAX, FRAME_PAYLOAD_BYTES_MAX as u32 + 1, 255 * 8 + 1] {
        let mut payload = length.to_le_bytes().to_vec();
        payload.extend_from_slice(&[0; 8]);
        let frame = Frame {
            header,
            payload: &payload,
            bytes: frame_bytes(payload.len()),
        };
        let mut scratch = Vec::new();
        assert!(frame.unpacked(&mut scratch).is_err(), "{length}");
        assert_eq!(scratch.capacity(), 0);
    }
}

/// Makes the header check of a forged header at position 0 match.
fn reseal(head: &mut [u8; FRAME_HEADER_BYTES]) {
    let hash = header_hash(head, SALT, Lsn(0));
    head[CHECK_OFFSET..SEQUENCE_OFFSET].copy_from_slice(&hash.to_le_bytes()[..3]);
}

#[test]
fn a_frame_behind_a_damaged_stretch_is_found() {
    let mut bytes = frame(b"damaged", Lsn(64));
    bytes[FRAME_HEADER_BYTES] ^= 1;
    let offset = bytes.len();
    bytes.extend_from_slice(&frame(b"whole", Lsn(64 + offset as u64)));
    let (found, frame) = find_frame(&bytes, SALT, Lsn(64)).expect("one is whole");
    assert_eq!(found, offset);
    assert_eq!(frame.payload, b"whole");
    assert_eq!(find_frame(&bytes[..offset], SALT, Lsn(64)), None);
    assert_eq!(find_frame(&bytes, SALT, Lsn(80)), None);
    assert_eq!(find_frame(&bytes, SALT, Lsn(u64::MAX)), None);
}
