//! Files that are whole, and not the ones that were recorded: of the same name, form and length, with other values.

use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, StorageError, StorageResult, ValuePointer};
use kingtide_collections::MemoryBudget;
use kingtide_env::OpenMode;
use kingtide_format::{CodecId, TableMeta, ValueFileMeta};

use super::model::{Entry, World, new_value_file};
use crate::{ScannedTable, SpilledValueWriter, TableSettings, ValueFiles, vlog_name};

const FILE: FileId = FileId(3);

fn is_corruption<T>(answer: &StorageResult<T>) -> bool {
    matches!(answer, Err(StorageError::Corruption(_)))
}

/// A table of several blocks whose values are `byte`.
fn table(byte: u8) -> (World, TableMeta, Vec<u8>) {
    let world = World::new();
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::None,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    };
    let entries: Vec<Entry> = (0..30)
        .map(|number| Entry::put(format!("key/{number:04}").as_bytes(), 7, &[byte; 20]))
        .collect();
    let meta = world.build(FILE, &settings, &entries);
    let bytes = world.env.read_file(World::path(FILE)).expect("there");
    (world, meta, bytes)
}

/// Goal: a table of another database is not taken for the recorded one. Method: two tables that differ in their values
/// alone change places; then single blocks do, which only reading all of them can tell.
#[test]
fn a_table_with_other_values_is_refused() {
    let ((world, meta, bytes), (_, other, foreign)) = (table(1), table(2));
    assert_eq!(bytes.len(), foreign.len());
    assert_ne!(meta.footer_checksum, other.footer_checksum);
    let order = KeyOrder::BYTEWISE;
    let place = |bytes: &[u8]| {
        world
            .env
            .write_file(World::path(FILE), bytes)
            .expect("no faults");
    };
    let whole = world.open(&meta, &order).expect("whole");
    whole.verify(&mut |_| {}).expect("whole");
    place(&foreign);
    assert!(is_corruption(&world.open(&meta, &order)));
    assert!(is_corruption(&whole.verify(&mut |_| {})));
    for index in 0..whole.fences.blocks() {
        let extent = whole.fences.extent(index);
        let extent = extent.start as usize..extent.end as usize;
        let mut mixed = bytes.clone();
        mixed[extent.clone()].copy_from_slice(&foreign[extent]);
        place(&mixed);
        let table = world.open(&meta, &order).expect("its footer is right");
        assert!(is_corruption(&table.verify(&mut |_| {})), "block {index}");
        let damage = table.salvage(&mut |_| Ok(())).expect("no faults");
        assert_eq!(damage.len(), 1, "block {index}");
    }
}

#[test]
fn a_scan_tells_which_table_it_scanned() {
    let (world, meta, mut bytes) = table(1);
    let scan = || {
        let path = World::path(FILE);
        let directory = &world.directory;
        let name = path.rsplit('/').next().expect("a name");
        let file = directory.open(name, OpenMode::Read).expect("there");
        ScannedTable::scan(&*file, path, FILE).expect("no faults")
    };
    assert_eq!(scan().footer_checksum, Some(meta.footer_checksum));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    world
        .env
        .write_file(World::path(FILE), &bytes)
        .expect("no faults");
    assert_eq!(scan().footer_checksum, None);
}

type Written = (World, ValueFileMeta, Vec<ValuePointer>, Vec<u8>);

fn vlog_path() -> String {
    format!("/klog/{}", vlog_name(FILE))
}

fn new_file(world: &World) -> Arc<dyn kingtide_env::File> {
    world
        .directory
        .open(&vlog_name(FILE), OpenMode::CreateNew)
        .expect("a new name")
}

/// A value file whose values are `byte`, one of them long.
fn values(byte: u8) -> Written {
    let world = World::new();
    let mut builder = new_value_file(&world.directory, FILE, CodecId::None);
    let lengths = [30, 0, 1 << 20, 30];
    let append = |length: &usize| builder.append(b"key", &vec![byte; *length]);
    let pointers = lengths.iter().map(append).collect::<Result<_, _>>();
    let meta = builder.finish().expect("no faults");
    let bytes = world.env.read_file(vlog_path()).expect("there");
    (world, meta, pointers.expect("no faults"), bytes)
}

/// A value file with one value in chunks of `byte`.
fn chunks(byte: u8) -> Written {
    let world = World::new();
    let budget = MemoryBudget::unlimited();
    let file = new_file(&world);
    let mut writer = SpilledValueWriter::new(file, (FILE, CodecId::None), b"key", &budget);
    for length in [100, 100, 7] {
        writer.append(&vec![byte; length]).expect("no faults");
    }
    let (meta, pointer) = writer.finish().expect("no faults");
    let bytes = world.env.read_file(vlog_path()).expect("there");
    (world, meta, vec![pointer], bytes)
}

/// Goal: a value file of another database is not read as the recorded one. Method: files that differ in their values alone
/// change places, with the file expected and not; then all but the footer does, which only reading all of it can tell.
#[test]
fn a_value_file_with_other_values_is_refused() {
    for write in [values, chunks] {
        let ((world, meta, pointers, bytes), (_, other, _, foreign)) = (write(1), write(2));
        assert_eq!(bytes.len(), foreign.len());
        assert_ne!(meta.footer_checksum, other.footer_checksum);
        let files = |bytes: &[u8]| {
            world.env.write_file(vlog_path(), bytes).expect("no faults");
            let files = ValueFiles::new(Arc::clone(&world.directory), 4);
            files.expect(&meta);
            files
        };
        let whole = files(&bytes);
        assert!(whole.read(&pointers[0], b"key").is_ok());
        whole.verify_file(&meta, &mut |_| {}).expect("whole");
        let replaced = files(&foreign);
        for pointer in &pointers {
            assert!(is_corruption(&replaced.read(pointer, b"key")));
        }
        assert!(is_corruption(&replaced.verify_file(&meta, &mut |_| {})));
        // Nothing is expected any more.
        replaced.forget(FILE);
        assert!(replaced.read(&pointers[0], b"key").is_ok());
        let footer = bytes.len() - 40;
        let mixed = files(&[&foreign[..footer], &bytes[footer..]].concat());
        assert!(is_corruption(&mixed.verify_file(&meta, &mut |_| {})));
    }
}
