use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
enum Owned {
    ForUpdate(Vec<u8>),
    Read(Vec<u8>),
    ReadRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

fn borrow(lock: &Owned) -> Lock<'_> {
    match lock {
        Owned::ForUpdate(key) => Lock::ForUpdate(key),
        Owned::Read(key) => Lock::Read(key),
        Owned::ReadRange(lower, upper) => Lock::ReadRange(
            lower.as_ref().map(Vec::as_slice),
            upper.as_ref().map(Vec::as_slice),
        ),
    }
}

fn own(lock: Lock<'_>) -> Owned {
    match lock {
        Lock::ForUpdate(key) => Owned::ForUpdate(key.to_vec()),
        Lock::Read(key) => Owned::Read(key.to_vec()),
        Lock::ReadRange(lower, upper) => {
            Owned::ReadRange(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec))
        }
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..20)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..20);
    (0..3, bytes).prop_map(|(kind, bytes)| match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(bytes),
        _ => Bound::Excluded(bytes),
    })
}

fn lock() -> impl Strategy<Value = Owned> {
    prop_oneof![
        key().prop_map(Owned::ForUpdate),
        key().prop_map(Owned::Read),
        (bound(), bound()).prop_map(|(lower, upper)| Owned::ReadRange(lower, upper)),
    ]
}

fn write_locks(sections: &[(u32, Vec<Owned>)]) -> Vec<u8> {
    let mut target = Vec::new();
    for (family, locks) in sections {
        let mut bytes = Vec::new();
        for lock in locks {
            write_lock(&mut bytes, &borrow(lock));
        }
        let count = u32::try_from(locks.len()).expect("few");
        write_lock_section(&mut target, FamilyId(*family), count, &bytes);
    }
    target
}

fn read_locks(sections: LockSections<'_>) -> Result<Vec<(u32, Vec<Owned>)>, RecordFault> {
    let mut read = Vec::new();
    for section in sections {
        let (family, locks) = section?;
        let locks: Result<Vec<_>, _> = locks.map(|lock| lock.map(own)).collect();
        read.push((family.0, locks?));
    }
    Ok(read)
}

proptest! {
    #![proptest_config(crate::testing::config())]

    #[test]
    fn prepares_survive_a_round_trip(
        xid in proptest::collection::vec(any::<u8>(), 1..=XID_BYTES_MAX),
        isolation in any::<u8>(),
        prepared_at in any::<u64>(),
        sections in proptest::collection::vec((0..1000_u32, proptest::collection::vec(lock(), 0..6)), 0..4),
        rest in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut payload = Vec::new();
        write_prepare(&mut payload, &xid, (isolation, prepared_at), &write_locks(&sections));
        payload.extend_from_slice(&rest);
        let (control, found) = split_control(&payload).expect("it was written so");
        prop_assert_eq!(found, rest.as_slice());
        let Some(Control::Prepare(prepare)) = control else {
            panic!("another control section: {control:?}");
        };
        prop_assert_eq!(prepare.xid, xid.as_slice());
        prop_assert_eq!((prepare.isolation, prepare.prepared_at), (isolation, prepared_at));
        prop_assert_eq!(read_locks(prepare.locks).expect("it was written so"), sections);
    }

    /// Any bytes are read to an end without a panic, whatever the answer.
    #[test]
    fn readers_are_total(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), as_control in any::<bool>()) {
        if as_control {
            let mut payload = Vec::new();
            write_head(&mut payload, bytes.len());
            payload.append(&mut bytes);
            bytes = payload;
        }
        if let Ok((Some(Control::Prepare(prepare)), _)) = split_control(&bytes) {
            let _ = read_locks(prepare.locks);
        }
    }
}

#[test]
fn outcomes_survive_a_round_trip() {
    let mut payload = Vec::new();
    write_prepared_commit(&mut payload, b"x1");
    payload.extend_from_slice(b"sections");
    let (control, rest) = split_control(&payload).expect("a commit");
    assert!(matches!(control, Some(Control::Commit(b"x1"))));
    assert_eq!(rest, b"sections");
    let mut payload = Vec::new();
    write_prepared_rollback(&mut payload, b"x2");
    let (control, rest) = split_control(&payload).expect("a rollback");
    assert!(matches!(control, Some(Control::Rollback(b"x2"))));
    assert!(rest.is_empty());
}

#[test]
fn ordinary_records_have_no_control_section() {
    for payload in [&b""[..], b"\x00\x01\x03\x02\x01a", b"\xac\x02\x00\x00"] {
        let (control, rest) = split_control(payload).expect("ordinary");
        assert!(control.is_none());
        assert_eq!(rest, payload);
    }
}

#[test]
fn malformed_control_sections_are_refused() {
    let body = |body: &[u8], count: u64| {
        let mut payload = Vec::new();
        write_varint(&mut payload, u64::from(CONTROL_FAMILY.0));
        write_varint(&mut payload, count);
        write_bytes(&mut payload, body);
        payload
    };
    let fault = |payload: &[u8]| split_control(payload).map(drop).expect_err("malformed");
    assert_eq!(fault(&body(&[COMMIT, 1, b'x'], 1)), RecordFault::Control);
    assert_eq!(fault(&body(&[COMMIT, 0], 0)), RecordFault::Control);
    assert_eq!(fault(&body(&[4, 1, b'x'], 0)), RecordFault::Control);
    assert_eq!(fault(&body(&[COMMIT, 1, b'x', 0], 0)), RecordFault::Control);
    assert_eq!(fault(&body(&[COMMIT, 2, b'x'], 0)), RecordFault::Truncated);
    assert_eq!(
        fault(&body(&[PREPARE, 1, b'x', 0], 0)),
        RecordFault::Truncated
    );
    let mut long = vec![COMMIT, 129];
    long.resize(2 + 129, b'x');
    assert_eq!(fault(&body(&long, 0)), RecordFault::Control);
    let mut rolled_back = body(&[ROLLBACK, 1, b'x'], 0);
    rolled_back.push(0);
    assert_eq!(fault(&rolled_back), RecordFault::Control);
}

/// Goal: a reader of before control sections refuses them. Method: what that reader did is what `RecordReader` does
/// with a section whose count contradicts its bytes; here also the id alone is refused.
#[test]
fn a_control_section_is_no_ordinary_section() {
    let mut payload = Vec::new();
    write_prepared_rollback(&mut payload, b"x");
    let first = crate::RecordReader::new(&payload)
        .next()
        .expect("something");
    assert_eq!(
        first.map(drop),
        Err(RecordFault::Family(u64::from(u32::MAX)))
    );
}

#[test]
fn malformed_locks_are_refused() {
    let fault = |family: u32, count: u32, locks: &[u8]| {
        let mut sections = Vec::new();
        write_lock_section(&mut sections, FamilyId(family), count, locks);
        let mut payload = Vec::new();
        write_prepare(&mut payload, b"x", (1, 2), &sections);
        let Ok((Some(Control::Prepare(prepare)), _)) = split_control(&payload) else {
            panic!("it was written so");
        };
        read_locks(prepare.locks).expect_err("malformed")
    };
    let key = [FOR_UPDATE, 1, b'k'];
    assert_eq!(
        fault(CONTROL_FAMILY.0, 1, &key),
        RecordFault::Family(u64::from(CONTROL_FAMILY.0))
    );
    // More locks than bytes, fewer locks than bytes, more than there are.
    assert_eq!(fault(1, 1000, &key), RecordFault::Count);
    assert_eq!(fault(1, 0, &key), RecordFault::Count);
    assert_eq!(
        fault(1, 2, &[READ_RANGE, READ_RANGE, READ_RANGE]),
        RecordFault::Count
    );
    assert_eq!(fault(1, 1, &[FOR_UPDATE, 0]), RecordFault::EmptyKey);
    assert_eq!(fault(1, 1, &[FOR_UPDATE, 9, b'k']), RecordFault::Truncated);
    // Bits that no lock has, and a bound of no kind.
    assert_eq!(
        fault(1, 1, &[FOR_UPDATE | 1 << LOWER_SHIFT, 1, b'k']),
        RecordFault::Control
    );
    assert_eq!(
        fault(1, 1, &[READ_RANGE | 3 << LOWER_SHIFT, 1, b'k']),
        RecordFault::Control
    );
    assert_eq!(
        fault(1, 1, &[READ_RANGE | 3 << UPPER_SHIFT, 1, b'k']),
        RecordFault::Control
    );
}
