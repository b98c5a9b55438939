use super::*;
use kingtide_base::built_in_comparator;

const MIB: u64 = 1 << 20;
const GARBAGE_BYTES_MIN: u64 = 64 << 10;

fn pick(shape: &ValueShape, live_ratio_min: f64) -> ValueWork {
    let bounds = ValueBounds {
        live_ratio_min,
        garbage_bytes_min: GARBAGE_BYTES_MIN,
        flush_bytes: MIB,
    };
    pick_value_work(shape, bounds)
}

fn shape(files: &[(u64, u64, u64)], hidden_bytes: u64) -> ValueShape {
    let file = |(id, bytes, listed): &(u64, u64, u64)| ValueFileShape {
        file: FileId(*id),
        bytes: bytes * MIB,
        listed_bytes: listed * MIB,
    };
    ValueShape {
        files: files.iter().map(file).collect(),
        hidden_bytes: hidden_bytes * MIB,
        ..ValueShape::default()
    }
}

fn files(ids: &[u64]) -> BTreeSet<FileId> {
    ids.iter().copied().map(FileId).collect()
}

#[test]
fn healthy_files_are_left_alone() {
    assert!(pick(&ValueShape::default(), 0.5).is_none());
    assert!(pick(&shape(&[(1, 100, 60), (2, 100, 60)], 0), 0.5).is_none());
    // One empty file among full ones is within the bound.
    assert!(pick(&shape(&[(1, 100, 100), (2, 20, 1)], 0), 0.5).is_none());
    assert!(pick(&shape(&[(1, 100, 1)], 0), 0.0).is_none());
    assert!(pick(&shape(&[(1, 100, 1)], 0), f64::NAN).is_none());
    let small = ValueShape {
        files: vec![ValueFileShape {
            file: FileId(1),
            bytes: GARBAGE_BYTES_MIN,
            listed_bytes: 1,
        }],
        ..ValueShape::default()
    };
    assert!(pick(&small, 0.5).is_none());
}

#[test]
fn the_emptiest_files_go_first_and_no_more_than_needed() {
    let work = pick(
        &shape(&[(1, 100, 80), (2, 100, 10), (3, 100, 50), (4, 100, 30)], 0),
        0.5,
    );
    // 170 of 400; without the garbage of 2, 170 of 310; of 4, 170 of 240.
    assert_eq!(work.empty, files(&[2, 4]));
    assert!(!work.uncover);
}

#[test]
fn files_that_are_being_emptied_stay_chosen_until_they_are_gone() {
    let mut shape = shape(&[(1, 100, 90), (2, 100, 70)], 0);
    shape.emptying = files(&[2, 9]);
    let work = pick(&shape, 0.5);
    assert_eq!(work.empty, files(&[2]));
    assert!(!work.uncover);
}

#[test]
fn hidden_values_are_uncovered_before_others_are_copied() {
    // Nothing is known to be dead, but half of it may be.
    let work = pick(&shape(&[(1, 100, 100), (2, 100, 100)], 100), 0.5);
    assert!(work.uncover && work.empty.is_empty());
    // Both: one pass does both.
    let work = pick(&shape(&[(1, 100, 20), (2, 100, 80)], 30), 0.5);
    assert!(work.uncover);
    assert_eq!(work.empty, files(&[1]));
    // Too little is hidden to look for it.
    let work = pick(&shape(&[(1, 100, 20), (2, 100, 80)], 1), 0.5);
    assert!(!work.uncover);
}

/// Goal: doing what is answered reaches the bound and ends. Method: random shapes; the chosen files are replaced by one
/// that holds what was listed in them, hidden values become garbage.
#[test]
fn the_work_ends_with_the_bound_kept() {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..2000 {
        let mut shape = ValueShape::default();
        for id in 0..random(20) {
            let bytes = 1 + random(64 * MIB);
            let listed_bytes = random(bytes + bytes / 4);
            shape.files.push(ValueFileShape {
                file: FileId(id),
                bytes,
                listed_bytes,
            });
        }
        shape.hidden_bytes = random(shape.listed_bytes().max(1));
        let mut steps = 0;
        loop {
            let work = pick(&shape, 0.5);
            if work.is_none() {
                break;
            }
            steps += 1;
            assert!(steps < 10, "round {round} does not end: {shape:?}");
            apply(&mut shape, &work);
        }
        let (bytes, live) = (shape.bytes(), shape.listed_bytes() - shape.hidden_bytes);
        assert!(
            bytes <= 2 * live + GARBAGE_BYTES_MIN,
            "round {round}: {live} of {bytes}"
        );
    }
}

fn apply(shape: &mut ValueShape, work: &ValueWork) {
    if work.uncover {
        let mut hidden = std::mem::take(&mut shape.hidden_bytes);
        for file in &mut shape.files {
            file.listed_bytes = file.listed();
            let dead = hidden.min(file.listed_bytes);
            file.listed_bytes -= dead;
            hidden -= dead;
        }
        shape.files.retain(|file| file.listed_bytes > 0);
    }
    let is_chosen = |file: &&ValueFileShape| work.empty.contains(&file.file);
    let moved: u64 = shape
        .files
        .iter()
        .filter(is_chosen)
        .map(ValueFileShape::listed)
        .sum();
    shape.files.retain(|file| !work.empty.contains(&file.file));
    if moved > 0 {
        let next = shape.files.iter().map(|file| file.file.0).max();
        shape.files.push(ValueFileShape {
            file: FileId(1000 + next.unwrap_or(0)),
            bytes: moved,
            listed_bytes: moved,
        });
    }
}

fn table(keys: &'static str, entries: u64, records: u64) -> ValueTable<'static> {
    let (smallest, largest) = keys.split_at(1);
    ValueTable {
        smallest: smallest.as_bytes(),
        largest: largest.as_bytes(),
        entries,
        has_range_deletes: false,
        records,
        bytes: records * 100,
    }
}

fn hidden(runs: &[Vec<ValueTable<'_>>], newer: NewerDeletes) -> u64 {
    let order = KeyOrder::new(built_in_comparator("memcmp").unwrap());
    hidden_bytes_max(runs, newer, &order)
}

#[test]
fn hidden_values_lie_under_newer_entries() {
    let none = NewerDeletes::default();
    assert_eq!(hidden(&[], none), 0);
    // Disjoint: nothing can be hidden, however many runs there are.
    let apart = [
        vec![table("ac", 10, 10)],
        vec![table("de", 10, 10), table("fg", 10, 10)],
    ];
    assert_eq!(hidden(&apart, none), 0);
    // Ten newer entries hide ten values at most, and not those of the table beside.
    let over = [
        vec![table("ac", 10, 10)],
        vec![table("bd", 50, 50), table("ef", 50, 50)],
    ];
    assert_eq!(hidden(&over, none), 1000);
    // Many newer entries hide all that they overlap.
    let many = [
        vec![table("ac", 1000, 0)],
        vec![table("bd", 50, 50), table("ef", 50, 50)],
    ];
    assert_eq!(hidden(&many, none), 5000);
    let mut with_range = table("ac", 1, 0);
    with_range.has_range_deletes = true;
    let ranges = [
        vec![with_range],
        vec![table("bd", 50, 50), table("ef", 50, 50)],
    ];
    assert_eq!(hidden(&ranges, none), 5000);
}

#[test]
fn tombstones_in_memory_hide_values_of_any_table() {
    let runs = [vec![table("ac", 10, 10)], vec![table("de", 10, 10)]];
    let tombstones = |tombstones| NewerDeletes {
        tombstones,
        has_range_deletes: false,
    };
    assert_eq!(hidden(&runs, tombstones(5)), 500);
    assert_eq!(hidden(&runs, tombstones(50)), 2000);
    let ranges = NewerDeletes {
        tombstones: 0,
        has_range_deletes: true,
    };
    assert_eq!(hidden(&runs, ranges), 2000);
}

/// Goal: value files may take what the bound allows, small sets a few flushes more, and what is about to be copied counts
/// before it is. Method: sets of known size; what is known to live counts however much may be hidden.
#[test]
fn the_room_is_the_bound_or_a_few_flushes() {
    let bounds = ValueBounds {
        live_ratio_min: 0.5,
        garbage_bytes_min: GARBAGE_BYTES_MIN,
        flush_bytes: 8 * MIB,
    };
    let after = |shape: &ValueShape, live_bytes: u64, hidden_share: f64| {
        let last = LastPass {
            live_bytes: live_bytes * MIB,
            hidden_share,
        };
        let room = value_room(shape, bounds, last);
        (room.taken / MIB, room.most / MIB)
    };
    let room = |shape: &ValueShape, live_bytes| after(shape, live_bytes, 1.0);
    let large = shape(&[(1, 100, 40), (2, 100, 100)], 40);
    assert_eq!(room(&large, 0), (200, 200), "what is certain");
    assert_eq!(room(&large, 90), (200, 200), "less was known");
    assert_eq!(room(&large, 120), (200, 240), "more was known");
    assert_eq!(after(&large, 0, 0.5), (200, 240), "half of it was hidden");
    assert_eq!(after(&large, 0, 0.0), (200, 280), "keys are only added");
    let emptying = ValueShape {
        emptying: files(&[1, 7]),
        table_bytes: 10 * MIB,
        ..large
    };
    assert_eq!(room(&emptying, 0), (250, 220), "tables and copies count");
    let small = shape(&[(1, 10, 4)], 4);
    assert_eq!(room(&small, 0), (10, 32));
    assert_eq!(room(&small, 4), (10, 36));
}
