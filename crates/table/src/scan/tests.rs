use kingtide_format::CodecId;

use super::*;
use crate::TableSettings;
use crate::tests::model::{Entry, World};

fn entries() -> Vec<Entry> {
    (0..40_u64)
        .map(|i| Entry::put(format!("key/{i:04}").as_bytes(), 100 - i, &[i as u8; 30]))
        .collect()
}

fn build(world: &World) -> FileId {
    let settings = TableSettings {
        block_bytes: 256,
        codec: CodecId::Lz4,
        filter_fpr: Some(0.01),
        order: KeyOrder::BYTEWISE,
    };
    world.build(FileId(3), &settings, &entries()).file
}

fn open(world: &World, file_id: FileId) -> Arc<dyn File> {
    let name = crate::klog_name(file_id);
    let opened = world.directory.open(&name, kingtide_env::OpenMode::Read);
    opened.expect("there")
}

fn scan(world: &World, file_id: FileId) -> ScannedTable {
    let file = open(world, file_id);
    ScannedTable::scan(&*file, crate::klog_name(file_id), file_id).expect("no faults")
}

/// The numbers of the entries that a scan gives, checked to be those that were written.
fn numbers(world: &World, table: ScannedTable) -> Vec<usize> {
    let wanted = entries();
    let counted = table.entries;
    let mut walk = Arc::new(table).entries(open(world, FileId(3)));
    let mut found = Vec::new();
    while let Some(entry) = walk.step().expect("no faults") {
        let index = wanted
            .iter()
            .position(|wanted| wanted.key == entry.key)
            .expect("nothing is invented");
        assert_eq!(entry.sequence, wanted[index].borrowed().sequence);
        assert_eq!(entry.value, ScannedValue::Inline(vec![index as u8; 30]));
        found.push(index);
    }
    assert!(found.is_sorted(), "in order");
    assert_eq!(found.len() as u64, counted);
    found
}

/// Every gap in `found` lies in a damage that says so.
fn check_gaps(found: &[usize], damages: &[ScanDamage]) {
    let wanted = entries();
    for lost in (0..wanted.len()).filter(|index| !found.contains(index)) {
        let key = &wanted[lost].key;
        let tells = damages.iter().any(|damage| {
            damage.may_hold_entries
                && damage.after.as_ref().is_none_or(|after| after < key)
                && damage.before.as_ref().is_none_or(|before| key < before)
        });
        assert!(tells, "the loss of entry {lost} is not told: {damages:?}");
    }
}

/// Goal: one damaged byte costs one block at most, and no loss is silent. Method: every byte.
#[test]
fn a_flipped_byte_costs_a_block_at_most() {
    let world = World::new();
    let file = build(&world);
    let whole = scan(&world, file);
    assert!(whole.damages.is_empty() && whole.properties.is_some());
    let (blocks, index) = (
        whole.blocks.clone(),
        whole.blocks.last().map(|(at, len)| at + len),
    );
    assert_eq!(numbers(&world, whole).len(), 40);
    let path = World::path(file);
    let bytes = world.env.read_file(&path).expect("there");
    for offset in 0..bytes.len() as u64 {
        assert!(world.env.corrupt(&path, offset, |byte| *byte ^= 0x41));
        let table = scan(&world, file);
        let is_data = Some(offset) < index;
        assert_eq!(table.blocks.len(), blocks.len() - usize::from(is_data));
        let is_footer = offset >= bytes.len() as u64 - KLOG_FOOTER_BYTES as u64;
        assert_eq!(table.damages.len(), 1, "offset {offset}");
        assert_eq!(
            table.properties.is_some() || is_data,
            is_data || is_footer || {
                let properties = read_footer(&bytes, file)
                    .expect("whole")
                    .0
                    .properties_offset;
                offset < properties
            }
        );
        let damages = table.damages.clone();
        check_gaps(&numbers(&world, table), &damages);
        assert_eq!(damages[0].may_hold_entries, is_data, "offset {offset}");
        world.env.write_file(&path, &bytes).expect("no faults");
    }
}

/// Goal: cut files and runs of zeros cost what they cover and no more.
#[test]
fn what_is_cut_or_zeroed_is_told() {
    let world = World::new();
    let file = build(&world);
    let path = World::path(file);
    let bytes = world.env.read_file(&path).expect("there");
    let blocks = scan(&world, file).blocks;
    for length in (0..bytes.len()).step_by(7) {
        world
            .env
            .write_file(&path, &bytes[..length])
            .expect("no faults");
        let table = scan(&world, file);
        let whole = blocks.iter().filter(|(at, len)| at + len <= length as u64);
        assert_eq!(table.blocks.len(), whole.count());
        numbers(&world, table);
    }
    for start in (0..bytes.len()).step_by(31) {
        let mut zeroed = bytes.clone();
        let end = (start + 512).min(bytes.len());
        zeroed[start..end].fill(0);
        world.env.write_file(&path, &zeroed).expect("no faults");
        let table = scan(&world, file);
        let is_hit = |(at, len): &&(u64, u64)| *at < end as u64 && at + len > start as u64;
        assert_eq!(
            table.blocks.len(),
            blocks.len() - blocks.iter().filter(is_hit).count()
        );
        let damages = table.damages.clone();
        check_gaps(&numbers(&world, table), &damages);
    }
}

/// Goal: bytes that look like blocks everywhere do not make a scan slow. Method: a file full of plausible headers.
#[test]
fn a_scan_ends_soon_whatever_the_bytes() {
    let world = World::new();
    let mut bytes = Vec::new();
    while bytes.len() < 2 << 20 {
        bytes.extend_from_slice(&[1, 0, 1, 0]);
    }
    let path = World::path(FileId(9));
    world.env.write_file(&path, &bytes).expect("no faults");
    let table = scan(&world, FileId(9));
    assert_eq!((table.entries, table.damages.len()), (0, 1));
    assert_eq!(table.damages[0].bytes, bytes.len() as u64);
}
