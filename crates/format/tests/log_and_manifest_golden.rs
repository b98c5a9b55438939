//! Goal: the bytes of a log segment and of a manifest stay what they are in testdata/format-v1. Method: build a small
//! file of each kind, compare bytes and annotated dump with the golden files. `KINGTIDE_BLESS=1` rewrites them, which
//! is right only together with a new format version and its page in docs/formats.

use std::{env, fs, ops::Bound, path::PathBuf};

use kingtide_base::{DatabaseId, EntryKind, FamilyId, FileId, Lsn, SegmentId, SeqNo};
use kingtide_format::{
    Edit, FrameHeader, FrameKind, HeaderFault, Lock, MANIFEST_HEADER_BYTES, MANIFEST_VERSION,
    ManifestHeader, OldestTombstone, Op, SEGMENT_FRAMES_OFFSET, SEGMENT_HEADER_COPY_OFFSET,
    SEGMENT_VERSION, SegmentHeader, TableMeta, ValueFileMeta, ValueFileUse, decode_frame,
    dump_manifest, dump_segment, encode_edits, push_frame, write_lock, write_lock_section,
    write_op, write_prepare, write_prepared_commit, write_prepared_rollback, write_section_header,
};

const SALT: u64 = 0x7469_6465_7469_6465;
const DATABASE: DatabaseId = DatabaseId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/format-v1")
        .join(name)
}

/// Compares `bytes` with the golden file `name`, or replaces it when blessing.
fn check(name: &str, bytes: &[u8]) {
    let path = golden(name);
    if env::var_os("KINGTIDE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, bytes).expect("testdata is writable when blessing");
    }
    let expected = fs::read(&path).unwrap_or_default();
    assert!(
        expected == bytes,
        "{name} has changed; the format may not without a new version. Now:\n{}",
        String::from_utf8_lossy(bytes)
    );
}

/// A file under construction: frames at the position that follows from where they stand.
struct Frames {
    bytes: Vec<u8>,
    /// Where the first frame begins in the file, and its position.
    start: usize,
    base: u64,
    durable: Lsn,
}

impl Frames {
    fn push(&mut self, kind: FrameKind, sequence: u64, payload: &[u8]) {
        self.push_frame(kind, false, sequence, payload);
    }

    fn push_frame(&mut self, kind: FrameKind, is_packed: bool, sequence: u64, payload: &[u8]) {
        let position = self.position();
        let header = FrameHeader {
            is_packed,
            payload_bytes: u32::try_from(payload.len()).expect("golden payloads are short"),
            kind,
            sequence: SeqNo(sequence),
            durable: self.durable,
        };
        push_frame(&mut self.bytes, &header, payload, SALT, position);
    }

    fn position(&self) -> Lsn {
        Lsn(self.base + (self.bytes.len() - self.start) as u64)
    }
}

fn section(record: &mut Vec<u8>, family: u32, ops: &[Op<'_>]) {
    let mut buffer = Vec::new();
    for op in ops {
        write_op(&mut buffer, op);
    }
    let count = u32::try_from(ops.len()).expect("few");
    write_section_header(record, FamilyId(family), count, buffer.len() as u64);
    record.extend_from_slice(&buffer);
}

const fn op<'a>(kind: EntryKind, key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op {
        kind,
        key,
        value,
        expires_at: 0,
    }
}

/// A commit over two families, one in three parts, a mark, the end of the segment, and an unused rest.
fn segment() -> Vec<u8> {
    let header = SegmentHeader {
        segment: SegmentId(3),
        salt: SALT,
        database: Some(DATABASE),
        base: Lsn(2048),
        bytes: 1536,
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(SEGMENT_HEADER_COPY_OFFSET as usize, 0);
    bytes.extend_from_slice(&header.encode());
    bytes.resize(SEGMENT_FRAMES_OFFSET as usize, 0);
    let mut frames = Frames {
        start: bytes.len(),
        bytes,
        base: header.base.0,
        durable: Lsn(2048),
    };
    let mut record = Vec::new();
    let expiring = Op {
        expires_at: 1_900_000_000,
        ..op(EntryKind::Put, b"berth", b"12")
    };
    let default = [op(EntryKind::Put, b"harbour", b"open"), expiring];
    section(&mut record, 0, &default);
    let gone = [
        op(EntryKind::Delete, b"ebb", b""),
        op(EntryKind::SingleDelete, b"neap", b""),
    ];
    section(&mut record, 300, &gone);
    frames.push(FrameKind::Commit, 41, &record);
    let mut record = Vec::new();
    section(&mut record, 0, &[op(EntryKind::Put, b"k", &[b'v'; 40])]);
    frames.push(FrameKind::PartFirst, 42, &record[..20]);
    frames.push(FrameKind::PartMiddle, 42, &record[20..40]);
    frames.push(FrameKind::PartLast, 42, &record[40..]);
    frames.durable = frames.position();
    frames.push(FrameKind::Mark, 42, b"");
    frames.push(FrameKind::SegmentEnd, 42, b"");
    frames.bytes.resize(1536, 0);
    frames.bytes
}

/// The head of a segment of 2048 bytes.
fn begin_segment(segment: u64, base: u64) -> Frames {
    let header = SegmentHeader {
        segment: SegmentId(segment),
        salt: SALT,
        database: Some(DATABASE),
        base: Lsn(base),
        bytes: 2048,
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(SEGMENT_HEADER_COPY_OFFSET as usize, 0);
    bytes.extend_from_slice(&header.encode());
    bytes.resize(SEGMENT_FRAMES_OFFSET as usize, 0);
    Frames {
        start: bytes.len(),
        bytes,
        base: header.base.0,
        durable: Lsn(base),
    }
}

/// A record whose value is 40 times `v`, and it packed: its length, eight literals, a match with the byte before, and five
/// literals.
fn packed_record() -> (Vec<u8>, Vec<u8>) {
    let mut record = Vec::new();
    section(&mut record, 0, &[op(EntryKind::Put, b"k", &[b'v'; 40])]);
    let mut packed = (record.len() as u32).to_le_bytes().to_vec();
    packed.push(8 << 4 | 15);
    packed.extend_from_slice(&record[..8]);
    packed.extend_from_slice(&[1, 0, 34 - 4 - 15]);
    packed.push(5 << 4);
    packed.extend_from_slice(b"vvvvv");
    (record, packed)
}

/// Packed frames: a whole record, and one in parts of which the last is packed.
fn packed_segment() -> Vec<u8> {
    let mut frames = begin_segment(5, 8192);
    let (record, packed) = packed_record();
    frames.push_frame(FrameKind::Commit, true, 44, &packed);
    frames.push(FrameKind::PartFirst, 45, &record);
    frames.push_frame(FrameKind::PartLast, true, 45, &packed);
    frames.bytes.resize(2048, 0);
    frames.bytes
}

/// Two-phase commit: a prepare with every kind of lock, its commit, another prepare and its rollback.
fn prepared_segment() -> Vec<u8> {
    let mut frames = begin_segment(4, 4096);
    let mut held = Vec::new();
    write_lock(&mut held, &Lock::ForUpdate(b"berth"));
    write_lock(&mut held, &Lock::Read(b"harbour"));
    let range = Lock::ReadRange(Bound::Included(b"ebb"), Bound::Excluded(b"flood"));
    write_lock(&mut held, &range);
    write_lock(
        &mut held,
        &Lock::ReadRange(Bound::Excluded(b"neap"), Bound::Unbounded),
    );
    let mut locks = Vec::new();
    write_lock_section(&mut locks, FamilyId(7), 4, &held);
    let mut record = Vec::new();
    write_prepare(&mut record, b"order 17", (4, 1_900_000_000_000_000), &locks);
    let mut operations = Vec::new();
    let range = op(EntryKind::RangeDelete, b"spring", b"tide");
    section(
        &mut operations,
        300,
        &[op(EntryKind::Put, b"ebb", b"17:40"), range],
    );
    record.extend_from_slice(&operations);
    frames.push(FrameKind::Commit, 42, &record);
    let mut record = Vec::new();
    write_prepared_commit(&mut record, b"order 17");
    record.extend_from_slice(&operations);
    frames.push(FrameKind::Commit, 43, &record);
    let mut record = Vec::new();
    write_prepare(&mut record, b"order 18", (1, 1_900_000_000_000_001), &[]);
    section(&mut record, 0, &[op(EntryKind::Delete, b"neap", b"")]);
    frames.push(FrameKind::Commit, 43, &record);
    let mut record = Vec::new();
    write_prepared_rollback(&mut record, b"order 18");
    frames.push(FrameKind::Commit, 43, &record);
    frames.bytes.resize(2048, 0);
    frames.bytes
}

fn table(file: u64, smallest: &[u8], largest: &[u8]) -> TableMeta {
    TableMeta {
        file: FileId(file),
        file_bytes: 8192,
        footer_checksum: 0x0102_0304_0506_0708,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        sequence_min: SeqNo(1),
        sequence_max: SeqNo(40),
        sequence_base: SeqNo::ZERO,
        entries: 100,
        tombstones: 3,
        oldest_tombstone: OldestTombstone::default(),
        range_deletes: 0,
        is_largest_excluded: false,
        raw_bytes: 20_000,
        value_files: vec![ValueFileUse {
            file: FileId(5),
            records: 10,
            bytes: 10_240,
        }],
    }
}

/// Every kind of edit, in an order that makes sense.
fn batches() -> [Vec<Edit>; 2] {
    let family = FamilyId(1);
    let snapshot = vec![
        Edit::Identity(DATABASE),
        Edit::NextFileId(FileId(9)),
        Edit::NextFamilyId(FamilyId(3)),
        Edit::LogStart {
            segment: SegmentId(3),
            sequence: SeqNo(40),
            position: Lsn(2048),
        },
        Edit::LogDurable(Lsn(2048)),
        Edit::AddValueFile(ValueFileMeta {
            file: FileId(5),
            file_bytes: 12_288,
            footer_checksum: 0x1112_1314_1516_1718,
            records: 10,
        }),
        Edit::AddFamily {
            id: family,
            name: "tides".to_owned(),
            options: vec![("sync".to_owned(), "full".to_owned())],
        },
        Edit::FlushedThrough {
            family,
            sequence: SeqNo(40),
        },
        Edit::AddTable {
            family,
            level: 1,
            meta: table(6, b"ebb", b"neap"),
        },
    ];
    let changes = vec![
        Edit::MoveTable {
            family,
            from: 1,
            to: 2,
            file: FileId(6),
        },
        Edit::RemoveTable {
            family,
            level: 2,
            file: FileId(6),
        },
        Edit::RemoveValueFile(FileId(5)),
        Edit::SetFamilyOptions {
            id: family,
            options: Vec::new(),
        },
        Edit::RenameFamily {
            id: family,
            name: "currents".to_owned(),
        },
        Edit::DropFamily { id: family },
    ];
    [snapshot, changes]
}

/// A snapshot, one batch of changes, and the mark that witnesses it.
fn manifest() -> Vec<u8> {
    let mut frames = Frames {
        bytes: vec![0; MANIFEST_HEADER_BYTES],
        start: MANIFEST_HEADER_BYTES,
        base: MANIFEST_HEADER_BYTES as u64,
        durable: Lsn(0),
    };
    let [snapshot, changes] = batches();
    frames.push(FrameKind::Edit, 1, &encode_edits(&snapshot));
    let header = ManifestHeader {
        number: 7,
        salt: SALT,
        snapshot_bytes: (frames.bytes.len() - MANIFEST_HEADER_BYTES) as u64,
    };
    frames.bytes[..MANIFEST_HEADER_BYTES].copy_from_slice(&header.encode());
    frames.durable = frames.position();
    frames.push(FrameKind::Edit, 2, &encode_edits(&changes));
    frames.durable = frames.position();
    frames.push(FrameKind::Mark, 2, b"");
    frames.bytes
}

#[test]
fn a_log_segment_is_what_it_was() {
    let bytes = segment();
    check("segment.txt", dump_segment(&bytes).as_bytes());
    check("segment.wal", &bytes);
}

#[test]
fn a_log_segment_of_two_phase_commit_is_what_it_was() {
    let bytes = prepared_segment();
    check("prepared.txt", dump_segment(&bytes).as_bytes());
    check("prepared.wal", &bytes);
    let bytes = packed_segment();
    check("packed.txt", dump_segment(&bytes).as_bytes());
    check("packed.wal", &bytes);
}

/// Goal: what a packed frame holds is the record. Method: the golden file's first frame.
#[test]
fn a_packed_frame_holds_its_record() {
    let bytes = fs::read(golden("packed.wal")).expect("the golden file");
    let frames = &bytes[SEGMENT_FRAMES_OFFSET as usize..];
    let frame = decode_frame(frames, SALT, Lsn(8192)).expect("it is whole");
    let mut scratch = Vec::new();
    assert_eq!(frame.unpacked(&mut scratch), Ok(&packed_record().0[..]));
}

#[test]
fn a_manifest_is_what_it_was() {
    let bytes = manifest();
    check("manifest.txt", dump_manifest(&bytes).as_bytes());
    check("MANIFEST-000007", &bytes);
}

/// A file of the next version, as that version must write it to be recognised: same magic, place and checksum.
#[test]
fn newer_golden_files_are_refused_as_newer() {
    for (name, bytes) in [("segment", segment()), ("manifest", manifest())] {
        let mut newer = bytes;
        let version = if name == "segment" {
            SEGMENT_VERSION + 1
        } else {
            MANIFEST_VERSION + 1
        };
        newer[4..8].copy_from_slice(&version.to_le_bytes());
        let sum = kingtide_base::checksum(&newer[..56], 0);
        newer[56..64].copy_from_slice(&sum.to_le_bytes());
        let fault = match name {
            "segment" => SegmentHeader::decode(&newer).expect_err("newer"),
            _ => ManifestHeader::decode(&newer).expect_err("newer"),
        };
        assert_eq!(fault, HeaderFault::NewerVersion(version));
        assert!(dump_segment(&newer).starts_with("no segment: "));
    }
}

/// Goal: segments that earlier versions wrote are read as they were. Method: the golden files of then, which differ in their
/// headers only.
#[test]
fn segments_of_earlier_versions_are_read() {
    for version in 1..SEGMENT_VERSION as u8 {
        let name = &format!("segment-version-{version}.wal");
        let old = fs::read(golden(name)).expect("the golden file");
        let header = SegmentHeader::decode_either(&old).expect("an intact header");
        let expected = SegmentHeader {
            database: (version > 2).then_some(DATABASE),
            ..SegmentHeader::decode(&segment()).expect("the same")
        };
        assert_eq!(header, expected);
        assert_eq!(old[4], version);
        let frames = SEGMENT_FRAMES_OFFSET as usize;
        assert_eq!(old[frames..], segment()[frames..]);
    }
}

/// Goal: a manifest that version 1 wrote is read as it was. Method: the golden file of then, which has no identity.
#[test]
fn a_manifest_of_version_1_is_read() {
    let old = fs::read(golden("MANIFEST-version-1")).expect("the golden file");
    assert_eq!(old[4], 1);
    let header = ManifestHeader::decode(&old).expect("an intact header");
    assert_eq!((header.number, header.salt), (7, SALT));
    let dump = dump_manifest(&old);
    assert!(dump.contains("AddFamily") && !dump.contains("Identity"));
}

/// Goal: the worked examples in docs/formats are true. Method: each run of hex between two `..` of a page must stand in
/// the golden file.
#[test]
fn the_worked_examples_are_parts_of_the_golden_files() {
    for (page, file) in [
        ("wal.md", "segment.wal"),
        ("manifest.md", "MANIFEST-000007"),
    ] {
        let text = fs::read_to_string(golden("../../docs/formats").join(page)).expect("the page");
        let golden = fs::read(golden(file)).expect("the golden file");
        let (_, example) = text
            .split_once("```hex\n")
            .expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let mut run_count = 0;
        for run in example.split("..") {
            let hex = run.lines().filter_map(|line| line.split('|').next());
            let bytes: Vec<u8> = hex
                .flat_map(str::split_whitespace)
                .map(|byte| u8::from_str_radix(byte, 16).expect("hex"))
                .collect();
            assert!(
                golden.windows(bytes.len()).any(|part| part == bytes),
                "{page}: {run}"
            );
            run_count += 1;
        }
        assert!(run_count > 0);
    }
}
