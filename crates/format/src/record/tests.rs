use super::*;
use proptest::prelude::*;

type OwnedOp = (EntryKind, Vec<u8>, Vec<u8>, i64);

fn op() -> impl Strategy<Value = OwnedOp> {
    let bytes = |range| proptest::collection::vec(any::<u8>(), range);
    let expiry = prop_oneof![Just(0_i64), 1..i64::MAX];
    (1_u8..=5, bytes(1..40), bytes(0..200), expiry).prop_map(|(kind, key, value, expiry)| {
        let kind = EntryKind::from_byte(kind).expect("1 to 5 are kinds");
        let value = if has_value(kind) { value } else { Vec::new() };
        (kind, key, value, expiry)
    })
}

fn borrow(op: &OwnedOp) -> Op<'_> {
    Op {
        kind: op.0,
        key: &op.1,
        value: &op.2,
        expires_at: op.3,
    }
}

fn write_record(sections: &[(u32, Vec<OwnedOp>)]) -> Vec<u8> {
    let mut record = Vec::new();
    for (family, ops) in sections {
        let mut buffer = Vec::new();
        for op in ops {
            write_op(&mut buffer, &borrow(op));
        }
        let count = u32::try_from(ops.len()).expect("few");
        write_section_header(&mut record, FamilyId(*family), count, buffer.len() as u64);
        record.extend_from_slice(&buffer);
    }
    record
}

/// All of a record, or its first fault.
fn read_record(payload: &[u8]) -> Result<Vec<(u32, Vec<OwnedOp>)>, RecordFault> {
    let mut sections = Vec::new();
    for section in RecordReader::new(payload) {
        let section = section?;
        let mut ops = Vec::with_capacity(section.op_count as usize);
        for op in section.ops {
            let op = op?;
            ops.push((op.kind, op.key.to_vec(), op.value.to_vec(), op.expires_at));
        }
        assert_eq!(ops.len(), section.op_count as usize);
        sections.push((section.family.0, ops));
    }
    Ok(sections)
}

proptest! {
    #![proptest_config(crate::testing::config())]

    #[test]
    fn records_survive_a_round_trip(
        sections in proptest::collection::vec((any::<u32>(), proptest::collection::vec(op(), 1..6)), 0..4),
    ) {
        prop_assert_eq!(read_record(&write_record(&sections)), Ok(sections));
    }

    #[test]
    fn spans_show_where_key_and_value_lie(ops in proptest::collection::vec(op(), 1..6)) {
        let mut buffer = Vec::new();
        for op in &ops {
            let before = buffer.len();
            let span = write_op(&mut buffer, &borrow(op));
            prop_assert!(buffer.len() - before <= op_bytes_max(op.1.len(), op.2.len()));
            prop_assert_eq!(span.start, before);
            prop_assert_eq!(&buffer[span.key], &op.1[..]);
            prop_assert_eq!(&buffer[span.value], &op.2[..]);
            prop_assert_eq!(decode_op(&buffer[before..]), Ok((borrow(op), buffer.len() - before)));
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = read_record(&bytes);
    }
}

/// Goal: what cannot be the record that was written is refused, or reads as another record, but never panics or
/// reads beyond the end. Method: every truncation and every flipped bit. (Flips of keys and values are for the
/// frame's checksum to find.)
#[test]
fn truncations_are_refused_and_flips_are_survived() {
    let put = (EntryKind::Put, b"key".to_vec(), b"value".to_vec(), 5);
    let delete = (EntryKind::Delete, b"gone".to_vec(), Vec::new(), 0);
    let record = write_record(&[(0, vec![put, delete.clone()]), (70_000, vec![delete])]);
    let whole = read_record(&record).expect("just written");
    for cut in 1..record.len() {
        match read_record(&record[..cut]) {
            Ok(sections) => assert_eq!(sections[..], whole[..sections.len()]),
            Err(fault) => assert_eq!(fault, RecordFault::Truncated),
        }
    }
    for bit in 0..record.len() * 8 {
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let read = read_record(&damaged);
        assert!(read != Ok(whole.clone()), "bit {bit} changes nothing");
    }
}

#[test]
fn each_rule_has_its_fault() {
    let op = |bytes: &[u8]| decode_op(bytes).map(|_| ()).expect_err("refused");
    assert_eq!(op(&[]), RecordFault::Truncated);
    assert_eq!(op(&[0x00, 1, b'k']), RecordFault::UnknownKind(0x00));
    assert_eq!(op(&[0x12, 1, b'k']), RecordFault::UnknownKind(0x12));
    assert_eq!(op(&[0x02, 0]), RecordFault::EmptyKey);
    assert_eq!(
        op(&[0x82, 1, 0, 0, 0, 0, 0, 0, 0, 0, b'k']),
        RecordFault::Expiry(0)
    );
    let long_key = [0x02, 0x81, 0x80, 0x40];
    assert_eq!(op(&long_key), RecordFault::Truncated);
    let record = |bytes: &[u8]| read_record(bytes).expect_err("refused");
    assert_eq!(record(&[0, 2, 3, 2, 1, b'k']), RecordFault::Count);
    assert_eq!(
        record(&[0, 1, 6, 2, 1, b'k', 2, 1, b'k']),
        RecordFault::Count
    );
    assert_eq!(
        record(&[0, 2, 6, 1, 1, 2, b'k', b'v', b'v']),
        RecordFault::Count
    );
    let family = [0x80, 0x80, 0x80, 0x80, 0x10, 0, 0];
    assert_eq!(record(&family), RecordFault::Family(1 << 32));
}

#[test]
fn faults_say_what_they_are() {
    let texts = [
        (RecordFault::Truncated, "exceeds its limit"),
        (RecordFault::UnknownKind(0x7f), "operation 0x7f"),
        (RecordFault::EmptyKey, "without a key"),
        (RecordFault::Expiry(-5), "expiry -5"),
        (RecordFault::Family(1 << 40), "family id 1099511627776"),
        (RecordFault::Count, "contradict its length"),
        (RecordFault::Control, "control section"),
    ];
    for (fault, part) in texts {
        assert!(fault.to_string().contains(part), "{fault}");
    }
}
