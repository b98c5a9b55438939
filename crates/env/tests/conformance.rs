//! What the traits of the crate promise, asked of every world: the real one with and without mappings, the one in
//! memory, and the one with faults over both. Each test says what must hold; a world is a directory to work in.

// Loom's locks work inside its models only.
#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a call that fails unexpectedly fails the test"
)]

use std::{
    io::ErrorKind,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kingtide_env::{Directory, DirectoryEntry, Env, File, MemoryEnv, OpenMode};

/// A world and an empty directory in it, which is removed in the end.
struct World {
    env: Arc<dyn Env>,
    path: PathBuf,
    top: Arc<dyn Directory>,
    _temporary: Option<tempfile::TempDir>,
}

impl World {
    fn on_disk(env: Arc<dyn Env>) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("database");
        let top = env.open_directory(&path, true).unwrap();
        Self {
            env,
            path,
            top,
            _temporary: Some(temporary),
        }
    }

    fn in_memory(env: Arc<dyn Env>) -> Self {
        let path = PathBuf::from("/database");
        let top = env.open_directory(&path, true).unwrap();
        Self {
            env,
            path,
            top,
            _temporary: None,
        }
    }

    fn create(&self, name: &str) -> Arc<dyn File> {
        self.top.open(name, OpenMode::CreateNew).unwrap()
    }

    fn names(&self) -> Vec<String> {
        names_in(self.top.as_ref())
    }
}

fn names_in(directory: &dyn Directory) -> Vec<String> {
    let entries = directory.list().unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn content_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn kind_of<T>(result: std::io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("the call succeeded"),
        Err(error) => error.kind(),
    }
}

/// Runs every test in every world.
macro_rules! in_every_world {
    ($($test:ident)*) => {
        mod posix_mapped {
            $(#[test] fn $test() { super::$test(&super::World::on_disk(super::Arc::new(kingtide_env::PosixEnv::new()))); })*
        }
        mod posix_unmapped {
            $(#[test] fn $test() {
                super::$test(&super::World::on_disk(super::Arc::new(kingtide_env::PosixEnv::with_mapping(false))));
            })*
        }
        mod memory {
            $(#[test] fn $test() { super::$test(&super::World::in_memory(super::Arc::new(kingtide_env::MemoryEnv::new(1)))); })*
        }
        mod faulty_memory {
            $(#[test] fn $test() {
                let inner = super::Arc::new(kingtide_env::MemoryEnv::new(1));
                super::$test(&super::World::in_memory(super::Arc::new(kingtide_env::FaultyEnv::new(inner))));
            })*
        }
        mod faulty_posix {
            $(#[test] fn $test() {
                let inner = super::Arc::new(kingtide_env::PosixEnv::new());
                super::$test(&super::World::on_disk(super::Arc::new(kingtide_env::FaultyEnv::new(inner))));
            })*
        }
    };
}

in_every_world! {
    a_missing_directory_is_not_found_unless_created
    a_file_in_place_of_a_directory_is_refused
    directories_below_are_made_and_found
    names_with_more_than_one_component_are_refused
    missing_names_are_not_found
    taken_names_are_refused
    a_directory_is_not_a_file
    list_is_sorted_and_complete
    rename_replaces
    rename_onto_itself_changes_nothing
    directories_move_and_go
    paths_have_one_canonical_spelling
    removed_files_stay_open
    links_are_the_same_file
    links_reach_into_other_directories
    links_do_not_cross_worlds
    a_lock_is_held_once
    reads_end_at_the_end
    holes_read_as_zeros
    writes_are_seen_by_every_handle
    allocate_writes_zeros
    set_len_cuts_and_extends_with_zeros
    reading_handles_do_not_write
    ranges_beyond_every_file_are_refused
    windows_agree_with_reads_and_writes
    windows_slide
    windows_are_never_outside_the_file
    cutting_a_file_takes_its_windows_along
    readers_and_writers_share_a_handle
    sync_is_accepted
    space_is_reported
    threads_run_and_report_panics
    clocks_run_forward
    random_bytes_differ
}

fn a_missing_directory_is_not_found_unless_created(world: &World) {
    let path = world.path.join("a/b/c");
    assert_eq!(
        kind_of(world.env.open_directory(&path, false)),
        ErrorKind::NotFound
    );
    let made = world.env.open_directory(&path, true).unwrap();
    assert_eq!(made.path(), path);
    made.open("file", OpenMode::CreateNew).unwrap();
    let again = world.env.open_directory(&path, true).unwrap();
    assert_eq!(names_in(again.as_ref()), ["file"]);
    assert_eq!(world.names(), ["a"]);
}

fn a_file_in_place_of_a_directory_is_refused(world: &World) {
    world.create("file");
    for create in [false, true] {
        let path = world.path.join("file");
        assert_eq!(
            kind_of(world.env.open_directory(&path, create)),
            ErrorKind::NotADirectory
        );
        assert_eq!(
            kind_of(world.env.open_directory(&path.join("below"), create)),
            ErrorKind::NotADirectory
        );
        assert_eq!(
            kind_of(world.top.open_directory("file", create)),
            ErrorKind::NotADirectory
        );
    }
}

fn directories_below_are_made_and_found(world: &World) {
    assert_eq!(
        kind_of(world.top.open_directory("below", false)),
        ErrorKind::NotFound
    );
    let below = world.top.open_directory("below", true).unwrap();
    assert_eq!(below.path(), world.path.join("below"));
    below.open("file", OpenMode::CreateNew).unwrap();
    for create in [false, true] {
        let again = world.top.open_directory("below", create).unwrap();
        assert_eq!(names_in(again.as_ref()), ["file"]);
    }
}

fn names_with_more_than_one_component_are_refused(world: &World) {
    let long = "x".repeat(256);
    for name in ["", ".", "..", "a/b", "/", "a/", "../a", "zero\0byte", &long] {
        let top = &world.top;
        let kinds = [
            kind_of(top.open_directory(name, true)),
            kind_of(top.open(name, OpenMode::Read)),
            kind_of(top.open(name, OpenMode::CreateNew)),
            kind_of(top.rename(name, "to")),
            kind_of(top.rename("from", name)),
            kind_of(top.remove(name)),
            kind_of(top.link(name, top.as_ref(), "to")),
            kind_of(top.link("from", top.as_ref(), name)),
            kind_of(top.lock(name)),
        ];
        assert_eq!(kinds, [ErrorKind::InvalidInput; 9], "{name:?}");
    }
    assert_eq!(world.names(), [""; 0]);
    world.create(&"x".repeat(255));
    world.create("..a b\u{e9}");
}

fn missing_names_are_not_found(world: &World) {
    let top = &world.top;
    let kinds = [
        kind_of(top.open("missing", OpenMode::Read)),
        kind_of(top.open("missing", OpenMode::ReadWrite)),
        kind_of(top.rename("missing", "to")),
        kind_of(top.rename("missing", "missing")),
        kind_of(top.remove("missing")),
        kind_of(top.link("missing", top.as_ref(), "to")),
    ];
    assert_eq!(kinds, [ErrorKind::NotFound; 6]);
}

fn taken_names_are_refused(world: &World) {
    world.create("file").write_at(b"old", 0).unwrap();
    world.create("other");
    world.top.open_directory("below", true).unwrap();
    let kinds = [
        kind_of(world.top.open("file", OpenMode::CreateNew)),
        kind_of(world.top.open("below", OpenMode::CreateNew)),
        kind_of(world.top.link("other", world.top.as_ref(), "file")),
    ];
    assert_eq!(kinds, [ErrorKind::AlreadyExists; 3]);
    let file = world.top.open("file", OpenMode::Read).unwrap();
    assert_eq!(content_of(file.as_ref()), b"old");
}

fn a_directory_is_not_a_file(world: &World) {
    world.top.open_directory("below", true).unwrap();
    world.create("file");
    let top = &world.top;
    assert_eq!(
        kind_of(top.open("below", OpenMode::Read)),
        ErrorKind::IsADirectory
    );
    assert_eq!(
        kind_of(top.open("below", OpenMode::ReadWrite)),
        ErrorKind::IsADirectory
    );
    assert_eq!(kind_of(top.remove("below")), ErrorKind::IsADirectory);
    assert_eq!(
        kind_of(top.rename("file", "below")),
        ErrorKind::IsADirectory
    );
    assert_eq!(
        kind_of(top.rename("below", "file")),
        ErrorKind::NotADirectory
    );
    assert_eq!(
        kind_of(top.link("below", top.as_ref(), "to")),
        ErrorKind::PermissionDenied
    );
    assert_eq!(kind_of(top.lock("below")), ErrorKind::IsADirectory);
    assert_eq!(world.names(), ["below", "file"]);
}

fn list_is_sorted_and_complete(world: &World) {
    assert_eq!(world.top.list().unwrap(), []);
    world.top.open_directory("m", true).unwrap();
    world.create("z").write_at(&[7; 5000], 0).unwrap();
    world.create("a");
    let entry = |name: &str, is_directory, bytes| DirectoryEntry {
        name: name.to_owned(),
        is_directory,
        bytes,
    };
    let expected = [
        entry("a", false, 0),
        entry("m", true, 0),
        entry("z", false, 5000),
    ];
    assert_eq!(world.top.list().unwrap(), expected);
    // Listing leaves no position behind.
    assert_eq!(world.top.list().unwrap(), expected);
    for index in 0..300 {
        world.create(&format!("many-{index:03}"));
    }
    assert_eq!(world.names().len(), 303);
    assert!(world.names().is_sorted());
}

fn rename_replaces(world: &World) {
    let new = world.create("new");
    new.write_at(b"new", 0).unwrap();
    let old = world.create("old");
    old.write_at(b"old", 0).unwrap();
    world.top.rename("new", "old").unwrap();
    assert_eq!(world.names(), ["old"]);
    let found = world.top.open("old", OpenMode::Read).unwrap();
    assert_eq!(content_of(found.as_ref()), b"new");
    assert_eq!(content_of(old.as_ref()), b"old", "the replaced file");
    new.write_at(b"NEW", 0).unwrap();
    assert_eq!(content_of(found.as_ref()), b"NEW");
    world.top.rename("old", "free").unwrap();
    assert_eq!(world.names(), ["free"]);
}

fn rename_onto_itself_changes_nothing(world: &World) {
    world.create("a").write_at(b"x", 0).unwrap();
    world.top.rename("a", "a").unwrap();
    world.top.link("a", world.top.as_ref(), "b").unwrap();
    world.top.rename("a", "b").unwrap();
    assert_eq!(world.names(), ["a", "b"], "two names of one file");
}

fn directories_move_and_go(world: &World) {
    let below = world.top.open_directory("below", true).unwrap();
    below.open("file", OpenMode::CreateNew).unwrap();
    let top = &world.top;
    assert_eq!(
        kind_of(top.remove_directory("below")),
        ErrorKind::DirectoryNotEmpty
    );
    top.open_directory("full", true)
        .unwrap()
        .open("file", OpenMode::CreateNew)
        .unwrap();
    assert_eq!(
        kind_of(top.rename("below", "full")),
        ErrorKind::DirectoryNotEmpty
    );
    top.open_directory("empty", true).unwrap();
    top.rename("below", "empty").unwrap();
    assert_eq!(world.names(), ["empty", "full"]);
    let moved = top.open_directory("empty", false).unwrap();
    assert_eq!(names_in(moved.as_ref()), ["file"]);
    assert_eq!(
        names_in(below.as_ref()),
        ["file"],
        "an open handle moves along"
    );
    moved.remove("file").unwrap();
    top.remove_directory("empty").unwrap();
    assert_eq!(world.names(), ["full"]);
    world.create("file");
    assert_eq!(
        kind_of(top.remove_directory("file")),
        ErrorKind::NotADirectory
    );
    assert_eq!(kind_of(top.remove_directory("none")), ErrorKind::NotFound);
    assert_eq!(kind_of(top.remove_directory("..")), ErrorKind::InvalidInput);
}

fn paths_have_one_canonical_spelling(world: &World) {
    world.top.open_directory("below", true).unwrap();
    let plain = world.env.canonical_path(&world.path.join("below")).unwrap();
    let crooked = world.path.join("below/../below/.");
    assert!(plain.is_absolute());
    assert_eq!(world.env.canonical_path(&crooked).unwrap(), plain);
    assert!(plain.starts_with(world.env.canonical_path(&world.path).unwrap()));
    assert_eq!(
        kind_of(world.env.canonical_path(&world.path.join("none"))),
        ErrorKind::NotFound
    );
}

fn removed_files_stay_open(world: &World) {
    let file = world.create("file");
    file.write_at(b"content", 0).unwrap();
    world.top.remove("file").unwrap();
    assert_eq!(
        kind_of(world.top.open("file", OpenMode::Read)),
        ErrorKind::NotFound
    );
    world.top.sync().unwrap();
    file.write_at(b"CON", 0).unwrap();
    assert_eq!(content_of(file.as_ref()), b"CONtent");
    file.sync().unwrap();
    let again = world.create("file");
    assert_eq!(again.len().unwrap(), 0);
}

fn links_are_the_same_file(world: &World) {
    let file = world.create("a");
    world.top.link("a", world.top.as_ref(), "b").unwrap();
    file.write_at(b"shared", 0).unwrap();
    world.top.remove("a").unwrap();
    let other = world.top.open("b", OpenMode::Read).unwrap();
    assert_eq!(content_of(other.as_ref()), b"shared");
}

fn links_reach_into_other_directories(world: &World) {
    let target = world.path.join("checkpoint");
    let target = world.env.open_directory(&target, true).unwrap();
    world.create("a").write_at(b"shared", 0).unwrap();
    world.top.link("a", target.as_ref(), "b").unwrap();
    let other = target.open("b", OpenMode::Read).unwrap();
    assert_eq!(content_of(other.as_ref()), b"shared");
}

fn links_do_not_cross_worlds(world: &World) {
    world.create("a");
    let elsewhere: Arc<dyn Env> = Arc::new(MemoryEnv::new(2));
    let target = elsewhere.open_directory("/x".as_ref(), true).unwrap();
    assert_eq!(
        kind_of(world.top.link("a", target.as_ref(), "b")),
        ErrorKind::CrossesDevices
    );
}

fn a_lock_is_held_once(world: &World) {
    let lock = world.top.lock("LOCK").unwrap();
    assert_eq!(world.names(), ["LOCK"]);
    assert_eq!(kind_of(world.top.lock("LOCK")), ErrorKind::WouldBlock);
    let again = world.env.open_directory(&world.path, false).unwrap();
    assert_eq!(kind_of(again.lock("LOCK")), ErrorKind::WouldBlock);
    let other = world.top.lock("OTHER").unwrap();
    drop(lock);
    drop(again.lock("LOCK").unwrap());
    drop(other);
    // An existing file can be the lock file.
    world.create("file");
    world.top.lock("file").unwrap();
}

fn reads_end_at_the_end(world: &World) {
    let file = world.create("file");
    let mut bytes = [9; 8];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 0);
    file.write_at(b"0123456789", 0).unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
    assert_eq!(&bytes, b"01234567");
    assert_eq!(file.read_at(&mut bytes, 6).unwrap(), 4);
    assert_eq!(&bytes[..4], b"6789");
    assert_eq!(file.read_at(&mut bytes, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut bytes, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 3).unwrap(), 0);
    file.read_exact_at(&mut bytes, 2).unwrap();
    assert_eq!(&bytes, b"23456789");
    assert_eq!(
        kind_of(file.read_exact_at(&mut bytes, 3)),
        ErrorKind::UnexpectedEof
    );
}

fn holes_read_as_zeros(world: &World) {
    let file = world.create("file");
    file.write_at(b"end", 100_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_003);
    let content = content_of(file.as_ref());
    assert!(content[..100_000].iter().all(|byte| *byte == 0));
    assert_eq!(&content[100_000..], b"end");
    // An empty write far behind the end is no extension.
    file.write_at(b"", 200_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_003);
}

fn writes_are_seen_by_every_handle(world: &World) {
    let writer = world.create("file");
    let reader = world.top.open("file", OpenMode::Read).unwrap();
    let pattern: Vec<u8> = (0..20_000_u32).map(|index| (index % 251) as u8).collect();
    writer.write_at(&pattern, 1_000).unwrap();
    writer.write_at(&pattern[..700], 4_000).unwrap();
    let mut expected = vec![0; 1_000];
    expected.extend(&pattern);
    expected[4_000..4_700].copy_from_slice(&pattern[..700]);
    assert_eq!(content_of(reader.as_ref()), expected);
}

fn allocate_writes_zeros(world: &World) {
    let file = world.create("file");
    file.write_at(&[7; 10_000], 0).unwrap();
    file.allocate(5_000, 150_000).unwrap();
    let content = content_of(file.as_ref());
    assert_eq!(content.len(), 155_000);
    assert!(content[..5_000].iter().all(|byte| *byte == 7));
    assert!(content[5_000..].iter().all(|byte| *byte == 0));
    file.allocate(200_000, 0).unwrap();
    assert_eq!(file.len().unwrap(), 155_000);
}

fn set_len_cuts_and_extends_with_zeros(world: &World) {
    let file = world.create("file");
    file.write_at(&[7; 10_000], 0).unwrap();
    file.set_len(5_000).unwrap();
    assert_eq!(file.len().unwrap(), 5_000);
    file.set_len(12_000).unwrap();
    let content = content_of(file.as_ref());
    assert_eq!(content.len(), 12_000);
    assert!(content[..5_000].iter().all(|byte| *byte == 7));
    assert!(content[5_000..].iter().all(|byte| *byte == 0));
    file.set_len(0).unwrap();
    assert_eq!(content_of(file.as_ref()), b"");
}

fn reading_handles_do_not_write(world: &World) {
    world.create("file").write_at(b"content", 0).unwrap();
    let reader = world.top.open("file", OpenMode::Read).unwrap();
    let kinds = [
        kind_of(reader.write_at(b"x", 0)),
        kind_of(reader.allocate(0, 10)),
        kind_of(reader.set_len(1)),
    ];
    assert_eq!(kinds, [ErrorKind::PermissionDenied; 3]);
    assert!(!reader.prepare_window(0, 4).unwrap());
    reader.sync().unwrap();
    assert_eq!(content_of(reader.as_ref()), b"content");
}

fn ranges_beyond_every_file_are_refused(world: &World) {
    let file = world.create("file");
    for offset in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        let kinds = [
            kind_of(file.read_at(&mut [0; 2], offset)),
            kind_of(file.write_at(b"xx", offset)),
            kind_of(file.allocate(offset, 2)),
            kind_of(file.prepare_window(offset, 2)),
        ];
        assert_eq!(kinds, [ErrorKind::InvalidInput; 4]);
    }
    assert_eq!(kind_of(file.set_len(u64::MAX)), ErrorKind::InvalidInput);
    assert_eq!(file.len().unwrap(), 0);
}

fn windows_agree_with_reads_and_writes(world: &World) {
    let file = world.create("file");
    let other = world.top.open("file", OpenMode::ReadWrite).unwrap();
    file.allocate(0, 64 << 10).unwrap();
    // The range begins inside a page.
    file.prepare_window(5_000, 20_000).unwrap();
    let mut model = vec![0_u8; 64 << 10];
    // Inside, across either border, outside, the exact window, longer than the window.
    let ranges = [
        (6_000, 100),
        (4_990, 20),
        (24_990, 20),
        (100, 50),
        (5_000, 20_000),
        (30_000, 1_000),
        (3_000, 30_000),
        (24_999, 1),
        (5_000, 1),
        (25_000, 1),
        (4_999, 1),
    ];
    for (step, (offset, bytes)) in (1_u8..).zip(ranges) {
        let source = vec![step; bytes];
        // Every second write comes through a handle without a window.
        let writer = if step % 2 == 0 { &other } else { &file };
        writer.write_at(&source, offset as u64).unwrap();
        model[offset..offset + bytes].copy_from_slice(&source);
        assert!(content_of(file.as_ref()) == model, "step {step}");
        assert!(content_of(other.as_ref()) == model, "step {step}");
    }
    file.sync().unwrap();
    drop(file);
    assert!(content_of(other.as_ref()) == model);
}

fn windows_slide(world: &World) {
    const WINDOW_BYTES: u64 = 16 << 10;
    let file = world.create("file");
    file.allocate(0, 16 * WINDOW_BYTES).unwrap();
    for index in 0..16 {
        let start = index * WINDOW_BYTES;
        file.prepare_window(start, WINDOW_BYTES).unwrap();
        for offset in (start..start + WINDOW_BYTES).step_by(1_000) {
            file.write_at(&offset.to_le_bytes(), offset).unwrap();
        }
    }
    // Back to the begin, and many at one place.
    for _ in 0..8 {
        file.prepare_window(0, WINDOW_BYTES).unwrap();
    }
    file.write_at(&[0xFF; 8], 8).unwrap();
    let content = content_of(file.as_ref());
    for index in 0..16 {
        let start = index * WINDOW_BYTES;
        for offset in (start..start + WINDOW_BYTES).step_by(1_000) {
            let at = usize::try_from(offset).unwrap();
            assert_eq!(content[at..at + 8], offset.to_le_bytes());
        }
    }
    assert_eq!(content[8..16], [0xFF; 8]);
}

fn windows_are_never_outside_the_file(world: &World) {
    let file = world.create("file");
    assert!(!file.prepare_window(0, 4_096).unwrap(), "an empty file");
    file.allocate(0, 5_000).unwrap();
    assert!(!file.prepare_window(0, 5_001).unwrap());
    assert!(!file.prepare_window(0, 0).unwrap());
    assert!(!file.prepare_window(1 << 40, 1).unwrap());
    assert_eq!(file.len().unwrap(), 5_000);
    // The last page is half outside.
    file.prepare_window(4_000, 1_000).unwrap();
    file.write_at(&[7; 1_000], 4_000).unwrap();
    file.write_at(&[8; 2_000], 4_500).unwrap();
    assert_eq!(file.len().unwrap(), 6_500);
    let content = content_of(file.as_ref());
    assert!(content[4_000..4_500].iter().all(|byte| *byte == 7));
    assert!(content[4_500..].iter().all(|byte| *byte == 8));
}

fn cutting_a_file_takes_its_windows_along(world: &World) {
    let file = world.create("file");
    file.allocate(0, 64 << 10).unwrap();
    file.prepare_window(0, 16 << 10).unwrap();
    file.prepare_window(8 << 10, 32 << 10).unwrap();
    file.set_len(20 << 10).unwrap();
    // A store into a window behind the end would end the process here.
    file.write_at(&[7; 100], 30 << 10).unwrap();
    file.write_at(&[8; 100], 10 << 10).unwrap();
    assert_eq!(file.len().unwrap(), (30 << 10) + 100);
    let content = content_of(file.as_ref());
    assert_eq!(content[30 << 10..], [7; 100]);
    assert_eq!(content[10 << 10..(10 << 10) + 100], [8; 100]);
}

fn readers_and_writers_share_a_handle(world: &World) {
    const PART_BYTES: usize = 8 << 10;
    const PARTS: usize = 4;
    let file = world.create("file");
    file.allocate(0, (PARTS * PART_BYTES) as u64).unwrap();
    file.prepare_window(0, (PARTS * PART_BYTES) as u64).unwrap();
    std::thread::scope(|scope| {
        for part in 0..PARTS {
            let file = &file;
            scope.spawn(move || {
                let start = (part * PART_BYTES) as u64;
                for round in 0..100_u8 {
                    let source = [round ^ part as u8; PART_BYTES];
                    file.write_at(&source, start).unwrap();
                    let mut target = [0; PART_BYTES];
                    file.read_exact_at(&mut target, start).unwrap();
                    assert!(target == source);
                    // Parts of others may be anything that was written to them, at any moment.
                    file.read_exact_at(&mut target, ((part + 1) % PARTS * PART_BYTES) as u64)
                        .unwrap();
                    file.prepare_window(start, PART_BYTES as u64).unwrap();
                }
            });
        }
    });
}

/// A sync may be begun ahead, of whatever range, and says so in nothing but its time.
fn sync_is_accepted(world: &World) {
    let file = world.create("file");
    file.sync().unwrap();
    file.write_at(b"x", 0).unwrap();
    for (offset, bytes) in [(0, 1), (0, 0), (7, 1 << 20), (u64::MAX, u64::MAX)] {
        file.begin_sync(offset, bytes);
    }
    file.sync().unwrap();
    world.top.sync().unwrap();
    assert_eq!(content_of(file.as_ref()), b"x");
}

fn space_is_reported(world: &World) {
    assert!(world.top.available_bytes().unwrap() > 0);
}

fn threads_run_and_report_panics(world: &World) {
    let sum = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (1..=4)
        .map(|number| {
            let sum = Arc::clone(&sum);
            let body = Box::new(move || {
                sum.fetch_add(number, Ordering::SeqCst);
            });
            world.env.spawn(&format!("worker-{number}"), body).unwrap()
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join(), Ok(()));
    }
    assert_eq!(sum.load(Ordering::SeqCst), 10);
    let fails = world
        .env
        .spawn("fails", Box::new(|| panic!("reason {}", 7)));
    assert_eq!(fails.unwrap().join(), Err("reason 7".to_owned()));
    let body = Box::new(|| ());
    assert_eq!(
        kind_of(world.env.spawn("zero\0byte", body)),
        ErrorKind::InvalidInput
    );
    assert!(world.env.parallelism() >= 1);
}

fn clocks_run_forward(world: &World) {
    let before = world.env.monotonic_nanos();
    world.env.sleep(Duration::from_micros(50));
    let after = world.env.monotonic_nanos();
    assert!(after >= before + 50_000);
    // Later than 2020.
    assert!(world.env.unix_micros() > 1_577_836_800_000_000);
}

fn random_bytes_differ(world: &World) {
    // Of 64 numbers with 64 bits no two are the same, or something is wrong with the source.
    let numbers: std::collections::BTreeSet<u64> =
        (0..64).map(|_| world.env.random_u64()).collect();
    assert_eq!(numbers.len(), 64);
    let mut odd = [0_u8; 13];
    world.env.fill_random(&mut odd);
    world.env.fill_random(&mut []);
    assert_ne!(odd, [0; 13]);
}
