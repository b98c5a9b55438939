//! The history: each sync mode, rotation, flush, merge, edits of the manifest, changes of families, reopening.

use std::time::Duration;

use kingtide::{Compression, FamilyOptions, SyncMode};

use crate::{random::Random, world::SPILL_BYTES_MIN};

/// Sorts behind every key of the history, in the orders that it uses.
pub const LAST_KEY: &[u8] = b"~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~";

/// One write: family, key, value (`None` deletes).
pub type StepWrite = (&'static str, Vec<u8>, Option<Vec<u8>>);

/// A range that is deleted: family, start, end.
pub type StepRange = (&'static str, &'static str, &'static str);

/// What happens as a whole or not at all.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates a family.
    Create(&'static str, FamilyOptions),
    /// Drops a family.
    Drop(&'static str),
    /// Renames a family.
    Rename(&'static str, &'static str),
    /// Clones a family.
    Clone(&'static str, &'static str),
    /// Commits one transaction.
    Commit(Vec<StepWrite>, SyncMode),
    /// Prepares a transaction under a name.
    Prepare(&'static str, Vec<StepWrite>),
    /// Commits the prepared transaction of that name.
    CommitPrepared(&'static str, SyncMode),
    /// Rolls the prepared transaction of that name back. True when one of its families writes in mode full.
    RollbackPrepared(&'static str, bool),
    /// Commits one transaction that deletes a range and, if asked, writes its start again.
    DeleteRange(StepRange, Option<&'static str>, SyncMode),
    /// Makes everything acknowledged durable.
    SyncWal,
    /// Writes the memtable of a family to a table.
    Flush(&'static str),
    /// Merges a family to the bottom.
    Compact(&'static str),
    /// Waits until nothing is left to be done in the background; value files that are mostly dead are emptied.
    Rest,
    /// Closes and opens.
    Reopen,
}

const INTERVAL: SyncMode = SyncMode::Interval(Duration::from_millis(5));

fn family(sync: SyncMode, compression: Compression, comparator: &str) -> FamilyOptions {
    FamilyOptions {
        write_buffer_bytes: 8 << 10,
        l1_file_count_trigger: 2,
        level_size_ratio: 2,
        value_threshold_bytes: 256,
        disk_free_bytes_min: 0,
        sync,
        compression,
        comparator: comparator.to_owned(),
        ..FamilyOptions::default()
    }
}

/// A transaction that writes `count` keys to each of `families`; every fifth write deletes.
fn commit(number: usize, families: &[&'static str], count: usize, sync: SyncMode) -> Step {
    let mut writes = Vec::new();
    for index in 0..count {
        for (place, name) in families.iter().enumerate() {
            let draw = (number * 31 + index * 7 + place) % 40;
            let key = format!("key{draw:02}").into_bytes();
            let is_delete = (number + index) % 5 == 4;
            let length = if draw.is_multiple_of(11) {
                700
            } else {
                120 + draw
            };
            let value = format!("{number}.{index}.{name}|")
                .repeat(length / 8)
                .into_bytes();
            writes.push((*name, key, (!is_delete).then_some(value)));
        }
    }
    Step::Commit(writes, sync)
}

/// Prepares a transaction that writes two keys of its own to each of `families`, and deletes one of others.
fn prepare(xid: &'static str, families: &[&'static str]) -> Step {
    let mut writes = Vec::new();
    for name in families {
        for index in 0..2 {
            let key = format!("of {xid} {index}").into_bytes();
            let value = format!("{name} {index} |")
                // The second one is spilled.
                .repeat(400 * index + 1)
                .into_bytes();
            writes.push((*name, key, Some(value)));
        }
        // No other step writes it.
        writes.push((*name, format!("of {xid} gone").into_bytes(), None));
    }
    Step::Prepare(xid, writes)
}

/// A transaction that deletes a range and writes its first key again.
fn delete_range(range: StepRange, sync: SyncMode) -> Step {
    Step::DeleteRange(range, Some("again"), sync)
}

/// A transaction of about `values` times 70 KB, so that the log goes on in another segment: in values that are just too
/// short to be spilled.
fn bulk(number: usize, family: &'static str, values: usize) -> Step {
    let mut random = Random::new(number as u64);
    let write = |index: usize| {
        let key = format!("bulk{:02}", index % 7).into_bytes();
        (family, key, Some(random.bytes(SPILL_BYTES_MIN - 100)))
    };
    Step::Commit((0..values * 50).map(write).collect(), SyncMode::None)
}

/// A transaction that writes a value in a file of its own to each of `families`, twice to the first.
fn spilled(number: usize, families: &[&'static str], sync: SyncMode) -> Step {
    let mut random = Random::new(number as u64);
    let twice = families.iter().take(1).chain(families);
    let write = |name: &&'static str| {
        let key = format!("spilled{}", number % 2).into_bytes();
        (*name, key, Some(random.bytes(SPILL_BYTES_MIN + 300)))
    };
    Step::Commit(twice.map(write).collect(), sync)
}

/// A transaction that writes the first `keys` long values of `family`, each of 1 KiB.
fn long_values(number: usize, family: &'static str, keys: usize) -> Step {
    let mut random = Random::new(number as u64);
    let write = |index: usize| {
        let key = format!("long{index:02}").into_bytes();
        (family, key, Some(random.bytes(1024)))
    };
    Step::Commit((0..keys).map(write).collect(), SyncMode::None)
}

/// Of the long values in two value files one each stays live: both files are emptied.
fn collection(family: &'static str) -> Vec<Step> {
    vec![
        long_values(25, family, 12),
        Step::Flush(family),
        long_values(26, family, 11),
        Step::Flush(family),
        long_values(27, family, 10),
        Step::Compact(family),
        long_values(28, family, 1),
        Step::Rest,
    ]
}

/// Transactions that are prepared and ended, before and after syncs.
fn two_phases() -> Vec<Step> {
    vec![
        prepare("committed in mode none", &["a", "b", "c"]),
        prepare("committed in mode full", &["a", "c"]),
        prepare("rolled back in mode none", &["a"]),
        Step::CommitPrepared("committed in mode none", SyncMode::None),
        Step::RollbackPrepared("rolled back in mode none", false),
        Step::SyncWal,
        prepare("rolled back in mode full", &["b"]),
        Step::CommitPrepared("committed in mode full", SyncMode::Full),
        Step::RollbackPrepared("rolled back in mode full", true),
        prepare("flushed", &["a", "c"]),
        Step::CommitPrepared("flushed", SyncMode::None),
    ]
}

/// The history. Families `a` to `c` write in mode none, full and interval.
#[must_use]
pub fn steps() -> Vec<Step> {
    let modes = [SyncMode::None, SyncMode::Full, INTERVAL];
    let mut steps = vec![
        Step::Create("a", family(SyncMode::None, Compression::Lz4, "memcmp")),
        Step::Create("b", family(SyncMode::Full, Compression::None, "memcmp")),
        Step::Create("c", family(INTERVAL, Compression::Zstd, "case_insensitive")),
    ];
    for number in 0..6 {
        steps.push(commit(number, &["a", "b", "c"], 3, modes[number % 3]));
    }
    steps.extend(two_phases());
    steps.push(commit(6, &["a", "c"], 2, SyncMode::None));
    steps.push(spilled(40, &["a", "b"], SyncMode::None));
    steps.push(spilled(41, &["c", "a"], SyncMode::Full));
    steps.push(Step::Flush("a"));
    steps.push(delete_range(("b", "key10", "key20"), SyncMode::Full));
    // Enough to rotate memtables on the way.
    for number in 7..13 {
        steps.push(commit(number, &["a", "b"], 12, modes[number % 2]));
    }
    steps.push(delete_range(("a", "key03", "key17"), SyncMode::None));
    steps.push(Step::Flush("a"));
    steps.push(delete_range(("a", "key30", "key35"), SyncMode::None));
    steps.push(Step::Compact("a"));
    steps.push(commit(13, &["a", "b", "c"], 2, SyncMode::None));
    steps.push(Step::Clone("b", "d"));
    steps.push(commit(14, &["b", "d"], 2, SyncMode::None));
    steps.push(Step::Rename("c", "e"));
    steps.push(commit(15, &["d", "e"], 2, INTERVAL));
    steps.push(delete_range(("e", "key00", "Key12"), INTERVAL));
    steps.push(prepare("over openings", &["a", "e"]));
    steps.push(prepare("over one opening", &["d"]));
    steps.push(Step::Reopen);
    steps.push(Step::CommitPrepared("over one opening", SyncMode::None));
    steps.push(commit(16, &["a", "d", "e"], 4, SyncMode::None));
    steps.push(Step::Drop("b"));
    steps.push(commit(17, &["d", "e"], 8, SyncMode::Full));
    steps.push(Step::Flush("d"));
    steps.push(Step::Compact("d"));
    steps.push(Step::Reopen);
    steps.extend(collection("d"));
    // Family `a` keeps one small commit in memory while the log goes through several segments.
    steps.push(commit(24, &["a"], 1, SyncMode::None));
    for number in 0..5 {
        steps.push(bulk(number, "e", 8));
    }
    // Nothing but what is prepared holds the first segments back: it is copied forward.
    steps.push(Step::Flush("a"));
    steps.push(Step::Flush("e"));
    steps.push(Step::CommitPrepared("over openings", INTERVAL));
    steps.push(prepare("left behind", &["a", "d"]));
    for number in 18..22 {
        steps.push(commit(number, &["a", "e"], 10, SyncMode::None));
    }
    steps.push(Step::Create(
        "f",
        family(SyncMode::Full, Compression::Snappy, "memcmp"),
    ));
    steps.push(commit(22, &["f", "a"], 1, SyncMode::Full));
    steps.push(commit(23, &["f", "e"], 1, SyncMode::None));
    steps.push(spilled(42, &["f", "e"], SyncMode::None));
    steps.push(spilled(44, &["f", "a"], SyncMode::None));
    steps
}
