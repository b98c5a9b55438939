use std::sync::Arc;

use kingtide_base::{EntryKind, KeyOrder, SeqNo};

use super::{KeyShape, PreparedRun, RunSource, SortedRun};
use crate::{
    arena::{Arena, ArenaPool, ArenaWriter, EntryOffset, NewEntry},
    skip_list::SkipList,
    testing::{ModelEntry, Random, in_run, orders, sort_model},
};

/// Appends operations with `keys` and makes their run.
fn run_of(
    writer: &mut ArenaWriter,
    order: &KeyOrder,
    sequence: SeqNo,
    keys: &[Vec<u8>],
    model: &mut Vec<ModelEntry>,
    kinds: &[EntryKind],
) -> Arc<SortedRun> {
    let first = model.len();
    let kind_at = |number: usize| kinds[(first + number) % kinds.len()];
    let op_at = |number: u32| (kind_at(number as usize), &keys[number as usize][..]);
    let mut prepared = PreparedRun::sort(order, keys.len(), op_at);
    let (operations, offsets) = prepared.parts();
    let all = (0..keys.len()).map(|number| ModelEntry {
        key: keys[number].clone(),
        sequence,
        age: number,
        kind: kind_at(number),
        expires_at: 0,
        value: Vec::new(),
    });
    let all: Vec<ModelEntry> = all.collect();
    let wanted = in_run(&all, order);
    let mut has: Vec<usize> = operations.iter().map(|number| *number as usize).collect();
    has.sort_unstable();
    assert!(wanted.iter().map(|entry| entry.age).eq(has));
    for number in operations {
        let (kind, key) = op_at(*number);
        offsets.push(append(writer, key, sequence, kind, model));
    }
    prepared.seal().expect("every operation has its offset")
}

fn append(
    writer: &mut ArenaWriter,
    key: &[u8],
    sequence: SeqNo,
    kind: EntryKind,
    model: &mut Vec<ModelEntry>,
) -> EntryOffset {
    let offset = writer
        .append(&NewEntry {
            sequence,
            previous: EntryOffset::NONE,
            kind,
            expires_at: 0,
            key,
            value: &[],
        })
        .expect("the arena is large enough");
    model.push(ModelEntry {
        key: key.to_vec(),
        sequence,
        age: offset.0 as usize,
        kind,
        expires_at: 0,
        value: Vec::new(),
    });
    offset
}

fn offset_of(entry: &ModelEntry) -> EntryOffset {
    EntryOffset(entry.age as u32)
}

/// Compares `run` with the sorted `model`.
fn check(
    run: &SortedRun,
    model: &[ModelEntry],
    arena: &Arena,
    order: &KeyOrder,
    random: &mut Random,
) {
    let place = format!("{} seed {}", order.name(), random.seed);
    let offsets: Vec<EntryOffset> = (0..run.len()).map(|index| run.offset(index)).collect();
    let wanted: Vec<EntryOffset> = model.iter().map(offset_of).collect();
    assert_eq!(offsets, wanted, "{place}");
    assert!(run.offset(run.len()).is_none());
    for _ in 0..60 {
        let key = random.key(60);
        let lower = model.partition_point(|e| order.compare(&e.key, &key).is_lt());
        let upper = model.partition_point(|e| order.compare(&e.key, &key).is_le());
        assert_eq!(
            run.lower_bound(&key, arena, order),
            lower,
            "{place} {key:?}"
        );
        assert_eq!(
            run.upper_bound(&key, arena, order),
            upper,
            "{place} {key:?}"
        );
        let snapshot = SeqNo(random.below(12) as u64);
        let visible = model[lower..upper].iter().find(|e| e.sequence <= snapshot);
        assert_eq!(
            run.get(&key, snapshot, arena, order),
            visible.map(offset_of).unwrap_or_default(),
            "{place} {key:?}"
        );
    }
}

/// Keys that share a prefix, or do not, by `shape`.
fn keys(random: &mut Random, shape: usize, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| match shape {
            0 => random.key(60),
            1 => [&b"a/long/common/prefix/"[..], &random.key(60)].concat(),
            2 => format!("ascending{number:06}").into_bytes(),
            3 => format!("key{:04}/and a tail", random.below(40)).into_bytes(),
            4 => format!("{:04}/key {}", random.below(4), random.below(20)).into_bytes(),
            _ => vec![b'k'; random.below(20)],
        })
        .collect()
}

/// Goal: a prepared run is the sorted index of its operations. Method: random batches beside a sorted vector.
#[test]
fn a_prepared_run_is_sorted_and_searched_like_a_vector() {
    for (number, order) in orders().into_iter().enumerate() {
        for shape in 0..6 {
            for count in [0, 1, 2, 50, 300] {
                let mut random = Random::new(number as u64 * 100 + shape as u64);
                let pool = ArenaPool::new(0);
                let (arena, mut writer) = Arena::new(&pool, 1 << 16);
                let keys = keys(&mut random, shape, count);
                let mut model = Vec::new();
                let kinds = [EntryKind::Put, EntryKind::PutSpilled, EntryKind::Delete];
                let run = run_of(&mut writer, &order, SeqNo(5), &keys, &mut model, &kinds);
                sort_model(&mut model, &order);
                check(&run, &model, &arena, &order, &mut random);
            }
        }
    }
}

#[test]
fn a_run_that_lacks_offsets_cannot_be_sealed() {
    let keys = [b"a", b"b"];
    let mut run = PreparedRun::sort(&KeyOrder::BYTEWISE, 2, |index| {
        (EntryKind::Put, keys[index as usize])
    });
    run.parts().1.push(EntryOffset(1));
    assert!(run.seal().is_none());
}

/// What a merge must keep, looked up one snapshot at a time.
fn keep_visible(model: &[ModelEntry], order: &KeyOrder, snapshots: &[SeqNo]) -> Vec<ModelEntry> {
    let Some(newest) = snapshots.last() else {
        return model.to_vec();
    };
    let same_key = |e: &ModelEntry, other: &ModelEntry| order.compare(&e.key, &other.key).is_eq();
    model
        .iter()
        .filter(|entry| {
            let versions = || model.iter().filter(|other| same_key(entry, other));
            versions().any(|other| other.kind == EntryKind::Merge)
                || entry.sequence > *newest
                || snapshots.iter().any(|snapshot| {
                    versions().find(|other| other.sequence <= *snapshot) == Some(entry)
                })
        })
        .cloned()
        .collect()
}

/// Goal: a merge holds exactly what some reader may see. Method: random runs and lists merged beside a filtered sorted
/// vector, with several sets of snapshots; then merges of merges.
#[test]
fn a_merge_keeps_what_snapshots_see() {
    for (number, order) in orders().into_iter().enumerate() {
        for round in 0..16 {
            let mut random = Random::new(number as u64 * 1000 + round);
            let shape = random.below(6);
            let kinds: &[EntryKind] = if random.chance(2) {
                &[EntryKind::Put, EntryKind::Delete, EntryKind::SingleDelete]
            } else {
                &[EntryKind::Put, EntryKind::Put, EntryKind::Merge]
            };
            let pool = ArenaPool::new(0);
            let (arena, mut writer) = Arena::new(&pool, 1 << 17);
            let mut model = Vec::new();
            let list = SkipList::new(40);
            let mut runs = Vec::new();
            for sequence in 1..=8 {
                let count = random.below(60);
                let keys = keys(&mut random, shape, count);
                if sequence == 4 {
                    for key in keys.iter().take(40) {
                        let kind = kinds[model.len() % kinds.len()];
                        let offset = append(&mut writer, key, SeqNo(sequence), kind, &mut model);
                        assert!(list.insert(offset, &arena, &order));
                    }
                } else {
                    runs.push(run_of(
                        &mut writer,
                        &order,
                        SeqNo(sequence),
                        &keys,
                        &mut model,
                        kinds,
                    ));
                }
            }
            sort_model(&mut model, &order);
            let mut snapshots: Vec<SeqNo> = (0..random.below(4))
                .map(|_| SeqNo(random.below(10) as u64))
                .collect();
            snapshots.sort_unstable();
            let mut sources: Vec<RunSource<'_>> =
                runs.iter().map(|run| RunSource::Run(run)).collect();
            sources.push(RunSource::List(&list));
            let merged = SortedRun::merge(&sources, &arena, &order, &snapshots);
            let kept = keep_visible(&model, &order, &snapshots);
            check(&merged, &kept, &arena, &order, &mut random);

            let (left, right) = sources.split_at(3);
            let left = SortedRun::merge(left, &arena, &order, &[]);
            let right = SortedRun::merge(right, &arena, &order, &[]);
            let both = [RunSource::Run(&left), RunSource::Run(&right)];
            let merged = SortedRun::merge(&both, &arena, &order, &snapshots);
            check(&merged, &kept, &arena, &order, &mut random);
        }
    }
}

#[test]
fn nothing_merged_is_an_empty_run() {
    let pool = ArenaPool::new(0);
    let (arena, _writer) = Arena::new(&pool, 64);
    let order = KeyOrder::BYTEWISE;
    let merged = SortedRun::merge(&[], &arena, &order, &[SeqNo(1)]);
    assert!(merged.is_empty());
    assert_eq!(merged.lower_bound(b"a", &arena, &order), 0);
}

/// Goal: it is known when heads tell all of a key, and only then. Method: sets of keys of which that is plain.
#[test]
fn heads_tell_keys_that_differ_in_eight_bytes() {
    let tells =
        |keys: &[&str]| KeyShape::of(keys.iter().map(|key| key.as_bytes())).differs_in_heads();
    assert!(tells(&[]));
    assert!(tells(&["one"]));
    assert!(tells(&["12345678", "87654321"]));
    assert!(tells(&["prefix/12345678/tail", "prefix/87654321/tail"]));
    // More than eight bytes; the first of which is found last; the last of which is.
    assert!(!tells(&["123456789", "987654321"]));
    assert!(!tells(&["a/12345678", "a/87654321", "b/12345678"]));
    assert!(!tells(&["12345678/a", "87654321/a", "12345678/b"]));
    // Not of one length.
    assert!(!tells(&["key", "key\0"]));
    assert!(!tells(&["a\0", "a", "b\0"]));
}
