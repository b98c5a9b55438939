use std::{fmt::Debug, path::Path};

use kingtide_base::{DatabaseId, FamilyId, FileId, SegmentId, checksum};
use kingtide_env::{CrashImage, Fault, FaultyEnv, MemoryEnv, Operation, ReadRule, Rule, Times};
use kingtide_format::{OldestTombstone, TableMeta, dump_manifest};

use super::*;
use crate::manifest::{is_present, read};

const DIRECTORY_PATH: &str = "/db";
/// Small enough that a short history has parts, snapshots of several batches, and rolls.
const SMALL: Sizes = Sizes {
    roll_bytes_min: 1200,
    payload_bytes_max: 96,
    snapshot_batch_bytes: 128,
};

fn directory(env: &MemoryEnv) -> StorageResult<Arc<dyn Directory>> {
    env.open_directory(Path::new(DIRECTORY_PATH), true)
        .map_err(|error| directory_error("open", error))
}

fn open(env: &MemoryEnv) -> StorageResult<Manifest> {
    Manifest::open_with(directory(env)?, Arc::new(env.clone()), SMALL)
}

fn create(env: &MemoryEnv, state: ManifestState) -> StorageResult<Manifest> {
    Manifest::create_with(directory(env)?, Arc::new(env.clone()), state, SMALL)
}

fn read_state(env: &MemoryEnv) -> StorageResult<ManifestState> {
    read(&*directory(env)?)
}

fn table(file: u64) -> Edit {
    let key = format!("key {file:04}").into_bytes();
    Edit::AddTable {
        family: FamilyId(1),
        level: 1,
        meta: TableMeta {
            file: FileId(file),
            file_bytes: 4096,
            footer_checksum: checksum(&key, file),
            smallest: key.clone(),
            largest: key,
            sequence_min: SeqNo(file),
            sequence_max: SeqNo(file),
            sequence_base: SeqNo::ZERO,
            entries: 1,
            tombstones: 0,
            oldest_tombstone: OldestTombstone::default(),
            range_deletes: 0,
            is_largest_excluded: false,
            raw_bytes: 10,
            value_files: Vec::new(),
        },
    }
}

fn remove_table(file: u64) -> Edit {
    Edit::RemoveTable {
        family: FamilyId(1),
        level: 1,
        file: FileId(file),
    }
}

/// A state with one family and a table.
fn first_state() -> ManifestState {
    let mut state = ManifestState::default();
    let family = Edit::AddFamily {
        id: FamilyId(1),
        name: "tides".to_owned(),
        options: vec![("sync".to_owned(), "full".to_owned())],
    };
    for edit in [family, table(1)] {
        state.apply(&edit).expect("fits");
    }
    state
}

/// The batch number `step`: mostly one table, sometimes many edits, which take several frames.
fn batch(step: u64) -> Vec<Edit> {
    let file = 100 + step * 10;
    match step % 4 {
        0 => (file..file + 4).map(table).collect(),
        1 => vec![table(file), Edit::LogDurable(Lsn(step * 1000))],
        2 => vec![remove_table(file - 20), remove_table(file - 19)],
        _ => vec![Edit::LogStart {
            segment: SegmentId(step),
            sequence: SeqNo(step),
            position: Lsn(step * 1000),
        }],
    }
}

fn manifest_names(env: &MemoryEnv) -> Vec<String> {
    let name = |path: std::path::PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let names = env.paths().into_iter().filter_map(name);
    names.filter(|name| name != "WITNESS").collect()
}

/// The witness is lost, as by a power cut.
fn lose_witness(env: &MemoryEnv) {
    let path = format!("{DIRECTORY_PATH}/WITNESS");
    env.write_file(path, b"").expect("memory");
}

fn current_path(env: &MemoryEnv) -> String {
    let name = manifest_names(env).pop().expect("there is a manifest");
    format!("{DIRECTORY_PATH}/{name}")
}

fn fault_of<T: Debug>(result: StorageResult<T>) -> kingtide_base::Corruption {
    match result {
        Err(StorageError::Corruption(corruption)) => *corruption,
        other => panic!("not reported as corruption: {other:?}"),
    }
}

fn io_kind<T: Debug>(result: StorageResult<T>) -> io::ErrorKind {
    match result {
        Err(StorageError::Io { source, .. }) => source.kind(),
        other => panic!("not refused by the system: {other:?}"),
    }
}

#[test]
fn what_was_appended_is_there_after_opening() {
    let env = MemoryEnv::new(1);
    assert!(!is_present(&*directory(&env).expect("memory")).expect("memory"));
    assert_eq!(io_kind(open(&env)), io::ErrorKind::NotFound);
    assert_eq!(io_kind(read_state(&env)), io::ErrorKind::NotFound);
    let mut manifest = create(&env, first_state()).expect("new");
    for step in 0..12 {
        manifest.append(&batch(step)).expect("memory");
        assert_eq!(&read_state(&env).expect("whole"), manifest.state());
    }
    manifest.append(&[]).expect("nothing to do");
    assert!(is_present(&*directory(&env).expect("memory")).expect("memory"));
    assert_eq!(
        io_kind(create(&env, first_state())),
        io::ErrorKind::AlreadyExists
    );
    let reopened = open(&env).expect("whole");
    assert_eq!(reopened.state(), manifest.state());
}

#[test]
fn the_sizes_of_real_files_work_as_well() {
    let env = MemoryEnv::new(2);
    let directory = directory(&env).expect("memory");
    let world = Arc::new(env.clone());
    let mut manifest =
        Manifest::create(directory.clone(), world.clone(), first_state()).expect("new");
    manifest.append(&batch(0)).expect("memory");
    assert_eq!(manifest_names(&env), ["MANIFEST-000001"]);
    let reopened = Manifest::open(directory, world).expect("whole");
    assert_eq!(reopened.state(), manifest.state());
}

#[test]
fn a_long_file_is_replaced_by_a_short_one() {
    let env = MemoryEnv::new(3);
    let mut manifest = create(&env, first_state()).expect("new");
    for position in 1..=200 {
        manifest
            .append(&[Edit::LogDurable(Lsn(position))])
            .expect("memory");
        let names = manifest_names(&env);
        assert_eq!(names.len(), 1, "{names:?}");
        let bytes = env.read_file(current_path(&env)).expect("there").len() as u64;
        assert!(bytes < SMALL.roll_bytes_min + 256, "{bytes} bytes");
    }
    assert!(manifest.number_last > 5, "no roll happened");
    assert_eq!(&read_state(&env).expect("whole"), manifest.state());
}

#[test]
fn a_batch_that_does_not_fit_the_state_is_refused_before_it_is_written() {
    let env = MemoryEnv::new(4);
    let mut manifest = create(&env, first_state()).expect("new");
    let io_count = env.io_count();
    let before = manifest.state().clone();
    let corruption = fault_of(manifest.append(&[table(2), table(1)]));
    assert!(
        corruption.what.contains("table 1 is in family 1 already"),
        "{corruption}"
    );
    assert_eq!(manifest.state(), &before);
    assert_eq!(env.io_count(), io_count);
    manifest
        .append(&[table(2)])
        .expect("the manifest is as it was");
}

/// Runs a history of two openings until an operation fails. Answers the state of the last success, and the one that
/// the failed operation would have made.
fn history(env: &MemoryEnv) -> (Option<ManifestState>, Option<ManifestState>) {
    let mut acknowledged = None;
    let mut step = 0;
    for opening in 0..3 {
        let opened = if opening == 0 {
            create(env, first_state())
        } else {
            open(env)
        };
        let Ok(mut manifest) = opened else {
            let in_flight = acknowledged.clone().unwrap_or_else(first_state);
            return (acknowledged, Some(in_flight));
        };
        acknowledged = Some(manifest.state().clone());
        for _ in 0..10 {
            let edits = batch(step);
            let mut next = manifest.state().clone();
            for edit in &edits {
                next.apply(edit).expect("the history fits");
            }
            if manifest.append(&edits).is_err() {
                return (acknowledged, Some(next));
            }
            acknowledged = Some(next);
            step += 1;
        }
    }
    (acknowledged, None)
}

/// Goal: after a crash at any moment the state is the one before or the one after the batch in flight. Method: a
/// history with rolls, parts and reopenings is cut off after every single call that changes the disk; each cut is
/// looked at as a process kill and as power cuts of every image and several seeds.
#[test]
fn a_crash_at_every_call_leaves_the_state_before_or_after() {
    let dry = MemoryEnv::new(5);
    let (_, unfinished) = history(&dry);
    assert!(unfinished.is_none());
    let io_count = dry.io_count();
    assert!(io_count > 100);
    let (mut before, mut after) = (0, 0);
    for count in 0..io_count {
        let env = MemoryEnv::new(5);
        env.halt_after(count);
        let (acknowledged, in_flight) = history(&env);
        let check = |image: &str, crashed: MemoryEnv| {
            let found = match read_state(&crashed) {
                Ok(state) => Some(state),
                Err(StorageError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    None
                }
                Err(error) => panic!("after {count} calls, {image}: {error}"),
            };
            let is_after = found == in_flight && found != acknowledged;
            assert!(
                is_after || found == acknowledged,
                "after {count} calls, {image}"
            );
            if let Some(state) = found {
                let mut manifest = open(&crashed).expect("it was readable");
                assert_eq!(manifest.state(), &state);
                let next = Edit::LogDurable(Lsn(1 << 40));
                manifest.append(&[next]).expect("the machine is on again");
                assert_eq!(&read_state(&crashed).expect("whole"), manifest.state());
                assert_eq!(manifest_names(&crashed).len(), 1);
            }
            is_after
        };
        let mut outcomes = vec![check("kill", env.kill())];
        for image in [CrashImage::NothingUnsynced, CrashImage::Everything] {
            outcomes.push(check(&format!("{image:?}"), env.crash(image, 0)));
        }
        for seed in 0..4 {
            for image in [CrashImage::Random, CrashImage::AllButOne] {
                let crashed = env.crash(image, count * 8 + seed);
                outcomes.push(check(&format!("{image:?} {seed}"), crashed));
            }
        }
        after += outcomes.iter().filter(|is_after| **is_after).count();
        before += outcomes.iter().filter(|is_after| !**is_after).count();
    }
    assert!(before > 100 && after > 20, "{before} before, {after} after");
}

/// A manifest with a snapshot of several batches, and behind it batches of one and of several frames.
fn sample() -> (MemoryEnv, Manifest) {
    let env = MemoryEnv::new(6);
    let mut manifest = create(&env, first_state()).expect("new");
    for step in 0..3 {
        manifest.append(&batch(step)).expect("memory");
    }
    (env, manifest)
}

/// Goal: damage to synced bytes is reported, never taken for the end of the file. Method: every byte of a manifest
/// whose last batch has its witness is changed, in three ways; what still opens must be the whole state.
#[test]
fn damage_to_any_byte_is_reported_or_harmless() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let bytes = env.read_file(&path).expect("there");
    let witness = manifest.current.durable.0;
    assert!(
        witness < bytes.len() as u64,
        "the last batch has no witness"
    );
    let (mut reported, mut harmless) = (0, 0);
    for offset in 0..bytes.len() as u64 {
        for mask in [0x01, 0x80, 0xff] {
            assert!(env.corrupt(&path, offset, |byte| *byte ^= mask));
            match read_state(&env) {
                Ok(state) => {
                    assert_eq!(&state, manifest.state(), "byte {offset}");
                    harmless += 1;
                }
                Err(StorageError::Corruption(corruption)) => {
                    assert!(corruption.offset <= offset, "byte {offset}: {corruption}");
                    assert!(offset < witness, "byte {offset}: {corruption}");
                    assert_ne!(corruption.expected, corruption.found, "byte {offset}");
                    reported += 1;
                }
                Err(error) => panic!("byte {offset}: {error}"),
            }
            assert!(env.corrupt(&path, offset, |byte| *byte ^= mask));
        }
    }
    assert!(
        reported > harmless,
        "{reported} reported, {harmless} harmless"
    );
}

/// Without the witness (the mark had not reached the disk) the last batch, and only that, may be taken for torn.
#[test]
fn damage_without_a_witness_costs_at_most_the_last_batch() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let mut bytes = env.read_file(&path).expect("there");
    bytes.truncate(usize::try_from(manifest.current.durable.0).expect("short"));
    lose_witness(&env);
    let end = bytes.len() as u64;
    env.write_file(&path, &bytes).expect("memory");
    let mut without_last = first_state();
    for edit in [batch(0), batch(1)].concat() {
        without_last.apply(&edit).expect("fits");
    }
    let mut lost = 0;
    for offset in 0..end {
        assert!(env.corrupt(&path, offset, |byte| *byte ^= 0x10));
        match read_state(&env) {
            Ok(state) if &state == manifest.state() => {}
            Ok(state) => {
                assert_eq!(state, without_last, "byte {offset}");
                lost += 1;
            }
            Err(error) => assert!(matches!(error, StorageError::Corruption(_))),
        }
        assert!(env.corrupt(&path, offset, |byte| *byte ^= 0x10));
    }
    assert!(lost > 0);
}

/// Goal: a manifest that lost its end is damaged, wherever it was cut, also between two batches. Method: every length; the
/// last Mark alone is no loss.
#[test]
fn a_cut_at_any_length_is_reported() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let bytes = env.read_file(&path).expect("there");
    let durable = usize::try_from(manifest.current.durable.0).expect("short");
    for length in 0..durable {
        env.write_file(&path, &bytes[..length]).expect("memory");
        fault_of(read_state(&env));
        fault_of(open(&env));
    }
    for length in durable..=bytes.len() {
        env.write_file(&path, &bytes[..length]).expect("memory");
        assert_eq!(&read_state(&env).expect("whole"), manifest.state());
    }
}

/// Goal: an older copy of the manifest, of the same number or of an earlier one, is refused. Method: both, by hand.
#[test]
fn an_older_manifest_is_reported() {
    let (env, mut manifest) = sample();
    let first = current_path(&env);
    let bytes = env.read_file(&first).expect("there");
    manifest.append(&batch(3)).expect("memory");
    env.write_file(&first, &bytes).expect("memory");
    fault_of(read_state(&env));
    let (env, _) = sample();
    drop(open(&env).expect("whole"));
    let second = current_path(&env);
    let folder = directory(&env).expect("memory");
    folder.remove("MANIFEST-000002").expect("memory");
    assert!(env.read_file(second).is_none());
    env.write_file(&first, &bytes).expect("memory");
    let corruption = fault_of(open(&env));
    assert_eq!((corruption.expected, corruption.found), (2, 1));
}

/// Goal: a manifest of another database is refused, even when it is longer. Method: its file in the place of this one's,
/// with this one's witness and without.
// Promise: 5.
#[test]
fn a_manifest_of_another_database_is_reported() {
    let of_database = |id: u128| {
        let env = MemoryEnv::new(5);
        let mut manifest = create(&env, first_state()).expect("memory");
        let identity = Edit::Identity(DatabaseId(id));
        manifest.append(&[identity]).expect("memory");
        (env, manifest)
    };
    let (env, manifest) = of_database(1);
    let (other_env, mut other) = of_database(2);
    other.append(&batch(1)).expect("memory");
    let path = current_path(&env);
    let foreign = other_env.read_file(&path).expect("of the same name");
    env.write_file(&path, &foreign).expect("memory");
    fault_of(read_state(&env));
    fault_of(open(&env));
    lose_witness(&env);
    assert_eq!(&read_state(&env).expect("whole"), other.state());
    assert_ne!(manifest.state().identity(), other.state().identity());
}

/// Goal: a damaged witness, and one that cannot be written, cost nothing. Method: every byte; every call of it fails.
#[test]
fn a_witness_that_fails_costs_nothing() {
    let (env, manifest) = sample();
    let path = format!("{DIRECTORY_PATH}/WITNESS");
    for offset in 0..env.read_file(&path).expect("there").len() as u64 {
        assert!(env.corrupt(&path, offset, |byte| *byte ^= 0x10));
        assert_eq!(&read_state(&env).expect("whole"), manifest.state());
        assert!(env.corrupt(&path, offset, |byte| *byte ^= 0x10));
    }
    for operation in [Operation::Create, Operation::Write, Operation::Remove] {
        let memory = MemoryEnv::new(9);
        let env = FaultyEnv::new(Arc::new(memory.clone()));
        env.fail(Rule {
            times: Times::Forever,
            ..faulty(operation, "WITNESS")
        });
        let directory = env
            .open_directory(Path::new(DIRECTORY_PATH), true)
            .expect("memory");
        let world = Arc::new(env.clone());
        let created = Manifest::create_with(directory, world, first_state(), SMALL);
        let mut manifest = created.expect("the witness does not matter");
        for step in 0..3 {
            manifest.append(&batch(step)).expect("as before");
        }
        assert_eq!(&read_state(&memory).expect("whole"), manifest.state());
    }
}

/// A torn tail is replaced at the next opening, so that nothing is appended behind it.
#[test]
fn a_torn_tail_ends_the_manifest_and_is_not_appended_to() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let bytes = env.read_file(&path).expect("there");
    let torn = &bytes[..usize::try_from(manifest.current.durable.0).expect("short") - 16];
    env.write_file(&path, torn).expect("memory");
    lose_witness(&env);
    let before = read_state(&env).expect("a torn tail is no damage");
    assert_ne!(&before, manifest.state());
    let mut reopened = open(&env).expect("a torn tail is no damage");
    assert_ne!(current_path(&env), path);
    reopened.append(&batch(2)).expect("memory");
    assert_eq!(&read_state(&env).expect("whole"), manifest.state());
}

#[test]
fn a_cut_into_the_snapshot_is_damage() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let bytes = env.read_file(&path).expect("there");
    let snapshot_end = MANIFEST_HEADER_BYTES + manifest.current.snapshot_bytes as usize;
    for cut in 0..snapshot_end {
        env.write_file(&path, &bytes[..cut]).expect("memory");
        let corruption = fault_of(read_state(&env));
        assert_eq!(corruption.file, "MANIFEST-000001");
        fault_of(open(&env));
    }
    env.write_file(&path, &bytes[..snapshot_end])
        .expect("memory");
    lose_witness(&env);
    assert_eq!(read_state(&env).expect("whole"), first_state());
}

#[test]
fn reading_writes_nothing_and_opening_cleans_up() {
    let (env, manifest) = sample();
    let bytes = env.read_file(current_path(&env)).expect("there");
    let leftover = format!("{DIRECTORY_PATH}/MANIFEST-000009.new");
    env.write_file(&leftover, b"never finished")
        .expect("memory");
    for other in ["MANIFEST-10", "MANIFEST-x", "MANIFEST-000010.old"] {
        env.write_file(format!("{DIRECTORY_PATH}/{other}"), b"not ours")
            .expect("memory");
    }
    let io_count = env.io_count();
    assert_eq!(&read_state(&env).expect("whole"), manifest.state());
    assert_eq!(env.io_count(), io_count);
    let reopened = open(&env).expect("whole");
    assert_eq!(reopened.state(), manifest.state());
    let mut names = manifest_names(&env);
    names.retain(|name| !["MANIFEST-10", "MANIFEST-x", "MANIFEST-000010.old"].contains(&&**name));
    assert_eq!(names, ["MANIFEST-000010"]);
    assert!(env.read_file(current_path(&env)) != Some(bytes));
}

#[test]
fn a_manifest_under_another_name_or_of_a_newer_version_is_refused() {
    let (env, _) = sample();
    let path = current_path(&env);
    let mut bytes = env.read_file(&path).expect("there");
    env.write_file(format!("{DIRECTORY_PATH}/MANIFEST-000005"), &bytes)
        .expect("memory");
    let corruption = fault_of(read_state(&env));
    assert_eq!((corruption.expected, corruption.found), (5, 1));
    bytes[4] = 3;
    let sum = checksum(&bytes[..56], 0);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    env.write_file(format!("{DIRECTORY_PATH}/MANIFEST-000006"), &bytes)
        .expect("memory");
    match open(&env) {
        Err(StorageError::NewerVersion {
            file,
            found,
            supported,
        }) => {
            assert_eq!((&*file, found, supported), ("MANIFEST-000006", 3, 2));
        }
        other => panic!("not refused as newer: {other:?}"),
    }
}

#[test]
fn no_number_is_left_after_the_highest() {
    let (env, _) = sample();
    env.write_file(format!("{DIRECTORY_PATH}/MANIFEST-{}.new", u64::MAX), b"")
        .expect("memory");
    fault_of(open(&env));
    assert!(read_state(&env).is_ok());
}

/// A frame of the log, and a batch that was left out, have no place in a manifest, however whole they are.
#[test]
fn whole_frames_that_do_not_belong_are_damage() {
    let (env, manifest) = sample();
    let path = current_path(&env);
    let bytes = env.read_file(&path).expect("there");
    let batches = manifest.current.batches;
    let cases = [
        (FrameKind::Commit, batches + 1),
        (FrameKind::SegmentEnd, batches + 1),
        (FrameKind::PartMiddle, batches + 1),
        (FrameKind::PartLast, batches + 1),
        (FrameKind::Edit, batches + 2),
        (FrameKind::Mark, batches + 1),
    ];
    for (kind, batch) in cases {
        let mut appended = Vec::new();
        manifest.current.push(&mut appended, kind, batch, &[]);
        let whole = [&bytes[..], &appended[..]].concat();
        env.write_file(&path, &whole).expect("memory");
        assert_eq!(
            fault_of(read_state(&env)).offset,
            bytes.len() as u64,
            "{kind:?}"
        );
    }
    let mut nonsense = Vec::new();
    manifest
        .current
        .push(&mut nonsense, FrameKind::Edit, batches + 1, &[0xff, 0]);
    env.write_file(&path, &[&bytes[..], &nonsense].concat())
        .expect("memory");
    assert!(fault_of(read_state(&env)).what.contains("unknown edit 255"));
    assert!(dump_manifest(&env.read_file(&path).expect("there")).contains("unknown edit 255"));
}

fn faulty(operation: Operation, name: &str) -> Rule {
    Rule {
        operation,
        name_contains: name.to_owned(),
        nth: 1,
        error: io::ErrorKind::StorageFull,
        times: Times::Once,
    }
}

/// A manifest in a world whose calls can be made to fail.
fn faulty_sample() -> (MemoryEnv, FaultyEnv, Manifest) {
    let memory = MemoryEnv::new(7);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let directory = env
        .open_directory(Path::new(DIRECTORY_PATH), true)
        .expect("memory");
    let world = Arc::new(env.clone());
    let mut manifest = Manifest::create_with(directory, world, first_state(), SMALL).expect("new");
    manifest.append(&batch(0)).expect("memory");
    (memory, env, manifest)
}

#[test]
fn after_a_full_disk_appending_goes_on() {
    let (memory, env, mut manifest) = faulty_sample();
    let before = manifest.state().clone();
    env.fail(faulty(Operation::Write, "MANIFEST"));
    assert_eq!(
        io_kind(manifest.append(&batch(1))),
        io::ErrorKind::StorageFull
    );
    assert_eq!(manifest.state(), &before);
    assert_eq!(
        read_state(&memory).expect("half a frame is a torn tail"),
        before
    );
    // While there is no space for a new file either, the append is refused and nothing is lost.
    env.fail(faulty(Operation::Create, ".new"));
    assert_eq!(
        io_kind(manifest.append(&batch(1))),
        io::ErrorKind::StorageFull
    );
    env.fail(faulty(Operation::Write, ".new"));
    assert_eq!(
        io_kind(manifest.append(&batch(1))),
        io::ErrorKind::StorageFull
    );
    assert_eq!(manifest_names(&memory), ["MANIFEST-000001"]);
    manifest.append(&batch(1)).expect("there is space again");
    assert_eq!(manifest_names(&memory), ["MANIFEST-000004"]);
    let crashed = memory.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(&read_state(&crashed).expect("whole"), manifest.state());
}

#[test]
fn a_full_disk_while_rolling_delays_the_roll() {
    let (memory, env, mut manifest) = faulty_sample();
    let rule = Rule {
        times: Times::Forever,
        ..faulty(Operation::Create, ".new")
    };
    env.fail(rule);
    for position in 1..100 {
        manifest
            .append(&[Edit::LogDurable(Lsn(position))])
            .expect("space for a batch");
    }
    assert_eq!(manifest_names(&memory), ["MANIFEST-000001"]);
    env.clear();
    for position in 100..150 {
        manifest
            .append(&[Edit::LogDurable(Lsn(position))])
            .expect("memory");
    }
    assert_ne!(manifest_names(&memory), ["MANIFEST-000001"]);
    assert_eq!(&read_state(&memory).expect("whole"), manifest.state());
}

#[test]
fn a_mark_that_cannot_be_written_does_not_fail_the_append() {
    let (memory, env, mut manifest) = faulty_sample();
    let second_write = Rule {
        nth: 2,
        ..faulty(Operation::Write, "MANIFEST")
    };
    env.fail(second_write);
    manifest.append(&batch(1)).expect("the batch is durable");
    let name = manifest.current.name.clone();
    assert_eq!(&read_state(&memory).expect("whole"), manifest.state());
    manifest.append(&batch(2)).expect("memory");
    assert_ne!(
        manifest.current.name, name,
        "a tail in doubt is not appended to"
    );
    assert_eq!(&read_state(&memory).expect("whole"), manifest.state());
}

/// Nothing is known after a failed sync, of the file or of the directory, and after a failed rename.
#[test]
fn a_failed_sync_is_final() {
    for (operation, name) in [
        (Operation::Sync, "MANIFEST-000001"),
        (Operation::Sync, "MANIFEST-000002"),
        (Operation::Rename, "MANIFEST"),
        (Operation::DirectorySync, ""),
    ] {
        let (memory, env, mut manifest) = faulty_sample();
        env.fail(faulty(operation, name));
        let mut step = 0;
        let acknowledged = loop {
            let before = manifest.state().clone();
            step += 1;
            assert!(step < 100, "{operation:?} {name} never failed");
            if manifest.append(&batch(step)).is_err() {
                break before;
            }
        };
        assert_eq!(manifest.state(), &acknowledged);
        env.clear();
        let io_count = memory.io_count();
        assert_eq!(io_kind(manifest.append(&batch(step))), io::ErrorKind::Other);
        assert_eq!(memory.io_count(), io_count, "{operation:?} {name}");
        let mut after = acknowledged.clone();
        for edit in batch(step) {
            after.apply(&edit).expect("fits");
        }
        for seed in 0..8 {
            let found = read_state(&memory.crash(CrashImage::Random, seed)).expect("whole");
            assert!(
                found == acknowledged || found == after,
                "{operation:?} {name}"
            );
        }
    }
}

/// A frame that was being written while it was read is no damage: it is whole when it is looked at again.
#[test]
fn a_frame_is_read_twice_before_it_is_called_damaged() {
    let (memory, manifest) = sample();
    let path = Path::new(DIRECTORY_PATH);
    let snapshot_end = MANIFEST_HEADER_BYTES as u64 + manifest.current.snapshot_bytes;
    for (times, is_whole) in [(Times::Once, true), (Times::Forever, false)] {
        let env = FaultyEnv::new(Arc::new(memory.clone()));
        env.disturb_reads(ReadRule {
            name_contains: "MANIFEST".to_owned(),
            // The first read is that of the whole file, the second begins at the frame.
            nth: 1,
            fault: Fault::FlipBit(match times {
                Times::Once => snapshot_end * 8,
                Times::Forever => 0,
            }),
            times,
        });
        let directory = env.open_directory(path, false).expect("there");
        let outcome = read(&*directory);
        assert_eq!(outcome.is_ok(), is_whole, "{outcome:?}");
        if let Ok(state) = outcome {
            assert_eq!(&state, manifest.state());
        }
    }
}

/// Goal: a batch that takes many frames comes back whole, and each of them counts. Method: one of five times the length of a
/// frame's payload; then the same without its end.
#[test]
fn a_batch_of_many_parts_is_there_after_opening() {
    let env = MemoryEnv::new(11);
    let mut manifest = create(&env, first_state()).expect("new");
    let before = manifest.state().clone();
    let start = manifest.current.end;
    let edits: Vec<Edit> = (200..212).map(table).collect();
    assert!(encode_edits(&edits).len() > SMALL.payload_bytes_max * 4);
    manifest.append(&edits).expect("memory");
    let state = manifest.state().clone();
    assert_eq!(state.families().next().expect("one").1.tables.len(), 13);
    assert_eq!(read_state(&env).expect("whole"), state);

    lose_witness(&env);
    let path = current_path(&env);
    let mut bytes = env.read_file(&path).expect("there");
    bytes.truncate(start as usize + 400);
    env.write_file(&path, &bytes).expect("memory");
    assert_eq!(read_state(&env).expect("a torn tail"), before);
}

/// Goal: a reader beside a writer that replaces the manifest reads the new one, and does not look for ever. Method: the file
/// is gone when it is opened, once and always.
#[test]
fn a_manifest_that_goes_meanwhile_is_looked_for_again() {
    let (memory, env, manifest) = faulty_sample();
    let state = manifest.state().clone();
    drop(memory);
    let path = Path::new(DIRECTORY_PATH);
    let directory = env.open_directory(path, false).expect("there");
    let gone = |times| Rule {
        error: io::ErrorKind::NotFound,
        times,
        ..faulty(Operation::Open, "MANIFEST")
    };
    env.fail(gone(Times::Once));
    assert_eq!(read(&*directory).expect("found at the second look"), state);
    env.fail(gone(Times::Forever));
    assert_eq!(io_kind(read(&*directory)), io::ErrorKind::NotFound);
}
