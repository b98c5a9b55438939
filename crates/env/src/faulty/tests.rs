use std::io::ErrorKind;

use super::*;
use crate::{CrashImage, File, MemoryEnv, OpenMode};

struct World {
    memory: MemoryEnv,
    env: FaultyEnv,
    top: Arc<dyn Directory>,
}

fn world() -> World {
    let memory = MemoryEnv::new(1);
    let env = FaultyEnv::new(Arc::new(memory.clone()));
    let top = env.open_directory(Path::new("/db"), true).unwrap();
    World { memory, env, top }
}

fn create(world: &World, name: &str) -> Arc<dyn File> {
    world.top.open(name, OpenMode::CreateNew).unwrap()
}

fn rule(operation: Operation, name_contains: &str, nth: u64, times: Times) -> Rule {
    Rule {
        operation,
        name_contains: name_contains.to_owned(),
        nth,
        error: ErrorKind::StorageFull,
        times,
    }
}

#[test]
fn the_nth_matching_call_fails() {
    let world = world();
    let (log, table) = (create(&world, "1.wal"), create(&world, "1.klog"));
    world.env.fail(rule(Operation::Sync, "wal", 2, Times::Once));
    log.sync().unwrap();
    table.sync().unwrap();
    table.sync().unwrap();
    log.write_at(b"x", 0).unwrap();
    assert_eq!(log.sync().unwrap_err().kind(), ErrorKind::StorageFull);
    log.sync().unwrap();
    assert_eq!(world.env.counts()[&Operation::Sync], 5);
}

#[test]
fn a_rule_for_ever_goes_on_until_cleared() {
    let world = world();
    let file = create(&world, "file");
    world
        .env
        .fail(rule(Operation::Write, "", 2, Times::Forever));
    file.write_at(b"x", 0).unwrap();
    for _ in 0..3 {
        assert!(file.write_at(b"x", 0).is_err());
    }
    world.env.clear();
    file.write_at(b"x", 0).unwrap();
}

#[test]
fn every_operation_can_fail() {
    let world = world();
    let (top, env) = (&world.top, &world.env);
    let file = create(&world, "file");
    file.write_at(b"content", 0).unwrap();
    top.open_directory("below", true).unwrap();
    let call = |operation| -> io::Result<()> {
        match operation {
            Operation::Open => top.open("file", OpenMode::Read).map(drop),
            Operation::Create => top.open("new", OpenMode::CreateNew).map(drop),
            Operation::Read => file.read_at(&mut [0], 0).map(drop),
            Operation::Write => file.write_at(b"", 0),
            Operation::Allocate => file.allocate(0, 1),
            Operation::Sync => file.sync(),
            Operation::Rename => top.rename("file", "file"),
            Operation::Remove => top.remove("new"),
            Operation::Link => top.link("file", top.as_ref(), "second"),
            Operation::List => top.list().map(drop),
            Operation::DirectorySync => top.sync(),
            Operation::Lock => top.lock("file").map(drop),
            Operation::Window => file.prepare_window(0, 1).map(drop),
            Operation::Length => file.len().map(drop),
            Operation::Space => top.available_bytes().map(drop),
            Operation::Resolve => env.canonical_path(Path::new("/db")).map(drop),
            Operation::Spawn => {
                let thread = env.spawn("idle", Box::new(|| ()))?;
                thread.join().map_err(io::Error::other)
            }
        }
    };
    let operations = [
        Operation::Open,
        Operation::Create,
        Operation::Read,
        Operation::Write,
        Operation::Allocate,
        Operation::Sync,
        Operation::Rename,
        Operation::Remove,
        Operation::Link,
        Operation::List,
        Operation::DirectorySync,
        Operation::Lock,
        Operation::Window,
        Operation::Length,
        Operation::Space,
        Operation::Resolve,
        Operation::Spawn,
    ];
    for operation in operations {
        let before = env.counts().get(&operation).copied().unwrap_or(0);
        env.fail(rule(operation, "", 1, Times::Once));
        let error = call(operation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{operation:?}");
        call(operation).unwrap();
        assert_eq!(env.counts()[&operation], before + 2, "{operation:?}");
    }
    env.fail(rule(Operation::Open, "below", 1, Times::Once));
    assert!(top.open_directory("below", false).is_err());
    env.fail(rule(Operation::Create, "below", 1, Times::Once));
    assert!(top.open_directory("below", true).is_err());
    env.fail(rule(Operation::Open, "/db", 1, Times::Once));
    assert!(env.open_directory(Path::new("/db"), false).is_err());
    env.fail(rule(Operation::Rename, "target", 1, Times::Once));
    assert!(top.rename("file", "target").is_err());
}

#[test]
fn a_failed_write_has_written_its_first_half() {
    let world = world();
    let file = create(&world, "file");
    world.env.fail(rule(Operation::Write, "", 1, Times::Once));
    assert!(file.write_at(b"01234567", 0).is_err());
    assert_eq!(world.memory.read_file("/db/file").unwrap(), b"0123");
}

#[test]
fn a_failed_sync_is_final() {
    let world = world();
    let file = create(&world, "file");
    file.write_at(&[1; 512], 0).unwrap();
    file.sync().unwrap();
    world.top.sync().unwrap();
    file.write_at(&[2; 512], 0).unwrap();
    world.env.fail(rule(Operation::Sync, "", 1, Times::Once));
    assert!(file.sync().is_err());
    file.sync().unwrap();
    let after = world.memory.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(after.read_file("/db/file").unwrap(), [1; 512]);
    let after = world.memory.crash(CrashImage::Everything, 0);
    assert_eq!(after.read_file("/db/file").unwrap(), [2; 512]);
}

#[test]
fn faults_can_be_layered() {
    let memory = MemoryEnv::new(1);
    let inner = FaultyEnv::new(Arc::new(memory.clone()));
    let outer = FaultyEnv::new(Arc::new(inner));
    let top = outer.open_directory(Path::new("/db"), true).unwrap();
    let file = top.open("file", OpenMode::CreateNew).unwrap();
    top.sync().unwrap();
    file.write_at(b"x", 0).unwrap();
    outer.fail(rule(Operation::Sync, "", 1, Times::Once));
    assert!(file.sync().is_err());
    file.sync().unwrap();
    top.link("file", top.as_ref(), "second").unwrap();
    let after = memory.crash(CrashImage::NothingUnsynced, 0);
    assert_eq!(after.read_file("/db/file").unwrap(), [0]);
}

#[test]
fn reads_can_be_disturbed() {
    let world = world();
    let file = create(&world, "file");
    file.write_at(&[0; 16], 0).unwrap();
    let disturb = |nth, fault| {
        world.env.disturb_reads(ReadRule {
            name_contains: "file".to_owned(),
            nth,
            fault,
            times: Times::Once,
        });
    };
    disturb(2, Fault::FlipBit(16 * 8 + 11));
    disturb(3, Fault::ShortRead);
    let mut bytes = [9; 16];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [0; 16]);
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[1], 1 << 3);
    assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 16);
    disturb(1, Fault::FlipBit(0));
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0, "no bit to flip");
}
