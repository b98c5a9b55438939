use std::sync::Arc;

use kingtide_base::{Cursor, EntryKind, KeyOrder, SeqNo, limits};

use super::{Full, Memtable, MemtableOp, PassCursor, Shape, loose::SORTED_MIN};
use crate::{
    arena::ArenaPool,
    pages::PageSize,
    sorted_run::PreparedRun,
    testing::{ModelCursor, ModelEntry, Random, in_run, orders, seen, sort_model, walk_both},
};

fn memtable(order: &KeyOrder, bytes: usize, entries_max: usize) -> Arc<Memtable> {
    let pool = ArenaPool::new(0);
    Arc::new(Memtable::new(order.clone(), &pool, bytes, entries_max))
}

fn shape(bytes: usize, entries_max: usize, list_entries: usize) -> Shape {
    Shape {
        bytes,
        entries_max,
        list_entries,
        pages: PageSize::Small,
    }
}

fn ops<'a>(
    order: &'a KeyOrder,
    batch: &'a [ModelEntry],
) -> (usize, impl Fn(usize) -> MemtableOp<'a>) {
    let op_at = |number: usize| {
        let entry = &batch[number];
        MemtableOp {
            kind: entry.kind,
            expires_at: entry.expires_at,
            hash: order.hash(&entry.key).unwrap_or(0),
            key: &entry.key,
            value: &entry.value,
        }
    };
    (batch.len(), op_at)
}

fn run_of(order: &KeyOrder, batch: &[ModelEntry]) -> PreparedRun {
    PreparedRun::sort(order, batch.len(), |index| {
        let entry = &batch[index as usize];
        (entry.kind, &entry.key)
    })
}

fn batch(random: &mut Random, variety: usize, count: usize, sequence: u64) -> Vec<ModelEntry> {
    (0..count)
        .map(|index| {
            let is_delete = random.chance(5);
            let value_bytes = if is_delete { 0 } else { random.below(40) };
            ModelEntry {
                key: random.key(variety),
                sequence: SeqNo(sequence),
                age: sequence as usize * 100_000 + index,
                kind: if is_delete {
                    EntryKind::Delete
                } else {
                    EntryKind::Put
                },
                expires_at: if random.chance(4) {
                    1 + random.below(1000) as i64
                } else {
                    0
                },
                value: vec![index as u8; value_bytes],
            }
        })
        .collect()
}

/// All cursors of `memtable` merged, which is how it is read.
fn merged(memtable: &Arc<Memtable>) -> crate::MergeCursor<Box<dyn Cursor>> {
    crate::MergeCursor::new(memtable.order().clone(), memtable.cursors())
}

/// Compares point reads with the sorted `model`.
fn check_reads(memtable: &Memtable, model: &[ModelEntry], random: &mut Random, snapshot_end: u64) {
    let order = memtable.order();
    for _ in 0..60 {
        let key = random.key(120);
        let snapshot = SeqNo(random.below(snapshot_end as usize + 2) as u64);
        let versions = || model.iter().filter(|e| order.compare(&e.key, &key).is_eq());
        let wanted = versions().find(|entry| entry.sequence <= snapshot);
        let hash = if random.chance(2) {
            order.hash(&key)
        } else {
            None
        };
        let found = memtable.get(&key, hash, snapshot);
        let place = format!(
            "{} seed {} {key:?} at {snapshot}",
            order.name(),
            random.seed
        );
        assert_eq!(found.is_some(), wanted.is_some(), "{place}");
        if let (Some(found), Some(wanted)) = (found, wanted) {
            assert_eq!(found.key, wanted.key, "{place}");
            assert_eq!(found.sequence, wanted.sequence, "{place}");
            assert_eq!(found.kind, wanted.kind, "{place}");
            assert_eq!(found.expires_at, wanted.expires_at, "{place}");
            assert_eq!(found.value, wanted.value, "{place}");
            assert_eq!(memtable.entry(found.offset), Some(found));
        }
        assert_eq!(
            memtable.latest_sequence(&key, hash),
            versions().next().map(|entry| entry.sequence),
            "{place}"
        );
    }
}

/// Goal: a memtable is a sorted vector of versions. Method: random commits of all sizes, with runs and without, for every
/// order; reads and walks beside the model.
#[test]
fn is_like_a_sorted_vector_of_versions() {
    for (number, order) in orders().into_iter().enumerate() {
        for round in 0..6 {
            let mut random = Random::new(number as u64 * 10 + round);
            // Short lists in every second round, so that lists are frozen, replaced and merged too.
            let list_entries = if round % 2 == 0 { 4096 } else { 10 };
            let pool = ArenaPool::new(0);
            let memtable =
                Memtable::of_shape(order.clone(), &pool, shape(1 << 20, 4000, list_entries));
            let memtable = Arc::new(memtable);
            let mut model: Vec<ModelEntry> = Vec::new();
            assert!(memtable.is_empty());
            assert_eq!(memtable.run_count(), 0);
            for sequence in 1..60 {
                let count = match random.below(10) {
                    0..6 => 1 + random.below(4),
                    6 => 0,
                    _ => random.below(90),
                };
                let batch = batch(&mut random, 120, count, sequence);
                let has_run = batch.len() >= 32 || random.chance(10);
                let run = has_run.then(|| run_of(&order, &batch));
                memtable
                    .insert(SeqNo(sequence), ops(&order, &batch), run)
                    .expect("it fits");
                model.extend(match has_run {
                    true => in_run(&batch, &order),
                    false => batch,
                });
                if memtable.is_unarranged() || random.chance(8) {
                    memtable.arrange();
                }
                if sequence % 20 == 0 {
                    sort_model(&mut model, &order);
                    check_reads(&memtable, &model, &mut random, sequence);
                    let mut walk = |cursor: &mut dyn Cursor| {
                        let mut walked = ModelCursor::new(order.clone(), model.clone());
                        walk_both(&mut random, 200, 120, cursor, &mut walked);
                    };
                    walk(&mut merged(&memtable));
                    // Portions of all sizes: of few entries of each source, of many, of everything.
                    for entries in [1, 100, 4096] {
                        walk(&mut PassCursor::new(Arc::clone(&memtable), entries));
                    }
                    while random.chance(2) && memtable.merge_runs(&[]) {}
                }
            }
            assert_eq!(memtable.entries(), model.len());
            let bytes: usize = model
                .iter()
                .map(|e| Memtable::entry_bytes(e.key.len(), e.value.len(), e.expires_at != 0))
                .sum();
            assert_eq!(memtable.bytes(), bytes);
            let sequences = model.iter().map(|entry| entry.sequence);
            assert_eq!(Some(memtable.largest_sequence()), sequences.clone().max());
            assert_eq!(Some(memtable.smallest_sequence()), sequences.min());
        }
    }
}

/// Goal: arrivals are what came, commit by commit, and no place hides anything newer than its number. Method: commits of random
/// size, every number and many tails asked for against a list; within a commit the order is that of its run, if it has one.
#[test]
fn arrivals_are_what_came_in_order() {
    for order in orders() {
        let mut random = Random::new(0xA22);
        let memtable = memtable(&order, 1 << 20, 10_000);
        let mut came: Vec<(Vec<u8>, SeqNo)> = Vec::new();
        let mut tails = vec![(Memtable::START, 0)];
        for sequence in 1..300 {
            let bound = if random.chance(10) { 60 } else { 4 };
            let count = 1 + random.below(bound);
            let batch = batch(&mut random, 100, count, sequence);
            let has_run = batch.len() >= 32;
            let run = has_run.then(|| run_of(&order, &batch));
            memtable
                .insert(SeqNo(sequence), ops(&order, &batch), run)
                .expect("there is room");
            let batch = match has_run {
                true => in_run(&batch, &order),
                false => batch,
            };
            came.extend(batch.into_iter().map(|entry| (entry.key, entry.sequence)));
            tails.push((memtable.tail(), came.len()));
        }
        let by_commit = |mut entries: Vec<(Vec<u8>, SeqNo)>| {
            assert!(entries.is_sorted_by_key(|entry| entry.1));
            entries.sort_by(|left, right| (left.1, &left.0).cmp(&(right.1, &right.0)));
            entries
        };
        let came = by_commit(came);
        let seen = |place| -> Vec<(Vec<u8>, SeqNo)> {
            let entries = memtable.arrivals(place);
            by_commit(
                entries
                    .map(|entry| (entry.key.to_vec(), entry.sequence))
                    .collect(),
            )
        };
        for (place, before) in tails {
            assert_eq!(seen(place), came[before..], "{}", order.name());
        }
        let mut is_late = false;
        for since in 0..300 {
            let place = memtable.place_after(SeqNo(since));
            let seen = seen(place);
            assert!(came.ends_with(&seen), "{}", order.name());
            let passed = &came[..came.len() - seen.len()];
            assert!(passed.iter().all(|(_, sequence)| sequence.0 <= since));
            is_late |= !passed.is_empty();
        }
        assert!(is_late, "some places are behind the start");
    }
}

/// Goal: merging changes neither what live snapshots read nor what open cursors see. Method: commits with runs; merges
/// with some snapshots; reads at these snapshots before and after.
#[test]
fn merging_keeps_what_snapshots_see() {
    for (number, order) in orders().into_iter().enumerate() {
        let mut random = Random::new(number as u64);
        let memtable = memtable(&order, 2 << 20, 8000);
        let mut model: Vec<ModelEntry> = Vec::new();
        for sequence in 1..=100 {
            let batch = batch(&mut random, 60, 40, sequence);
            let run = run_of(&order, &batch);
            memtable
                .insert(SeqNo(sequence), ops(&order, &batch), Some(run))
                .expect("it fits");
            model.extend(in_run(&batch, &order));
        }
        sort_model(&mut model, &order);
        assert_eq!(memtable.run_count(), 100);
        let mut open_before = merged(&memtable);
        let snapshots = [SeqNo(30), SeqNo(55), SeqNo(90)];
        while memtable.merge_runs(&snapshots) {}
        assert!(memtable.run_count() <= 12, "{} runs", memtable.run_count());

        let mut walked = ModelCursor::new(order.clone(), model.clone());
        walk_both(&mut random, 300, 60, &mut open_before, &mut walked);
        for entry in &model {
            for snapshot in snapshots {
                let wanted = model
                    .iter()
                    .find(|e| order.compare(&e.key, &entry.key).is_eq() && e.sequence <= snapshot);
                let by_index = memtable.get(&entry.key, None, snapshot);
                let by_search = memtable.search(&entry.key, snapshot);
                assert_eq!(by_index.map(|e| e.value), wanted.map(|e| &e.value[..]));
                assert_eq!(by_search, by_index);
            }
        }
        let mut cursor = merged(&memtable);
        cursor.seek_first().expect("memory does not fail");
        let mut left = 0;
        while cursor.is_valid() {
            left += 1;
            cursor.next().expect("memory does not fail");
        }
        assert!(left < model.len() / 3, "{left} of {}", model.len());
    }
}

/// Goal: what does not fit leaves no trace. Method: fill a memtable, then insert batches that fail at every point, and
/// compare everything with the state before.
#[test]
fn what_does_not_fit_is_not_inserted() {
    let order = KeyOrder::BYTEWISE;
    for room in 0..25 {
        let mut random = Random::new(room as u64);
        let first = batch(&mut random, 30, 60, 1);
        let second = batch(&mut random, 60, 40, 2);
        let bytes_of = |batch: &[ModelEntry]| -> usize {
            let bytes = |e: &ModelEntry| {
                Memtable::entry_bytes(e.key.len(), e.value.len(), e.expires_at != 0)
            };
            batch.iter().map(bytes).sum()
        };
        let memtable = memtable(&order, bytes_of(&first) + room * 64, 1000);
        memtable
            .insert(SeqNo(1), ops(&order, &first), None)
            .expect("it fits");
        assert!(!memtable.fits(bytes_of(&second), second.len()));
        let run = (room % 2 == 0).then(|| run_of(&order, &second));
        let outcome = memtable.insert(SeqNo(2), ops(&order, &second), run);
        assert_eq!(outcome, Err(Full));
        let mut model = first.clone();
        sort_model(&mut model, &order);
        check_reads(&memtable, &model, &mut random, 3);
        let mut walked = ModelCursor::new(order.clone(), model.clone());
        walk_both(&mut random, 100, 60, &mut merged(&memtable), &mut walked);
        assert_eq!(memtable.entries(), 60);
        assert_eq!(memtable.largest_sequence(), SeqNo(1));
    }
}

#[test]
fn a_full_index_is_full_before_anything_is_inserted() {
    let order = KeyOrder::BYTEWISE;
    let memtable = memtable(&order, 1 << 20, 14);
    let entries: Vec<ModelEntry> = (0..15_u8)
        .map(|number| ModelEntry {
            key: vec![number],
            sequence: SeqNo(1),
            age: 0,
            kind: EntryKind::Put,
            expires_at: 0,
            value: Vec::new(),
        })
        .collect();
    let insert = |sequence, batch| memtable.insert(SeqNo(sequence), ops(&order, batch), None);
    let room = memtable.index.as_ref().map_or(0, |index| index.free_keys());
    assert!(room >= 14);
    if room < 15 {
        assert_eq!(insert(1, &entries), Err(Full));
        assert!(memtable.is_empty());
    }
    insert(1, &entries[..14]).expect("asked for 14");
    // Overwriting takes no slots, but the check in advance cannot know.
    insert(2, &[]).expect("nothing always fits");
    assert_eq!(memtable.entries(), 14);
}

#[test]
fn a_run_of_other_operations_is_refused() {
    let order = KeyOrder::BYTEWISE;
    let memtable = memtable(&order, 1 << 20, 100);
    let batch = batch(&mut Random::new(1), 30, 40, 1);
    let run = run_of(&order, &batch[..39]);
    let outcome = memtable.insert(SeqNo(1), ops(&order, &batch), Some(run));
    assert_eq!(outcome, Err(Full));
    assert!(memtable.is_empty());
}

/// All entries of `memtable` in order.
fn all(memtable: &Arc<Memtable>) -> Vec<crate::testing::Seen> {
    let mut cursor = merged(memtable);
    cursor.seek_first().expect("memory does not fail");
    let mut entries = Vec::new();
    while let Some(entry) = seen(&mut cursor) {
        entries.push(entry);
        cursor.next().expect("memory does not fail");
    }
    entries
}

/// Goal: small commits go on when a skip list is full, and full lists are merged. Method: a walk after each of more commits
/// than some lists hold, so that none is loose for long.
#[test]
fn full_skip_lists_are_replaced_and_merged() {
    const LIST_ENTRIES: usize = 200;
    let order = KeyOrder::BYTEWISE;
    let pool = ArenaPool::new(0);
    let memtable = Memtable::of_shape(order.clone(), &pool, shape(1 << 20, 4000, LIST_ENTRIES));
    let memtable = Arc::new(memtable);
    let mut random = Random::new(5);
    let mut put_until = |count: usize| {
        for sequence in memtable.entries() + 1..=count {
            let one = batch(&mut random, 10_000, 1, sequence as u64);
            memtable
                .insert(SeqNo(sequence as u64), ops(&order, &one), None)
                .expect("it fits");
            drop(memtable.cursors());
        }
    };
    put_until(2 * LIST_ENTRIES + 100);
    // The first list is a small one.
    assert_eq!(memtable.run_count(), 3);
    let before = all(&memtable);
    assert_eq!(before.len(), 2 * LIST_ENTRIES + 100);
    // Two full lists are too few to be worth a merge; with some more there is one.
    assert!(!memtable.merge_runs(&[]));
    put_until(5 * LIST_ENTRIES + 1);
    let before = all(&memtable);
    assert_eq!(memtable.run_count(), 6);
    assert!(memtable.merge_runs(&[]));
    assert_eq!(memtable.run_count(), 2);
    assert_eq!(all(&memtable), before);
}

/// Goal: single writes are sorted together, once there are many or somebody walks, and a walk between few of them does not
/// leave a source each. Method: the sources after so many writes, with and without walks; every walk sees everything.
#[test]
fn single_writes_are_sorted_together() {
    const MANY: usize = limits::SKIP_LIST_ENTRIES_MAX;
    let order = KeyOrder::BYTEWISE;
    let memtable = memtable(&order, 8 << 20, 40_000);
    let mut random = Random::new(6);
    let mut put = |count: usize| {
        for _ in 0..count {
            let sequence = memtable.entries() as u64 + 1;
            let one = batch(&mut random, 10_000, 1, sequence);
            let inserted = memtable.insert(SeqNo(sequence), ops(&order, &one), None);
            inserted.expect("it fits");
        }
    };
    put(MANY - 1);
    assert!(!memtable.is_unarranged());
    put(1);
    assert!(memtable.is_unarranged());
    assert_eq!(memtable.run_count(), 0);
    let counted = memtable.memory_bytes();
    memtable.arrange();
    assert!(memtable.memory_bytes() <= counted, "was counted ahead");
    assert!(!memtable.is_unarranged());
    assert_eq!(memtable.run_count(), 1);
    assert_eq!(all(&memtable).len(), MANY);
    // Few, again and again, share a list.
    for round in 1..=10 {
        put(5);
        assert_eq!(all(&memtable).len(), MANY + 5 * round);
        assert_eq!(memtable.run_count(), 2);
    }
    // More of them are a run, which a walk asks for.
    put(SORTED_MIN);
    assert_eq!(memtable.run_count(), 2);
    let walked = all(&memtable);
    assert_eq!(walked.len(), MANY + 50 + SORTED_MIN);
    assert!(walked.is_sorted_by_key(|entry| (entry.0.clone(), u64::MAX - entry.1.0)));
    assert_eq!(memtable.run_count(), 3);
}

/// Goal: a version far down the chain is found. Method: one key overwritten more often than the chain is followed.
#[test]
fn old_versions_of_a_hot_key_are_found() {
    let order = KeyOrder::BYTEWISE;
    let memtable = memtable(&order, 1 << 20, 100);
    for sequence in 1..=500_u64 {
        let op = MemtableOp {
            kind: EntryKind::Put,
            expires_at: 0,
            hash: order.hash(b"hot").expect("has hashes"),
            key: b"hot",
            value: &sequence.to_le_bytes(),
        };
        memtable
            .insert(SeqNo(sequence), (1, |_| op), None)
            .expect("it fits");
    }
    for snapshot in 1..=500 {
        let found = memtable
            .get(b"hot", None, SeqNo(snapshot))
            .expect("written");
        assert_eq!(found.value, snapshot.to_le_bytes());
    }
    assert!(memtable.get(b"hot", None, SeqNo(0)).is_none());
}

/// Goal: with a writer, a merger and readers at work, a reader with a snapshot sees exactly the commits up to it. Method:
/// commit n writes n to a fixed set of keys; readers take the last complete commit and check that all keys have it, by
/// point read and by walk.
#[test]
fn readers_see_whole_commits_beside_writer_and_merger() {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };
    const COMMITS: u64 = 400;
    const KEYS: u64 = 40;
    for order in [orders().swap_remove(0), orders().swap_remove(4)] {
        let memtable = memtable(&order, 4 << 20, 100_000);
        let visible = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for commit in 1..=COMMITS {
                    let batch: Vec<ModelEntry> = (0..KEYS)
                        .map(|key| ModelEntry {
                            key: format!("key{:04}", key * 7919 % KEYS).into_bytes(),
                            sequence: SeqNo(commit),
                            age: 0,
                            kind: EntryKind::Put,
                            expires_at: 0,
                            value: commit.to_le_bytes().to_vec(),
                        })
                        .collect();
                    // Now and then without a run, so that loose entries take part.
                    let run = (commit % 3 != 0).then(|| run_of(&order, &batch));
                    memtable
                        .insert(SeqNo(commit), ops(&order, &batch), run)
                        .expect("it fits");
                    visible.store(commit, Ordering::Release);
                }
            });
            scope.spawn(|| {
                while visible.load(Ordering::Acquire) < COMMITS {
                    // A reader may be using any snapshot from the last one on that it loaded: all are kept.
                    memtable.merge_runs(&[]);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let snapshot = SeqNo(visible.load(Ordering::Acquire));
                        let mut cursor = merged(&memtable);
                        cursor.seek_first().expect("memory does not fail");
                        for key in 0..KEYS * u64::from(snapshot.0 > 0) {
                            let key = format!("key{key:04}").into_bytes();
                            let found = memtable.get(&key, None, snapshot).expect("written");
                            assert_eq!(found.sequence, snapshot);
                            assert_eq!(found.value, snapshot.0.to_le_bytes());
                            cursor.seek(&key).expect("memory does not fail");
                            while cursor.sequence() > snapshot {
                                cursor.next().expect("memory does not fail");
                            }
                            let (seen_key, sequence, ..) = seen(&mut cursor).expect("is there");
                            assert_eq!((seen_key, sequence), (key, snapshot));
                        }
                        if snapshot.0 == COMMITS {
                            return;
                        }
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use loom::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn put(memtable: &Memtable, sequence: u64, keys: &[&'static [u8]], with_run: bool) {
        let order = memtable.order().clone();
        let run = with_run.then(|| {
            PreparedRun::sort(&order, keys.len(), |index| {
                (EntryKind::Put, keys[index as usize])
            })
        });
        let op_at = |number: usize| MemtableOp {
            kind: EntryKind::Put,
            expires_at: 0,
            hash: order.hash(keys[number]).expect("has hashes"),
            key: keys[number],
            value: &[],
        };
        let ops = (keys.len(), op_at);
        memtable.insert(SeqNo(sequence), ops, run).expect("it fits");
    }

    /// Goal: whoever sees the newest commit's key sees all commits before, by point read and by walk, also while sources are
    /// appended and merged. Method: all interleavings (with two preemptions) of a writer, a merger and a reader; loom
    /// watches the arena's memory.
    #[test]
    fn loom_readers_see_commits_beside_writer_and_merger() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let pool = ArenaPool::new(0);
            let memtable = Memtable::of_shape(KeyOrder::BYTEWISE, &pool, shape(512, 14, 2));
            let memtable = Arc::new(memtable);
            // Four frozen sources of one entry each: enough to be merged.
            put(&memtable, 1, &[b"b"], true);
            put(&memtable, 2, &[b"a"], true);
            put(&memtable, 3, &[b"b"], true);
            put(&memtable, 4, &[b"d"], true);
            let writer = {
                let memtable = Arc::clone(&memtable);
                loom::thread::spawn(move || {
                    put(&memtable, 5, &[b"c", b"a"], true);
                    put(&memtable, 6, &[b"b"], false);
                })
            };
            let merger = {
                let memtable = Arc::clone(&memtable);
                loom::thread::spawn(move || memtable.merge_runs(&[SeqNo(4)]))
            };
            let newest = memtable
                .latest_sequence(b"b", None)
                .expect("written before");
            let mut cursor = merged(&memtable);
            let mut walked = Vec::new();
            cursor.seek_first().expect("memory does not fail");
            while cursor.is_valid() {
                walked.push((cursor.key().to_vec(), cursor.sequence().0));
                cursor.next().expect("memory does not fail");
            }
            let has = |key: &[u8], sequence: u64| walked.contains(&(key.to_vec(), sequence));
            assert!(walked.is_sorted_by_key(|(key, sequence)| (key.clone(), u64::MAX - sequence)));
            assert!(has(b"a", 2) && has(b"b", 3) && has(b"d", 4));
            assert!(newest == SeqNo(3) || newest == SeqNo(6));
            if newest == SeqNo(6) {
                assert!(has(b"a", 5) && has(b"c", 5));
                assert_eq!(memtable.latest_sequence(b"c", None), Some(SeqNo(5)));
            }
            writer.join().expect("the writer does not fail");
            merger.join().expect("the merger does not fail");
            assert!(memtable.get(b"b", None, SeqNo(5)).is_some());
        });
    }

    /// Goal: a walk sees every commit that was complete before it began, also while its entries are loose, or being
    /// arranged by others. Method: all interleavings (with two preemptions) of a writer that arranges what it wrote, as a
    /// run and through the list, and a reader.
    #[test]
    fn loom_walks_see_what_is_loose() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let pool = ArenaPool::new(0);
            let memtable = Memtable::of_shape(KeyOrder::BYTEWISE, &pool, shape(512, 14, 2));
            let (memtable, visible) = (Arc::new(memtable), Arc::new(AtomicU64::new(0)));
            let writer = {
                let (memtable, visible) = (Arc::clone(&memtable), Arc::clone(&visible));
                loom::thread::spawn(move || {
                    put(&memtable, 1, &[b"c", b"a"], false);
                    visible.store(1, Ordering::Release);
                    memtable.arrange();
                    put(&memtable, 2, &[b"b"], false);
                    visible.store(2, Ordering::Release);
                    memtable.arrange();
                })
            };
            let snapshot = visible.load(Ordering::Acquire);
            let walked = all(&memtable);
            for (key, sequence) in [(b"a", 1), (b"b", 2), (b"c", 1)] {
                let is_seen = walked
                    .iter()
                    .any(|entry| entry.0 == key && entry.1.0 == sequence);
                assert!(is_seen || snapshot < sequence);
            }
            writer.join().expect("the writer does not fail");
            assert_eq!(all(&memtable).len(), 3);
        });
    }
}

#[test]
fn samples_stand_for_all_entries() {
    for order in orders() {
        let memtable = memtable(&order, 1 << 20, 2000);
        let mut random = Random::new(5);
        let mut batch = Vec::new();
        for number in 0..300_u64 {
            let key = format!("{:06}", random.below(1_000_000)).into_bytes();
            batch.push(ModelEntry {
                key,
                sequence: SeqNo(number + 1),
                kind: EntryKind::Put,
                expires_at: 0,
                value: Vec::new(),
                age: 0,
            });
        }
        let (small, large) = batch.split_at(50);
        for entry in small {
            let one = std::slice::from_ref(entry);
            memtable
                .insert(entry.sequence, ops(&order, one), None)
                .expect("there is room");
        }
        let run = run_of(&order, large);
        memtable
            .insert(SeqNo(1000), ops(&order, large), Some(run))
            .expect("there is room");
        let samples = memtable.samples(10);
        assert!((10..=22).contains(&samples.len()), "{}", samples.len());
        let entries: usize = samples.iter().map(|(_, entries)| entries).sum();
        assert_eq!(entries, 300);
        for (key, _) in &samples {
            assert!(batch.iter().any(|entry| entry.key == *key));
        }
    }
}
