//! Trees drawn as text, plans expected as text.
//!
//! A level is `L2: 5[a-k 64M] 6[m-z 64M]`; levels are separated by `/`. After the size may follow `t50` (50 % of the
//! 10,000 entries are tombstones), `!` (they are overdue) and `*` (busy). A plan reads `merge 1:5,6 2:9 -> 2 bottom`.

use super::*;
use kingtide_base::{FileId, KeyOrder, SeqNo, built_in_comparator};

pub fn tree(text: &str) -> TreeShape {
    let mut shape = TreeShape::default();
    for part in text
        .split('/')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (name, rest) = part.split_once(':').unwrap();
        let level: usize = name.trim_start_matches('L').parse().unwrap();
        if shape.levels.len() < level {
            shape.levels.resize(level, Vec::new());
        }
        for word in rest
            .split(']')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            shape.levels[level - 1].push(table(word));
        }
    }
    shape
}

fn table(word: &str) -> TableShape {
    let (file, rest) = word.split_once('[').unwrap();
    let mut fields = rest.split_whitespace();
    let (smallest, largest) = fields.next().unwrap().split_once('-').unwrap();
    let mut shape = TableShape {
        file: FileId(file.parse().unwrap()),
        bytes: size(fields.next().unwrap()),
        entries: 10_000,
        tombstones: 0,
        smallest: smallest.as_bytes().to_vec(),
        largest: largest.as_bytes().to_vec(),
        sequence_min: SeqNo(file.parse().unwrap()),
        sequence_max: SeqNo(file.parse().unwrap()),
        busy: false,
        is_overdue: false,
    };
    for flag in fields {
        match flag {
            "*" => shape.busy = true,
            "!" => shape.is_overdue = true,
            _ => shape.tombstones = 100 * flag[1..].parse::<u64>().unwrap(),
        }
    }
    shape
}

fn size(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    number.parse::<u64>().unwrap()
        << [("K", 10), ("M", 20), ("G", 30)]
            .iter()
            .find(|(name, _)| *name == unit)
            .unwrap()
            .1
}

fn draw(plan: Option<MergePlan>) -> String {
    let Some(plan) = plan else {
        return "none".to_owned();
    };
    let mut text = (if plan.moves_only { "move" } else { "merge" }).to_owned();
    let mut level = 0;
    for input in &plan.inputs {
        if input.level == level {
            text.push_str(&format!(",{}", input.file));
        } else {
            text.push_str(&format!(" {}:{}", input.level, input.file));
            level = input.level;
        }
    }
    text.push_str(&format!(" -> {}", plan.target_level));
    if plan.is_bottom {
        text.push_str(" bottom");
    }
    text
}

pub fn options() -> PolicyOptions {
    PolicyOptions {
        level_size_ratio: 10,
        l1_file_count_trigger: 4,
        write_buffer_bytes: 64 << 20,
        min_levels: 1,
        tombstone_density_trigger: 0.5,
        tombstone_density_entries_min: 1024,
        table_bytes_target: 64 << 20,
        dividing_level_offset: 1,
    }
}

fn check(text: &str, expected: &str) {
    let plan = pick_merge(&tree(text), &options(), &KeyOrder::BYTEWISE);
    assert_eq!(draw(plan), expected, "for the tree {text}");
}

#[test]
fn a_healthy_tree_is_left_alone() {
    check("", "none");
    check("L1: 1[a-z 64M] 2[a-z 64M] 3[a-z 64M]", "none");
    check("L1: 4[a-z 64M] / L2: 1[a-k 64M] 2[m-z 64M]", "none");
    check("L1: / L2: / L3: 1[a-k 2G]", "none");
}

#[test]
fn level_one_waits_for_more_while_nobody_reads() {
    let unread = |text: &str| {
        let mut tree = tree(text);
        tree.is_unread = true;
        draw(pick_merge(&tree, &options(), &KeyOrder::BYTEWISE))
    };
    let runs = |count: usize| {
        let tables = (1..=count).map(|file| format!(" {file}[a-z 4M]"));
        format!("L1:{}", tables.collect::<String>())
    };
    assert_eq!(unread(&runs(15)), "none");
    assert!(unread(&runs(16)).starts_with("merge 1:1,2,"));
    check(&runs(5), "merge 1:1,2,3,4,5 -> 2 bottom");
    // By bytes: sixteen memtables.
    assert_eq!(unread("L1: 1[a-z 512M] 2[a-z 511M]"), "none");
    assert_eq!(
        unread("L1: 1[a-z 512M] 2[a-z 512M]"),
        "merge 1:1,2 -> 2 bottom"
    );
    // Tombstones do not wait.
    assert_eq!(
        unread("L1: 1[a-z 64M t60] / L2: 2[a-z 64M]"),
        "merge 1:1 2:2 -> 2 bottom"
    );
}

#[test]
fn level_one_merges_as_a_whole_with_what_it_overlaps() {
    check(
        "L1: 1[a-z 64M] 2[a-z 64M] 3[a-z 64M] 4[a-z 64M]",
        "merge 1:1,2,3,4 -> 2 bottom",
    );
    check(
        "L1: 5[a-c 64M] 6[b-d 64M] 7[c-e 64M] 8[b-f 64M] / L2: 1[a-b 64M] 2[e-h 64M] 3[i-z 64M]",
        "merge 1:5,6,7,8 2:1,2 -> 2 bottom",
    );
    // Only what hangs together: the part that is furthest over its bounds.
    check(
        "L1: 5[a-c 64M] 6[b-d 64M] 7[w-y 64M] 8[x-z 64M] 9[x-z 64M] / L2: 1[k-m 64M] 2[y-zz 9M]",
        "merge 1:7,8,9 2:2 -> 2 bottom",
    );
    // What overlaps the target's tables is not all of it: 2 is hit by nothing.
    check(
        "L1: 5[a-c 64M] 6[a-b 64M] 7[a-d 64M] 8[b-c 64M] / L2: 1[c-d 64M] 2[e-f 64M]",
        "merge 1:5,6,7,8 2:1 -> 2 bottom",
    );
}

#[test]
fn a_tree_at_rest_empties_level_one_where_that_is_cheap() {
    let check = |text: &str, expected: &str| {
        let plan = merge_at_rest(&tree(text), &options(), &KeyOrder::BYTEWISE, 0);
        assert_eq!(draw(plan), expected, "for the tree {text}");
    };
    check("", "none");
    check("L2: 1[a-k 64M] 2[m-z 64M]", "none");
    check("L1: 1[a-z 1M] 2[a-z 1M]", "merge 1:1,2 -> 2 bottom");
    check(
        "L1: 3[a-z 7M] / L2: 1[a-k 35M] 2[m-z 35M]",
        "merge 1:3 2:1,2 -> 2 bottom",
    );
    // More than ten times as much below.
    check("L1: 3[a-z 6M] / L2: 1[a-k 35M] 2[m-z 35M]", "none");
    // Hardly anything at all.
    check("L1: 3[a-z 63K] / L2: 1[a-z 63K]", "none");
    check(
        "L1: 3[a-z 64K] / L2: 1[a-z 640K]",
        "merge 1:3 2:1 -> 2 bottom",
    );
    // One part is worth it, another is not.
    check(
        "L1: 3[a-c 1M] 4[x-z 1M] / L2: 1[a-k 35M] 2[m-z 9M]",
        "merge 1:4 2:2 -> 2 bottom",
    );
    // What overlaps nothing moves first.
    check(
        "L1: 3[a-c 1M] 4[b-d 1M] 5[x-z 1M] / L2: 1[m-n 35M]",
        "move 1:5 -> 2 bottom",
    );
    // Another merge has what is below.
    check("L1: 3[a-z 7M] / L2: 1[a-k 35M *] 2[m-z 35M]", "none");
    // Not past a level that can hold it.
    check(
        "L1: 5[a-z 64M] / L2: 4[a-z 128M] / L3: 1[a-z 3G]",
        "merge 1:5 2:4 -> 2",
    );
}

#[test]
fn a_tree_at_rest_empties_level_one_if_what_was_flushed_pays_for_it() {
    let check = |text: &str, credit_bytes: u64, expected: &str| {
        let plan = merge_at_rest(&tree(text), &options(), &KeyOrder::BYTEWISE, credit_bytes);
        assert_eq!(draw(plan), expected, "for the tree {text}");
    };
    let small = "L1: 3[a-z 6M] / L2: 1[a-k 35M] 2[m-z 35M]";
    check(small, (70 << 20) - 1, "none");
    check(small, 70 << 20, "merge 1:3 2:1,2 -> 2 bottom");
    // Hardly anything goes too, if so much was flushed that it would be worth it.
    let hardly_anything = "L1: 3[a-z 1K] / L2: 1[a-z 63K]";
    check(hardly_anything, (64 << 10) - 1, "none");
    check(hardly_anything, 64 << 10, "merge 1:3 2:1 -> 2 bottom");
    check("L1: 3[a-z 1K] / L2: 1[a-z 65K]", 64 << 10, "none");
    // Nor does a credit make a merge dear that is cheap.
    check(
        "L1: 3[a-z 7M] / L2: 1[a-k 35M] 2[m-z 35M]",
        1,
        "merge 1:3 2:1,2 -> 2 bottom",
    );
}

#[test]
fn level_one_skips_levels_that_the_data_does_not_fill() {
    check(
        "L1: 5[a-z 64M] 6[a-z 64M] 7[a-z 64M] 8[a-z 64M] / L2: / L3: 1[a-z 900M]",
        "merge 1:5,6,7,8 3:1 -> 3 bottom",
    );
    check(
        "L1: 5[a-z 64M] 6[a-z 64M] 7[a-z 64M] 8[a-z 64M] / L2: / L3: 1[a-z 3G]",
        "merge 1:5,6,7,8 -> 2",
    );
    let mut settings = options();
    settings.min_levels = 5;
    let shape = tree("L1: 5[a-z 64M] 6[a-z 64M] 7[a-z 64M] 8[a-z 64M]");
    let plan = pick_merge(&shape, &settings, &KeyOrder::BYTEWISE);
    assert_eq!(draw(plan), "merge 1:5,6,7,8 -> 5 bottom");
}

#[test]
fn busy_tables_are_left_alone() {
    check(
        "L1: 1[a-k 64M *] 2[d-e 64M] 3[d-g 64M] 4[d-i 64M] 5[d-k 64M]",
        "none",
    );
    check(
        "L1: 5[a-z 64M] 6[a-z 64M] 7[a-z 64M] 8[a-z 64M] / L2: 1[a-b 64M *] 2[e-h 64M]",
        "none",
    );
    // Level 2 is over its bound; its cheapest table is busy, so the next one goes.
    check(
        "L2: 1[a-c 200M *] 2[d-f 200M] / L3: 3[a-a 10M] 4[d-f 300M] 5[g-z 1G]",
        "merge 2:2 3:4 -> 3 bottom",
    );
}

#[test]
fn disjoint_tables_move() {
    check(
        "L1: 1[a-b 64M] 2[c-d 64M] 3[e-f 64M] 4[g-h 64M]",
        "move 1:1,2,3,4 -> 2 bottom",
    );
    check(
        "L1: 5[k-l 64M] 6[a-c 64M] 7[b-d 64M] 8[m-n 64M] / L2: 1[a-j 64M] 2[n-z 64M]",
        "move 1:5 -> 2 bottom",
    );
    check(
        "L2: 1[a-c 200M] 2[d-f 200M] / L3: 4[e-f 300M] 5[g-z 1G]",
        "move 2:1 -> 3 bottom",
    );
}

/// `count` tables of `size` in a row, from file `first` on, with keys `prefix` and a number.
fn row(prefix: &str, first: usize, count: usize, size: &str) -> String {
    let table = |at: usize| format!("{}[{prefix}{at:02}a-{prefix}{at:02}b {size}] ", first + at);
    (0..count).map(table).collect()
}

#[test]
fn rows_of_small_tables_are_gathered() {
    let files = |range: std::ops::RangeInclusive<usize>| {
        let files: Vec<String> = range.map(|file| file.to_string()).collect();
        files.join(",")
    };
    check(&format!("L2: {}", row("a", 1, 15, "10K")), "none");
    let gathered = format!("merge 2:{} -> 2 bottom", files(1..=16));
    check(&format!("L2: {}", row("a", 1, 16, "10K")), &gathered);
    check(
        &format!("L2: 99[A-B 1M] {} 98[c-d 1M]", row("a", 1, 16, "10K")),
        &gathered,
    );
    // A large one among them parts the row; one that outweighs the others is left out.
    let parted = format!(
        "L2: {} 50[b-c 1M] {}",
        row("a", 1, 10, "10K"),
        row("d", 20, 10, "10K")
    );
    check(&parted, "none");
    check(
        &format!("L2: 0[A-B 200K] {}", row("a", 1, 16, "10K")),
        &gathered,
    );
    check(
        &format!("L2: 0[A-B 200K] {}", row("a", 1, 15, "10K")),
        "none",
    );
    // Those that do not continue each other stay as they are, up to a point.
    let turns = |count: usize| -> String {
        let table = |at: usize| format!("{}[{at:03}a-{at:03}b 10K] ", 1000 - at);
        (0..count).map(table).collect()
    };
    check(&format!("L2: {}", turns(255)), "none");
    let many = tree(&format!("L2: {}", turns(256)));
    let plan = pick_merge(&many, &options(), &KeyOrder::BYTEWISE).unwrap();
    assert_eq!((plan.inputs.len(), plan.target_level), (256, 2));
    // Level 1 is counted by what overlaps, so small tables that overlap nothing move when they are many.
    check(&format!("L1: {}", row("a", 1, 63, "10K")), "none");
    let moved = format!("move 1:{} -> 2 bottom", files(1..=64));
    check(&format!("L1: {}", row("a", 1, 64, "10K")), &moved);
}

#[test]
fn a_full_level_sheds_its_fullest_group() {
    // Level 2 may hold 150M. Of its tables 2 is fullest: 100M over 100M, where 10M would be its share.
    check(
        "L2: 1[a-c 100M] 2[d-f 100M] 3[g-k 100M] / L3: 4[a-c 300M] 5[d-f 100M] 6[g-k 100M] 7[l-z 2600M]",
        "merge 2:2 3:5 -> 3 bottom",
    );
    // Tables that overlap nothing else join a group.
    check(
        "L2: 1[a-b 50M] 2[c-d 50M] 3[e-f 50M] 4[k-k 10M] / L3: 5[a-e 1G] 6[f-h 1G] 7[i-z 1G]",
        "none",
    );
    check(
        "L2: 1[a-b 150M] 2[c-d 150M] 3[e-f 50M] 4[k-k 10M] / L3: 5[a-e 1G] 6[f-h 1G] 7[i-z 1G]",
        "merge 2:1,2 3:5 -> 3 bottom",
    );
    // A group drains early when it holds twice its share.
    check("L2: 1[a-b 19M] / L3: 5[a-e 100M] 6[f-h 3G] ", "none");
    check(
        "L2: 1[a-b 21M] / L3: 5[a-e 100M] 6[f-h 3G] ",
        "merge 2:1 3:5 -> 3 bottom",
    );
}

#[test]
fn a_level_that_the_data_does_not_fill_any_more_is_emptied() {
    // Level 2 would hold 200M, more than half of the 256M of level 1: it stays. Then 100M: it goes.
    check("L2: 1[a-b 9M] / L3: 2[a-e 2000M]", "none");
    check(
        "L2: 1[a-b 9M] / L3: 2[a-e 1000M]",
        "merge 2:1 3:2 -> 3 bottom",
    );
    // Level 3 then moves up, if level 2 has room for twice as much and nothing is in between.
    check("L2: / L3: 2[a-e 1281M]", "none");
    check("L2: / L3: 2[a-e 1280M] 3[f-g 0M]", "move 3:2,3 -> 2");
    check("L1: 1[x-z 1M] / L2: / L3: 2[a-e 1000M]", "move 3:2 -> 2");
    check("L2: / L3: 2[a-e 1000M *] 3[f-g 1M]", "none");
}

/// Where the outputs of the plan for a tree end.
fn cuts(text: &str) -> String {
    let plan = pick_merge(&tree(text), &options(), &KeyOrder::BYTEWISE).unwrap();
    let keys: Vec<_> = plan
        .cuts
        .iter()
        .map(|key| String::from_utf8_lossy(key))
        .collect();
    keys.join(" ")
}

#[test]
fn dividing_merges_end_tables_where_the_next_level_begins_some() {
    let level_one = "L1: 1[a-z 64M] 2[a-z 64M] 3[a-z 64M] 4[a-z 64M]";
    // 256M over 3G: a table of 1G takes 85M.
    let below = "L3: 10[b-c 1G] 11[d-e 1G] 12[f-g 1G]";
    check(
        &format!("{level_one} / L2: / {below}"),
        "merge 1:1,2,3,4 -> 2",
    );
    assert_eq!(cuts(&format!("{level_one} / L2: / {below}")), "d f");
    assert_eq!(
        cuts(&format!("{level_one} / L2: 5[a-d 100M] / {below}")),
        "d f"
    );
    // Tables of 100M take 8M each: pieces of 16M, a quarter of the size that tables should have, are two of them.
    let small = row("k", 10, 30, "100M");
    assert_eq!(
        cuts(&format!("{level_one} / L2: / L3: {small}"))
            .split(' ')
            .count(),
        14
    );
    // Into the last level there is nothing to end at.
    assert_eq!(cuts(&format!("{level_one} / L2: 5[a-d 100M]")), "");
}

#[test]
fn level_one_goes_as_deep_as_all_above_fits() {
    let level_one = "L1: 1[a-z 64M] 2[a-z 64M] 3[a-z 64M] 4[a-z 64M]";
    // Four levels: level 2 may hold 300M, level 3 3G.
    let below = "L4: 10[a-c 15G] 11[d-z 15G]";
    check(
        &format!("{level_one} / L2: / L3: 5[a-z 500M] / {below}"),
        "merge 1:1,2,3,4 -> 2",
    );
    check(
        &format!("{level_one} / L2: 4[b-c 60M] / L3: 5[a-z 500M] / {below}"),
        "merge 1:1,2,3,4 2:4 3:5 -> 3",
    );
    // What stays on level 2 counts too.
    check(
        &format!(
            "{} / L2: 9[b-c 60M] / L3: 5[a-z 500M] / {below}",
            level_one.replace("a-z", "k-z")
        ),
        "merge 1:1,2,3,4 3:5 -> 3",
    );
    // Level 3 is the dividing level: it takes what it cannot hold, and its groups drain.
    check(
        &format!("{level_one} / L2: 4[b-c 60M] / L3: 5[a-z 2900M] / {below}"),
        "merge 1:1,2,3,4 2:4 3:5 -> 3",
    );
}

#[test]
fn groups_go_further_down_when_the_next_level_would_be_full_at_once() {
    let mut settings = options();
    settings.dividing_level_offset = 2;
    let plan = |text: &str| draw(pick_merge(&tree(text), &settings, &KeyOrder::BYTEWISE));
    // Level 2 may hold 300M. With its part of level 3 it is below a tenth of the part of level 4, or not.
    let rest = "L4: 10[a-c 15G] 11[d-z 15G]";
    assert_eq!(
        plan(&format!(
            "L2: 1[a-c 400M] / L3: 5[a-b 500M] 6[e-z 1G] / {rest}"
        )),
        "merge 2:1 3:5 -> 3"
    );
    assert_eq!(
        plan(&format!(
            "L2: 1[a-c 400M] / L3: 5[a-b 1200M] 6[e-z 1G] / {rest}"
        )),
        "merge 2:1 3:5 4:10 -> 4 bottom"
    );
}

/// The plan for a tree while `key range, from level, to level` is reserved.
fn beside(text: &str, (smallest, largest): (&str, &str), levels: (usize, usize)) -> String {
    let mut shape = tree(text);
    shape.reserved.push(Reservation {
        smallest: smallest.into(),
        largest: largest.into(),
        from_level: levels.0,
        to_level: levels.1,
    });
    draw(pick_merge(&shape, &options(), &KeyOrder::BYTEWISE))
}

#[test]
fn plans_keep_away_from_what_is_reserved() {
    let level_one = "L1: 1[a-m 64M] 2[a-m 64M] 3[a-m 64M] 4[a-m 64M] / L2: / L3: 5[a-z 3G]";
    let merged = "merge 1:1,2,3,4 -> 2";
    assert_eq!(beside(level_one, ("n", "z"), (1, 2)), merged);
    assert_eq!(beside(level_one, ("m", "z"), (1, 2)), "none");
    assert_eq!(beside(level_one, ("m", "z"), (2, 3)), "none");
    assert_eq!(beside(level_one, ("m", "z"), (3, 3)), merged);
    // While level 1 waits, nothing starts that it would wait for next.
    let full = "L1: 1[a-m 64M] 2[a-m 64M] 3[a-m 64M] 4[a-m 64M] / L2: 6[a-b 500M] 7[k-m 50M *] / L3: 5[a-z 3G]";
    assert_eq!(beside(full, ("k", "m"), (2, 3)), "none");
    // A move stops above a running merge.
    let moves = "L2: 1[a-c 2G] / L3: 2[d-e 3G]";
    assert_eq!(beside(moves, ("p", "q"), (2, 3)), "move 2:1 -> 3 bottom");
    assert_eq!(beside(moves, ("a", "b"), (3, 3)), "none");
}

#[test]
fn the_last_level_deepens_by_moving() {
    check("L2: 1[a-c 2G] 2[d-e 600M]", "move 2:1,2 -> 3 bottom");
    check("L2: 1[a-c 2G] 2[d-e 500M]", "none");
    check("L2: 1[a-c 2G *] 2[d-e 600M]", "none");
}

#[test]
fn dense_tombstones_sink() {
    check("L1: 1[a-z 64M t60]", "merge 1:1 -> 2 bottom");
    check("L1: 1[a-z 64M t40]", "none");
    check(
        "L2: 1[a-c 64M t60] / L3: 2[a-z 64M]",
        "merge 2:1 3:2 -> 3 bottom",
    );
    // Nothing overlaps, but a move would carry the tombstones along for ever.
    check(
        "L2: 1[a-c 64M t60] / L3: 2[d-z 64M]",
        "merge 2:1 -> 3 bottom",
    );
    check(
        "L2: 1[a-c 64M t60] / L3: 2[d-z 64M] / L4: 3[b-f 60G]",
        "move 2:1 -> 3",
    );
    // At the bottom a snapshot may hold them: the same plan must not come for ever.
    check("L2: 1[a-c 64M t60]", "none");
}

#[test]
fn overdue_tombstones_sink_however_few_they_are() {
    check("L1: 1[a-z 64M t1]", "none");
    check("L1: 1[a-z 64M t1 !]", "merge 1:1 -> 2 bottom");
    // Only the part that has some, and what it lies over.
    check(
        "L1: 3[a-c 1M t1 !] 4[x-z 1M] / L2: 1[a-k 64M] 2[m-z 64M]",
        "merge 1:3 2:1 -> 2 bottom",
    );
    check(
        "L2: 1[a-c 64M t1 !] 2[d-f 64M] / L3: 3[a-k 640M]",
        "merge 2:1,2 3:3 -> 3 bottom",
    );
    check(
        "L2: 1[a-c 64M t1 !] / L3: 2[d-z 640M]",
        "merge 2:1 -> 3 bottom",
    );
    // The deepest first: its tombstones are closest to their end.
    check(
        "L2: 1[a-c 64M t1 !] / L3: 2[a-c 640M t1 !] / L4: 3[a-z 6G]",
        "merge 3:2 4:3 -> 4 bottom",
    );
    // On the last level they are rewritten, one table at a time, those that are free.
    check(
        "L2: 1[a-c 64M t1 !] 2[d-f 64M t1] 3[g-i 64M t1 !]",
        "merge 2:1 -> 2 bottom",
    );
    check(
        "L2: 1[a-c 64M t1 ! *] 3[g-i 64M t1 !]",
        "merge 2:3 -> 2 bottom",
    );
    check("L2: 1[a-c 64M t1 ! *]", "none");
    // What is more urgent goes first.
    check(
        "L1: 5[a-c 64M] 6[a-c 64M] 7[a-c 64M] 8[a-c 64M] / L2: 1[g-i 64M t1 !]",
        "merge 1:5,6,7,8 -> 2 bottom",
    );
}

#[test]
fn manual_compaction_takes_everything_and_waits_for_running_merges() {
    let all = |text| draw(merge_all(&tree(text), &options(), &KeyOrder::BYTEWISE));
    assert_eq!(all(""), "none");
    assert_eq!(all("L1: 1[a-b 1M]"), "merge 1:1 -> 2 bottom");
    assert_eq!(
        all("L1: 3[a-b 1M] 4[a-d 1M] / L2: / L3: 1[a-b 1M] 2[d-e 1M]"),
        "merge 1:3,4 3:1,2 -> 3 bottom"
    );
    assert_eq!(all("L1: 3[a-b 1M *] / L2: 1[a-b 1M]"), "none");
}

#[test]
fn compaction_of_a_range_takes_what_overlaps_and_nothing_else() {
    let range = |text: &str, start: Option<&str>, end: Option<&str>| {
        let range = (start.map(str::as_bytes), end.map(str::as_bytes));
        draw(merge_range(
            &tree(text),
            &options(),
            &KeyOrder::BYTEWISE,
            range,
        ))
    };
    let apart = "L1: 3[a-b 1M] 4[m-n 1M] / L2: 1[a-c 1M] 2[k-z 1M]";
    assert_eq!(range("", Some("a"), None), "none");
    assert_eq!(range(apart, Some("d"), Some("j")), "none");
    assert_eq!(range(apart, Some("n"), Some("d")), "none");
    assert_eq!(range(apart, None, Some("a")), "merge 1:3 2:1 -> 2 bottom");
    assert_eq!(
        range(apart, Some("c"), Some("d")),
        "merge 1:3 2:1 -> 2 bottom"
    );
    assert_eq!(range(apart, Some("z"), None), "merge 1:4 2:2 -> 2 bottom");
    // One table leads to the next: 1 overlaps 2, and 2 reaches to 3.
    let chain = "L1: 1[a-d 1M] 2[c-g 1M] 4[x-z 1M] / L2: / L3: 3[f-h 1M] 5[k-l 1M]";
    assert_eq!(
        range(chain, Some("a"), Some("b")),
        "merge 1:1,2 3:3 -> 3 bottom"
    );
    // A table in a gap of the others lies between the smallest and the largest key: it comes along.
    let gap = "L1: 1[a-z 1M] / L2: 2[a-b 1M] 3[m-n 1M *] 4[y-z 1M]";
    assert_eq!(range(gap, Some("a"), Some("a")), "none");
    let gap = gap.replace(" *", "");
    assert_eq!(
        range(&gap, Some("a"), Some("a")),
        "merge 1:1 2:2,3,4 -> 2 bottom"
    );
}

#[test]
fn ranges_follow_the_order_of_the_family() {
    let order = KeyOrder::new(built_in_comparator("reverse_memcmp").unwrap());
    let shape = tree("L1: 5[d-b 64M] 6[d-b 64M] 7[d-b 64M] 8[d-b 64M] / L2: 1[z-e 64M] 2[c-a 64M]");
    assert_eq!(
        draw(pick_merge(&shape, &options(), &order)),
        "merge 1:5,6,7,8 2:2 -> 2 bottom"
    );
}

#[test]
fn outputs_are_even_and_not_cut_for_a_small_rest() {
    let shape = tree("L1: 1[a-z 40M] 2[a-z 40M] 3[a-z 40M] 4[a-z 10M]");
    let plan = pick_merge(&shape, &options(), &KeyOrder::BYTEWISE).unwrap();
    assert!(plan.output_table_bytes > (130 << 20) / 3);
    assert!(plan.output_table_bytes <= 64 << 20);
}
