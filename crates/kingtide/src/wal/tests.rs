//! The log as a whole, written by a tail and read by replay, in the world in memory and on a real file system.

use std::{io, path::Path, sync::Arc};

use kingtide_base::{DatabaseId, Lsn, SegmentId, SeqNo, StorageError, StorageResult, limits};
use kingtide_env::{
    CrashImage, Directory, Env, FaultyEnv, MemoryEnv, OpenMode, Operation, PosixEnv, Rule, Times,
};
use kingtide_format::frame_bytes;
use kingtide_testkit::Random;

use super::*;

const DATABASE: DatabaseId = DatabaseId(1);
const DIRECTORY: &str = "/db/wal";
const IMAGES: [CrashImage; 4] = [
    CrashImage::NothingUnsynced,
    CrashImage::Everything,
    CrashImage::Random,
    CrashImage::AllButOne,
];

/// What replay handed out.
#[derive(Default)]
pub(super) struct Replayed(pub(super) Vec<(SeqNo, Vec<u8>)>);

impl Replay for Replayed {
    fn record(
        &mut self,
        sequence: SeqNo,
        payload: &[u8],
        _place: (&str, u64),
    ) -> StorageResult<()> {
        self.0.push((sequence, payload.to_vec()));
        Ok(())
    }
}

/// A record as it was appended.
pub(super) struct Written {
    /// The segment that was current, and where the log ended, before.
    segment: SegmentId,
    pub(super) start: Lsn,
    payload: Vec<u8>,
}

/// A log under test. Segments are as small as they may be.
pub(super) struct Log {
    /// Gives the salts: the same in every run.
    random: MemoryEnv,
    directory: Arc<dyn Directory>,
    pub(super) tail: Tail,
    next_slot: u64,
    pub(super) written: Vec<Written>,
    durable: Lsn,
    /// Records before the last sync.
    synced: usize,
    uses_windows: bool,
    /// Every other record is packed, if that saves anything.
    packs: bool,
}

impl Log {
    pub(super) fn begin(directory: Arc<dyn Directory>) -> Self {
        let random = MemoryEnv::new(77);
        let blank = Blank::create(&random, directory.as_ref(), 1, 0, false).expect("there is room");
        let tail =
            Tail::begin(blank, SegmentId(1), Lsn(0), DATABASE).expect("the header is written");
        Self {
            random,
            directory,
            tail,
            next_slot: 2,
            written: Vec::new(),
            durable: Lsn(0),
            synced: 0,
            uses_windows: false,
            packs: false,
        }
    }

    pub(super) fn in_memory() -> (MemoryEnv, Self) {
        let env = MemoryEnv::new(1);
        let log = Self::begin(directory(&env));
        (env, log)
    }

    /// Adds a blank that holds any frame of up to `bytes`.
    pub(super) fn add_blank(&mut self, bytes: u64) {
        let blank = Blank::create(
            &self.random,
            self.directory.as_ref(),
            self.next_slot,
            bytes,
            false,
        );
        self.next_slot += 1;
        self.tail.add_blank(blank.expect("there is room"));
    }

    pub(super) fn append(&mut self, payload: Vec<u8>) {
        let mut buffer = vec![0; HEADROOM_BYTES];
        buffer.extend_from_slice(&payload);
        let mut frames = RecordFrames::default();
        let record = HEADROOM_BYTES..buffer.len();
        match self.packs && self.written.len() % 2 == 1 {
            true => frames.prepare_packed(&buffer, record),
            false => frames.prepare(&buffer, record),
        }
        while !self.tail.has_room(&frames) {
            self.add_blank(frames.largest() + 1024);
        }
        while self.uses_windows
            && let Some((segment, offset)) = self.tail.claim_window()
        {
            segment.prepare_window(offset);
        }
        self.written.push(Written {
            segment: self.tail.segment(),
            start: self.tail.position(),
            payload,
        });
        let sequence = SeqNo(self.written.len() as u64);
        self.tail
            .append(&mut buffer, &mut frames, sequence, self.durable)
            .expect("its room was checked");
    }

    pub(super) fn sync(&mut self) {
        let segments = self.tail.unsynced();
        for segment in &segments {
            segment.make_durable().expect("a healthy disk");
        }
        if let Some(current) = segments.last() {
            self.tail.note_synced(current.id);
        }
        self.durable = self.tail.position();
        self.synced = self.written.len();
    }

    /// Retires what replay from `start` does not need, as if everything before were in tables.
    pub(super) fn retire(&mut self, start: LogStart) -> Vec<String> {
        let names = self.tail.retire(&self.random, start.segment);
        for name in &names {
            self.directory.remove(name).expect("it is there");
        }
        names
    }

    /// Where a manifest that knows nothing begins.
    pub(super) fn start(&self) -> LogStart {
        LogStart {
            segment: SegmentId(1),
            position: Lsn(0),
            durable: Lsn(0),
            database: Some(DATABASE),
        }
    }

    /// Replay that begins with record `index`; behind the last one, at the end.
    fn start_at(&self, index: usize) -> LogStart {
        let (segment, position) = match self.written.get(index) {
            Some(record) => (record.segment, record.start),
            None => (self.tail.segment(), self.tail.position()),
        };
        LogStart {
            segment,
            position,
            durable: Lsn(0),
            database: Some(DATABASE),
        }
    }

    /// Replays `directory`, asserts that what comes are the records from `first` on, without a gap, and answers how
    /// many there are and where the log ended.
    fn expect_from(
        &self,
        directory: &Arc<dyn Directory>,
        start: LogStart,
        first: usize,
    ) -> (usize, LogEnd) {
        let (replayed, end) = replay(directory, start).expect("not damaged");
        assert!(first + replayed.len() <= self.written.len());
        for (index, (sequence, payload)) in replayed.iter().enumerate() {
            assert_eq!(sequence.0 as usize, first + index + 1);
            assert!(
                *payload == self.written[first + index].payload,
                "record {} came back changed",
                first + index
            );
        }
        (replayed.len(), end)
    }

    fn path_of(&self, env: &MemoryEnv, part: &[u8]) -> (String, u64) {
        let found = env.paths().into_iter().find_map(|path| {
            let bytes = env.read_file(&path)?;
            let at = find(&bytes, part)?;
            Some((path.to_string_lossy().into_owned(), at as u64))
        });
        found.expect("the bytes are in some file")
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn directory(env: &MemoryEnv) -> Arc<dyn Directory> {
    env.open_directory(Path::new(DIRECTORY), true)
        .expect("it can be made")
}

/// Records that replay handed out, and where it found the end.
type Outcome = StorageResult<(Vec<(SeqNo, Vec<u8>)>, LogEnd)>;

fn replay(directory: &Arc<dyn Directory>, start: LogStart) -> Outcome {
    let mut replayed = Replayed::default();
    let end = read_log(directory.as_ref(), start, &mut replayed)?;
    Ok((replayed.0, end))
}

fn is_damage(outcome: &Outcome) -> bool {
    matches!(outcome, Err(StorageError::Corruption(_)))
}

/// A payload that is found by its number.
fn marked(number: usize, bytes: usize) -> Vec<u8> {
    let mut payload = format!("record {number:04}, ").into_bytes();
    payload.resize(bytes.max(payload.len()), b'.');
    payload
}

/// Goal: what is appended comes back, in order, whatever the lengths. Method: random lengths from nothing to more than
/// a frame holds, syncs and marks in between, several segments, records that are packed among them; then replay from the
/// beginning and from every record.
#[test]
fn records_come_back_over_segment_switches_from_any_start() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (env, mut log) = Log::in_memory();
        log.packs = seed % 2 == 1;
        for _ in 0..60 {
            let bytes = match random.below(10) {
                0 => random.below(3),
                1..=6 => random.below(5_000),
                _ => random.below(700_000),
            };
            let mut payload = random.bytes(bytes);
            if log.packs {
                payload.extend_from_within(..bytes / 2);
            }
            log.append(payload);
            if random.one_in(5) {
                log.sync();
            }
            if random.one_in(5) {
                let sequence = SeqNo(log.written.len() as u64);
                let durable = log.durable;
                log.tail
                    .append_mark(sequence, durable)
                    .expect("a healthy disk");
            }
        }
        assert!(log.tail.segment() > SegmentId(3), "too short to switch");
        let directory = directory(&env);
        for first in 0..=log.written.len() {
            let (count, end) = log.expect_from(&directory, log.start_at(first), first);
            assert_eq!(first + count, log.written.len());
            assert_eq!(end.position, log.tail.position());
            assert_eq!(end.next_segment, log.tail.segment().next());
            assert_eq!(end.next_slot, log.next_slot);
        }
    }
}

/// Goal: a record longer than a frame is whole or absent. Method: 35 MiB in three parts between short records; replay
/// from each of them; then the last part is damaged.
#[test]
fn a_record_in_parts_over_several_segments_comes_back_whole_or_not_at_all() {
    let (env, mut log) = Log::in_memory();
    log.append(marked(0, 600_000));
    let mut long = Random::new(5).bytes(35 << 20);
    long.extend_from_slice(b"the end of the long one");
    log.append(long);
    log.append(marked(2, 100));
    let place = directory(&env);
    for first in 0..=3 {
        assert_eq!(
            log.expect_from(&place, log.start_at(first), first).0,
            3 - first
        );
    }
    let (path, at) = log.path_of(&env, b"the end of the long one");
    assert!(env.corrupt(path, at, |byte| *byte ^= 1));
    assert_eq!(log.expect_from(&place, log.start(), 0).0, 1);
}

/// Goal: the parts of a long record are packed where that pays, each by itself. Method: 35 MiB of which the middle repeats
/// itself, behind a short record; it comes back, and takes the log less than half of its length.
#[test]
fn parts_of_a_record_are_packed_one_by_one() {
    let (env, mut log) = Log::in_memory();
    log.packs = true;
    log.append(marked(0, 100));
    let mut long = Random::new(6).bytes(12 << 20);
    long.resize(30 << 20, 7);
    long.extend_from_slice(&Random::new(7).bytes(5 << 20));
    log.append(long);
    log.append(marked(2, 100));
    assert_eq!(log.expect_from(&directory(&env), log.start(), 0).0, 3);
    let bytes = log.tail.bytes_written();
    assert!(bytes < 17 << 20, "{bytes}");
}

/// Goal: short payloads are not packed, however well they would, and frames that are forgotten give their memory back.
#[test]
fn payloads_are_packed_from_a_length_on() {
    let mut frames = RecordFrames::default();
    let buffer = [7; PACKED_BYTES_MIN + 1];
    for length in [PACKED_BYTES_MIN - 1, PACKED_BYTES_MIN, PACKED_BYTES_MIN + 1] {
        frames.prepare_packed(&buffer, 0..length);
        assert_eq!(frames.sizes().count(), 1);
        assert_eq!(frames.memory_bytes() > 0, length >= PACKED_BYTES_MIN);
    }
    frames.clear(0);
    assert_eq!((frames.sizes().count(), frames.memory_bytes()), (0, 0));
}

/// Goal: damage in a packed record is damage. Method: one byte of a durable one is changed.
#[test]
fn a_damaged_packed_record_is_reported() {
    let (env, mut log) = Log::in_memory();
    log.packs = true;
    log.append(marked(0, 100));
    log.append(marked(1, 6000));
    log.sync();
    log.append(marked(2, 100));
    let (path, at) = log.path_of(&env, b"record 0001, ");
    assert!(env.corrupt(path, at, |byte| *byte ^= 1));
    assert!(is_damage(&replay(&directory(&env), log.start())));
}

/// Goal: after a power cut replay brings back a prefix, with everything that was synced, and never takes what a crash
/// leaves for damage; stale bytes of an earlier life never come back. Method: random appends, syncs and retirements
/// with recycling, then every kind of image.
#[test]
fn a_torn_tail_is_a_prefix_and_keeps_what_was_synced() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (env, mut log) = Log::in_memory();
        log.packs = seed % 3 == 2;
        let mut first = 0;
        for step in 0..50 {
            let bytes = 1 + random.below(150_000);
            log.append(match log.packs {
                true => random.bytes(bytes).repeat(2),
                false => marked(step, bytes),
            });
            if random.one_in(6) {
                log.sync();
            }
            if random.one_in(8) {
                first = random.between(first, log.written.len());
                log.retire(log.start_at(first));
            }
            if !random.one_in(5) {
                continue;
            }
            let image = *random.pick(&IMAGES);
            let found = env.crash(image, seed * 1000 + step as u64);
            let start = LogStart {
                // What the manifest says is never more than what was synced.
                durable: log.durable,
                ..log.start_at(first)
            };
            let (count, end) = log.expect_from(&directory(&found), start, first);
            assert!(
                first + count >= log.synced,
                "step {step}, {image:?}: {} of {} synced records",
                first + count,
                log.synced
            );
            assert!(end.next_segment > start.segment || count == 0);
        }
        assert!(log.tail.segment() > SegmentId(3), "too short to recycle");
    }
}

/// Goal: frames of an earlier life are not seen, although they stand where the next frame would. Method: records of one
/// length, so that the lives are aligned; the log goes on in a recycled file.
#[test]
fn frames_of_an_earlier_life_never_come_back() {
    let (env, mut log) = Log::in_memory();
    let segments_to = |log: &mut Log, last: u64| {
        while log.tail.segment() < SegmentId(last) {
            let number = log.written.len();
            log.append(marked(number, 100_000));
        }
    };
    segments_to(&mut log, 3);
    let first = log.written.len();
    assert!(
        log.retire(log.start_at(first)).is_empty(),
        "both fit the kept"
    );
    segments_to(&mut log, 4);
    let recycled = directory(&env).list().expect("it can be listed");
    assert_eq!(recycled.len(), 3, "no file was made for the new life");
    let file = env.read_file(format!("{DIRECTORY}/000001.wal"));
    let stale = find(&file.expect("it is there"), b"record 0003");
    assert!(stale.is_some(), "the earlier life is still on the disk");
    let (count, end) = log.expect_from(&directory(&env), log.start_at(first), first);
    assert_eq!(first + count, log.written.len());
    assert_eq!(end.position, log.tail.position());
}

/// Goal: one damaged byte in a header hides nothing. Method: each byte of either copy, then one in both.
#[test]
fn either_copy_of_the_header_is_enough() {
    let (env, mut log) = Log::in_memory();
    for number in 0..3 {
        log.append(marked(number, 600_000));
    }
    log.sync();
    let start = LogStart {
        durable: log.durable,
        ..log.start()
    };
    let damaged = |name: &str, offsets: &[u64]| {
        let damaged = env.crash(CrashImage::Everything, 0);
        for offset in offsets {
            assert!(damaged.corrupt(format!("{DIRECTORY}/{name}"), *offset, |byte| *byte ^= 4));
        }
        directory(&damaged)
    };
    for name in ["000001.wal", "000002.wal"] {
        for copy in [0, 512] {
            for byte in (0..64).step_by(7) {
                let place = damaged(name, &[copy + byte]);
                assert_eq!(
                    log.expect_from(&place, start, 0).0,
                    3,
                    "{name}, byte {byte}"
                );
            }
        }
        let place = damaged(name, &[9, 512 + 9]);
        assert!(is_damage(&replay(&place, start)), "{name} is gone");
    }
}

/// Goal: the end of the log is damage when something proves that more was durable, and a crash otherwise. Method: the
/// same byte is damaged with the witness in the same segment, in a later one, in the manifest, and nowhere.
// Promise: 6.
#[test]
fn damage_before_a_durable_mark_is_told_from_a_torn_tail() {
    let bytes = 300_000;
    for witness in [None, Some("same segment"), Some("later"), Some("manifest")] {
        let (env, mut log) = Log::in_memory();
        for number in 0..3 {
            log.append(marked(number, bytes));
        }
        match witness {
            Some("same segment") => {
                log.sync();
                let durable = log.durable;
                assert!(
                    log.tail
                        .append_mark(SeqNo(3), durable)
                        .expect("a healthy disk")
                );
            }
            Some("later") => {
                log.append(marked(3, bytes));
                assert_eq!(log.tail.segment(), SegmentId(2));
                log.sync();
                log.append(marked(4, bytes));
            }
            Some(_) => log.sync(),
            None => {
                for number in 3..5 {
                    log.append(marked(number, bytes));
                }
            }
        }
        let durable = match witness {
            Some("manifest") => log.durable,
            _ => Lsn(0),
        };
        let start = LogStart {
            durable,
            ..log.start()
        };
        assert_eq!(
            log.expect_from(&directory(&env), start, 0).0,
            log.written.len()
        );
        for number in [0, 2] {
            let damaged = env.crash(CrashImage::Everything, 0);
            let (path, at) = log.path_of(&env, format!("record {number:04}").as_bytes());
            assert!(damaged.corrupt(path, at, |byte| *byte ^= 1));
            let place = directory(&damaged);
            if witness.is_some() {
                let outcome = replay(&place, start);
                assert!(
                    is_damage(&outcome),
                    "{witness:?}: damage in {number} is not seen"
                );
            } else {
                assert_eq!(log.expect_from(&place, start, 0).0, number);
            }
        }
    }
}

/// Goal: a segment that is gone ends the log, or is reported when it was durable. Method: three segments, the middle
/// one removed.
// Promise: 6.
#[test]
fn a_missing_middle_segment_ends_the_log_or_is_damage() {
    for is_synced in [false, true] {
        let (env, mut log) = Log::in_memory();
        for number in 0..5 {
            log.append(marked(number, 600_000));
            if is_synced {
                log.sync();
            }
        }
        let place = directory(&env);
        place.remove("000002.wal").expect("it is there");
        if is_synced {
            assert!(is_damage(&replay(&place, log.start())));
        } else {
            let (count, end) = log.expect_from(&place, log.start(), 0);
            assert_eq!((count, end.position), (1, log.written[1].start));
            assert!(
                end.next_segment > log.tail.segment(),
                "a life is used twice"
            );
            assert_eq!(end.next_slot, log.next_slot);
        }
    }
}

/// Goal: files that never began a life, or are no segments, are passed over. Method: such files beside a log.
#[test]
fn files_without_a_header_are_passed_over() {
    let (env, mut log) = Log::in_memory();
    log.append(marked(0, 100));
    log.add_blank(0);
    for (name, bytes) in [
        ("000009.wal", &[][..]),
        ("x.wal", &[0; 80]),
        ("notes", &[1]),
    ] {
        env.write_file(format!("{DIRECTORY}/{name}"), bytes)
            .expect("it is a file");
    }
    let (count, end) = log.expect_from(&directory(&env), log.start(), 0);
    assert_eq!((count, end.next_slot), (1, 10));
}

/// Goal: a segment of another database is no part of this one's log, and is told if it would count. Method: replay for
/// another database, from the segment and from behind it, and for none.
#[test]
fn a_segment_of_another_database_is_damage() {
    let (env, mut log) = Log::in_memory();
    log.append(marked(0, 100));
    let place = directory(&env);
    let read = |start: LogStart| read_log(place.as_ref(), start, &mut Replayed::default());
    let other = LogStart {
        database: Some(DatabaseId(2)),
        ..log.start()
    };
    assert!(matches!(read(other), Err(StorageError::Corruption(_))));
    let behind = LogStart {
        segment: SegmentId(2),
        ..other
    };
    assert!(read(behind).is_ok(), "what does not count is not judged");
    let unknown = LogStart {
        database: None,
        ..other
    };
    assert_eq!(read(unknown).expect("whole").sequence, SeqNo(1));
}

/// Goal: a blank that cannot be secured leaves nothing behind. Method: a full disk.
#[test]
fn a_blank_that_does_not_fit_is_removed_again() {
    let env = MemoryEnv::new(3);
    let place = directory(&env);
    env.set_capacity(Some(limits::SEGMENT_BYTES_MIN - 1));
    let error = Blank::create(&env, place.as_ref(), 1, 0, true).expect_err("the disk is full");
    let StorageError::Io { source, .. } = error else {
        panic!("another kind of error: {error}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(place.list().expect("it can be listed").is_empty());
    env.set_capacity(None);
    assert!(Blank::create(&env, place.as_ref(), 1, 0, true).is_ok());
}

/// Goal: the mapped path and the positional one write the same files. Method: the same records and salts on a real
/// directory, with mapping and without; records within, across and longer than a window; a recycled segment.
#[test]
fn mapped_and_positional_writes_give_the_same_bytes() {
    let write = |mapping: bool| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = PosixEnv::with_mapping(mapping)
            .open_directory(place.path(), false)
            .expect("it is there");
        let mut log = Log::begin(Arc::clone(&directory));
        log.uses_windows = true;
        let mut random = Random::new(9);
        for number in 0..120 {
            let bytes = match random.below(12) {
                0 => 1_200_000 + random.below(2_000_000),
                1..=4 => random.below(200_000),
                _ => random.below(300),
            };
            log.append(marked(number, bytes));
            if number % 40 == 39 {
                log.sync();
                log.retire(log.start_at(number));
            }
        }
        let first = 119;
        let (count, _) = log.expect_from(&directory, log.start_at(first), first);
        assert_eq!(count, 1, "mapping {mapping}");
        let entries = directory.list().expect("it can be listed");
        let content = |name: &str, bytes: u64| {
            let mut content = vec![0; bytes as usize];
            let file = directory.open(name, OpenMode::Read).expect("it is there");
            file.read_exact_at(&mut content, 0)
                .expect("it has its length");
            content
        };
        let files: Vec<_> = entries
            .into_iter()
            .map(|entry| (content(&entry.name, entry.bytes), entry.name))
            .collect();
        files
    };
    let (mapped, positional) = (write(true), write(false));
    assert_eq!(mapped.len(), positional.len());
    for ((left, name), (right, other)) in mapped.iter().zip(&positional) {
        assert_eq!(name, other);
        assert!(left == right, "{name} differs");
    }
}

/// Goal: people are shown the segments, with what their headers say, and nothing else that lies there. Method: a life, a blank,
/// and a file and a directory with other names.
#[test]
fn a_survey_shows_segments_alone() {
    let (env, mut log) = Log::in_memory();
    log.add_blank(0);
    for name in ["notes.txt", "x.wal", "000003.wal/inside"] {
        let path = Path::new(DIRECTORY).join(name);
        if let Some(parent) = path.parent() {
            env.open_directory(parent, true).expect("it can be made");
        }
        env.write_file(&path, b"no segment").expect("memory");
    }
    let found = survey_segments(log.directory.as_ref()).expect("healthy");
    let told: Vec<_> = found
        .iter()
        .map(|segment| (&*segment.name, segment.bytes, segment.life))
        .collect();
    let life = Some((SegmentId(1), Lsn(0)));
    assert_eq!(
        told,
        [("000001.wal", 1 << 20, life), ("000002.wal", 1 << 20, None)]
    );
}

/// The file and the verb of an answer of the system.
fn refused<T>(outcome: StorageResult<T>) -> Option<(String, &'static str)> {
    match outcome.err()? {
        StorageError::Io {
            file, operation, ..
        } => Some((file, operation)),
        _ => None,
    }
}

/// Goal: what the system refuses while a log is read or looked at ends that, and says which file and what: it never passes
/// for the end of the log. Method: each kind of call fails, at the first file and at the last one.
#[test]
fn calls_that_fail_are_no_end_of_the_log() {
    let (memory, mut log) = Log::in_memory();
    for number in 0..3 {
        log.append(marked(number, 600_000));
    }
    let env = FaultyEnv::new(Arc::new(memory));
    let place = env
        .open_directory(Path::new(DIRECTORY), false)
        .expect("it is there");
    let read = || read_log(place.as_ref(), log.start(), &mut Replayed::default());
    let calls = [
        (Operation::List, "wal", "list", 1),
        (Operation::Open, "000001", "open", 2),
        (Operation::Open, "000003", "open", 2),
        (Operation::Read, "000001", "read", 2),
        (Operation::Read, "000003", "read", 2),
        (Operation::Length, "000002", "measure", 1),
    ];
    for (operation, name, verb, calls) in calls {
        for nth in 1..=calls {
            env.fail(Rule {
                operation,
                name_contains: name.to_owned(),
                nth,
                error: io::ErrorKind::Other,
                times: Times::Once,
            });
            let (file, told) = refused(read()).expect("refused");
            assert!(told == verb && file.contains(name), "{told} {file}");
            assert_eq!(read().expect("once").sequence, SeqNo(3));
        }
        let fail = |error| {
            env.fail(Rule {
                operation,
                name_contains: name.to_owned(),
                nth: 1,
                error,
                times: Times::Once,
            });
            let survey = survey_segments(place.as_ref());
            env.clear();
            survey
        };
        if operation != Operation::Length {
            let (file, told) = refused(fail(io::ErrorKind::Other)).expect("refused");
            assert!(told == verb && file.contains(name), "{told} {file}");
        }
        if operation == Operation::Open {
            // A writer has removed it meanwhile.
            let found = fail(io::ErrorKind::NotFound).expect("passed over");
            assert!(found.len() == 2 && found.iter().all(|segment| !segment.name.contains(name)));
        }
    }
}

/// Goal: a log that begins inside a record says so, and does not hand out half of it. Method: replay from its second part.
#[test]
fn a_log_that_begins_inside_a_record_is_damaged() {
    let (env, mut log) = Log::in_memory();
    log.append(vec![7; 33 << 20]);
    let first_part = frame_bytes(16 << 20) as u64;
    let inside = LogStart {
        segment: SegmentId(2),
        position: Lsn(first_part),
        ..log.start()
    };
    let outcome = replay(&directory(&env), inside);
    assert!(is_damage(&outcome), "{outcome:?}");
}

/// Goal: a segment whose life cannot be begun or gone on in says which file it is. Method: writes fail.
#[test]
fn writes_that_fail_name_their_segment() {
    let memory = MemoryEnv::new(5);
    let env = FaultyEnv::new(Arc::new(memory));
    let place = env
        .open_directory(Path::new(DIRECTORY), true)
        .expect("it can be made");
    let fail = |operation| {
        env.fail(Rule {
            operation,
            name_contains: ".wal".to_owned(),
            nth: 1,
            error: io::ErrorKind::Other,
            times: Times::Once,
        });
    };
    let blank = |slot| Blank::create(&env, place.as_ref(), slot, 0, false);
    fail(Operation::Create);
    let created = refused(blank(1).map(drop));
    assert_eq!(created, Some(("wal/000001.wal".to_owned(), "create")));
    let begin = |blank| Tail::begin(blank, SegmentId(1), Lsn(0), DATABASE);
    let (first, second) = (blank(1).expect("healthy"), blank(2).expect("healthy"));
    fail(Operation::Write);
    let begun = refused(begin(first).map(drop));
    let expected = ("wal/000001.wal".to_owned(), "write the header of");
    assert_eq!(begun, Some(expected));
    let mut tail = begin(second).expect("healthy");
    fail(Operation::Write);
    let marked = refused(tail.append_mark(SeqNo(0), Lsn(0)));
    assert_eq!(marked, Some(("wal/000002.wal".to_owned(), "append to")));
    fail(Operation::Sync);
    let synced = refused(tail.unsynced()[0].make_durable());
    assert_eq!(synced, Some(("wal/000002.wal".to_owned(), "sync")));
}
