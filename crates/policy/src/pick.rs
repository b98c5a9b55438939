//! Which merge to run next: Spooky, after Dayan et al., "Spooky: Granulating LSM-Tree Compactions Correctly", VLDB 2022.
//!
//! Let L be the last level, T the size ratio and B the nominal size of level 1 (write buffer times file trigger). The
//! capacity of level i is C_i = bytes(L) / T^(L-i); a level whose capacity is below B is not used. So capacities, and the
//! number of levels in use, follow the data up and down. Level X = L - `dividing_level_offset` is the dividing level.
//!
//! | levels | merge | granularity |
//! |---|---|---|
//! | 1 to X-1 | full, preemptive: into the first level that can hold all above it, at most X | all that overlaps |
//! | into X | dividing: outputs end where tables of level X+1 begin | all that overlaps |
//! | X to L | partitioned: into the next level, or further if that would be full too | one group |
//!
//! A *group* is some neighbouring tables of a level and all tables of the next level that they overlap, such that no other
//! table of the level overlaps these alone. Its *share* is 1/T of its part of the next level. It drains when it holds twice
//! that, or, the fullest first, when its level is full; so hot ones drain sooner, and level X is half full on average. Since
//! outputs of dividing merges end where deeper tables begin, groups overlap perfectly, and no table is rewritten for keys
//! beside it.
//!
//! Candidates, the most urgent first:
//!
//! 1. *Deepen.* When level L holds more than B * T^(L-1), its tables move to level L+1. Nothing is rewritten.
//! 2. *Level 1* has its trigger of sorted runs (tables that overlap in one place), or B bytes, or very many tables, or one
//!    that must shed its tombstones. The part of it that hangs together by overlaps and is worst is merged. Tables that
//!    overlap nothing move. While nobody reads, the bounds but the last are four times as high.
//! 3. *A group holds twice its share*, or the level as a whole is full, or it is not in use any more. Competes with 2 by how
//!    far it is over.
//! 4. *Tombstones.* A table above level L that is dense with them, or whose tombstones are overdue, merges one level down;
//!    an overdue one on level L is rewritten.
//! 5. *Gather.* A row of very small tables of one level becomes one, when they continue each other (some ascending load
//!    wrote them) or are very many.
//! 6. *Shrink.* A last level that is small enough for the empty one above it moves there.
//!
//! Invariants of every plan:
//!
//! - No input is busy. For each level but the shallowest of the plan, down to the target, all tables with keys between the
//!   smallest and the largest of the inputs above them are inputs; on level 1 all that hang together are. So outputs are
//!   disjoint from what stays on the target, and no older version is left above a newer one.
//! - The *hull* of a plan (from the smallest to the largest key of its inputs) on the levels from its shallowest input to
//!   its target is its [`Reservation`]. Plans that run at the same time, and placements ([`place`](crate::place)) beside
//!   them, have reservations that do not meet: nobody puts a table where another one's outputs may come to lie.
//! - While level 1 waits for a place that a running merge holds, no merge starts that it would have to wait for too.

use kingtide_base::{FileId, KeyOrder, limits::LEVELS_MAX};

use crate::{
    overlap::{Component, components},
    shape::{MergeInput, MergePlan, PolicyOptions, Reservation, Span, TableShape, TreeShape},
};

/// Level 1 may hold this many tables for each sorted run that it may hold.
const TABLES_PER_RUN: usize = 16;
/// While nobody reads, level 1 may hold so many times what starts a merge otherwise: the fewer merges there are, the less is written,
/// and what comes in meanwhile has more of the processors and of the device.
const UNREAD_FULL: f64 = 4.0;
/// Tables of a deeper level below this share of the target size are gathered.
const SMALL_SHARE: u64 = 64;
/// As many small tables in a row are gathered, at least, when each is newer than the one before.
const GATHER_MIN: usize = 16;
/// As many others. What comes later may well fall between them, and would then overlap the whole.
const GATHER_ANY_MIN: usize = 256;
/// A group drains by itself when it holds so many times its share. The fullest groups of a full level drain anyway, and
/// then they are spread from empty to about this much; so this is for loads that come to few places.
const GROUP_FULL: f64 = 2.0;
/// A smaller part of level 1 stays there although nobody writes, unless so much was flushed since the tree rested last: whoever
/// flushes a few entries now and then does not pay for what lies below each time.
const REST_BYTES_MIN: u64 = 64 << 10;
/// Cuts of a dividing merge leave pieces of at least this share of the target size, on average.
const PIECE_SHARE: u64 = 4;

/// The merge that does most good now, or `None` when the tree is healthy or what it needs is busy.
#[must_use]
pub fn pick_merge(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
) -> Option<MergePlan> {
    let picker = Picker::new(shape, options, order);
    picker
        .deepen()
        .or_else(|| picker.relieve())
        .or_else(|| picker.sink_tombstones())
        .or_else(|| picker.gather())
        .or_else(|| picker.shrink())
}

/// A merge that empties a part of level 1 although it is not full: for a tree that is not written to, so that readers find
/// each key in few places. `None` when there is nothing left to do, or what remains would be too much work: as everywhere, a
/// level is merged when it holds as much as a `level_size_ratio`-th of what it overlaps below. So even a tree that rests after
/// each flush is written no more often than one whose levels are always full.
///
/// A smaller part is merged too if what it overlaps is at most `credit_bytes`. With what was flushed since the tree rested last,
/// a load that has just ended ends in one sorted level, for no more than it has written anyway.
#[must_use]
pub fn merge_at_rest(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
    credit_bytes: u64,
) -> Option<MergePlan> {
    Picker::new(shape, options, order).settle_level_one(credit_bytes)
}

/// The merge of all tables into one sorted level at the bottom, for manual compaction. `None` for an empty tree and
/// while any table is busy: wait for running merges and ask again.
#[must_use]
pub fn merge_all(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
) -> Option<MergePlan> {
    let picker = Picker::new(shape, options, order);
    let levels: Vec<(usize, Vec<&TableShape>)> = (1..=shape.levels.len())
        .map(|level| (level, shape.level(level).iter().collect()))
        .collect();
    picker.plan(&levels, picker.last, false)
}

/// The merge of all tables that hold keys from the first to the second of `range` (both included; `None` is the end of
/// the order) into one sorted level at the bottom, for manual compaction of a part. `None` when there are none, and
/// while one of them is busy.
///
/// Tables that overlap the chosen ones join them, on every level, until no other table has keys between the smallest
/// and the largest of them: what stays is then neither above nor below anything that moves.
#[must_use]
pub fn merge_range(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
    range: (Option<&[u8]>, Option<&[u8]>),
) -> Option<MergePlan> {
    let picker = Picker::new(shape, options, order);
    let is_wanted = |table: &&TableShape| {
        let begins_late = range
            .1
            .is_some_and(|end| order.compare(&table.smallest, end).is_gt());
        let ends_early = range
            .0
            .is_some_and(|start| order.compare(&table.largest, start).is_lt());
        !begins_late && !ends_early
    };
    let all = || shape.levels.iter().flatten();
    let mut hull = Span::hull(all().filter(is_wanted), order)?;
    let mut count = 0;
    // Each round adds a table, so there are at most as many rounds as tables.
    loop {
        let inside = || all().filter(|table| Span::of(table).overlaps(hull, order));
        let joined = inside().count();
        if joined == count {
            break;
        }
        count = joined;
        hull = Span::hull(inside(), order)?;
    }
    let levels: Vec<(usize, Vec<&TableShape>)> = (1..=shape.levels.len())
        .map(|level| (level, shape.overlapping(level, hull, order).collect()))
        .collect();
    picker.plan(&levels, picker.last, false)
}

/// A plan that writes one table below level 1 once more, where it is, so that values it points to are copied. `None` when
/// it is busy, its place is taken, it is on level 1 (where it may lie over others) or not there.
#[must_use]
pub fn rewrite_table(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
    file: FileId,
) -> Option<MergePlan> {
    let found = (2..=shape.levels.len()).find_map(|level| {
        let mut tables = shape.level(level).iter();
        let table = tables.find(|table| table.file == file)?;
        Some((level, table))
    });
    let (level, table) = found?;
    let picker = Picker::new(shape, options, order);
    let plan = picker.plan(&[(level, vec![table])], level, false)?;
    Some(MergePlan {
        output_table_bytes: u64::MAX,
        ..plan
    })
}

/// Inputs of a plan, by level.
type Inputs<'a> = Vec<(usize, Vec<&'a TableShape>)>;

fn bytes_of<'t>(tables: impl IntoIterator<Item = &'t &'t TableShape>) -> u64 {
    tables.into_iter().map(|table| table.bytes).sum()
}

struct Picker<'a> {
    shape: &'a TreeShape,
    options: &'a PolicyOptions,
    order: &'a KeyOrder,
    /// The last level, counted from 1.
    last: usize,
}

/// A part of a level with what it overlaps on the next one.
struct Group<'a> {
    sources: Vec<&'a TableShape>,
    overlapped: Vec<&'a TableShape>,
    /// How far it is over its share; 1 is full.
    fullness: f64,
}

impl<'a> Picker<'a> {
    fn new(shape: &'a TreeShape, options: &'a PolicyOptions, order: &'a KeyOrder) -> Self {
        Self {
            shape,
            options,
            order,
            last: options.last_level(shape),
        }
    }

    /// The bytes that `level` may hold, by the size of the last level.
    fn capacity(&self, level: usize) -> u64 {
        let bytes = self.shape.level_bytes(self.last);
        self.options.capacity(level, (self.last, bytes))
    }

    /// The first level below level 1 that is in use.
    fn first_active(&self) -> usize {
        let bytes = self.shape.level_bytes(self.last);
        *self.options.levels_in_use(self.last, bytes).start()
    }

    /// The dividing level.
    fn dividing(&self) -> usize {
        let offset = self.options.dividing_level_offset;
        self.last.saturating_sub(offset).max(self.first_active())
    }

    /// The bytes from which on a last level `level` is too large for its place.
    fn bound(&self, level: usize) -> u64 {
        (1..level).fold(self.options.base_bytes(), |bytes, _| {
            bytes.saturating_mul(self.options.ratio())
        })
    }

    fn overlapping(&self, level: usize, span: Span<'_>) -> Vec<&'a TableShape> {
        let shape: &'a TreeShape = self.shape;
        shape.overlapping(level, span, self.order).collect()
    }

    fn hull<'t>(&self, tables: impl IntoIterator<Item = &'t &'t TableShape>) -> Option<Span<'t>> {
        Span::hull(tables.into_iter().copied(), self.order)
    }

    /// Opens a new last level when the present one has outgrown its place.
    fn deepen(&self) -> Option<MergePlan> {
        if self.last >= LEVELS_MAX || self.shape.level_bytes(self.last) <= self.bound(self.last) {
            return None;
        }
        let tables = self.shape.level(self.last).iter().collect();
        self.plan(&[(self.last, tables)], self.last + 1, true)
    }

    /// Gives up a last level that is too small for its place, half of what the one above may hold.
    fn shrink(&self) -> Option<MergePlan> {
        let bytes = self.shape.level_bytes(self.last);
        let is_wanted = self.last > self.options.min_levels.max(2)
            && bytes > 0
            && bytes <= self.bound(self.last - 1) / 2
            && (2..self.last).all(|level| self.shape.level(level).is_empty());
        if !is_wanted {
            return None;
        }
        let tables = self.shape.level(self.last).iter().collect();
        self.plan(&[(self.last, tables)], self.last - 1, true)
    }

    /// Merges out of what is furthest over its bound, or the next one if that cannot be done now.
    fn relieve(&self) -> Option<MergePlan> {
        let parts = components(self.shape.level(1), self.order);
        let level_one = self.level_one_fullness(&parts);
        let mut groups: Vec<(usize, Group<'a>)> = (2..self.last)
            .flat_map(|level| {
                let groups = self.full_groups(level);
                groups.into_iter().map(move |group| (level, group))
            })
            .collect();
        groups.sort_by(|(_, left), (_, right)| right.fullness.total_cmp(&left.fullness));
        let mut groups = groups.into_iter().peekable();
        if level_one >= 1.0 {
            while let Some((level, group)) =
                groups.next_if(|(_, group)| group.fullness > 2.0 * level_one)
            {
                if let Some(plan) = self.merge_group(level, &group) {
                    return Some(plan);
                }
            }
            // Without a plan it waits for what runs. Nothing starts that it would have to wait for next.
            return self.merge_level_one(&parts);
        }
        groups.find_map(|(level, group)| self.merge_group(level, &group))
    }

    /// How far level 1 is over its bounds; 1 is full.
    fn level_one_fullness(&self, parts: &[Component<'_>]) -> f64 {
        let tables = self.shape.level(1);
        let trigger = self.options.l1_file_count_trigger.max(1);
        let runs = parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let by_runs = runs as f64 / trigger as f64;
        let by_count = tables.len() as f64 / (trigger * TABLES_PER_RUN) as f64;
        let by_bytes = self.shape.level_bytes(1) as f64 / self.options.base_bytes() as f64;
        let sheds = tables.iter().any(|table| self.options.must_shed(table));
        let most = if self.shape.is_unread {
            UNREAD_FULL
        } else {
            1.0
        };
        let fullness = by_runs.max(by_count).max(by_bytes) / most;
        if sheds { fullness.max(1.0) } else { fullness }
    }

    fn merge_level_one(&self, parts: &[Component<'a>]) -> Option<MergePlan> {
        if let Some(plan) = self.move_from_level_one(parts) {
            return Some(plan);
        }
        let trigger = self.options.l1_file_count_trigger.max(1) as f64;
        let worst = |part: &&Component<'a>| {
            let sheds = part
                .tables
                .iter()
                .any(|table| self.options.must_shed(table));
            let by_runs = part.depth as f64 / trigger;
            let by_bytes = bytes_of(&part.tables) as f64 / self.options.base_bytes() as f64;
            by_runs.max(by_bytes) + f64::from(u8::from(sheds))
        };
        let part = parts
            .iter()
            .max_by(|left, right| worst(left).total_cmp(&worst(right)))?;
        self.merge_part(part)
    }

    /// Merges a part of level 1 with what it overlaps.
    fn merge_part(&self, part: &Component<'a>) -> Option<MergePlan> {
        let (inputs, target) = self.with_levels_below(&part.tables);
        let mut plan = self.plan(&inputs, target, false)?;
        if target == self.dividing() && target < self.last {
            plan.cuts = self.cuts(&inputs, target);
        }
        Some(plan)
    }

    /// Empties level 1 as far as that is no more work than merges of full levels are, or than `credit_bytes` pay for.
    fn settle_level_one(&self, credit_bytes: u64) -> Option<MergePlan> {
        let parts = components(self.shape.level(1), self.order);
        let is_cheap = |part: &&Component<'a>| {
            let (inputs, _) = self.with_levels_below(&part.tables);
            let all: u64 = inputs.iter().map(|(_, tables)| bytes_of(tables)).sum();
            let own = bytes_of(&part.tables);
            let affordable = own.saturating_mul(self.options.ratio()).max(credit_bytes);
            own.max(credit_bytes) >= REST_BYTES_MIN && all - own <= affordable
        };
        let merged = || {
            parts
                .iter()
                .filter(is_cheap)
                .find_map(|part| self.merge_part(part))
        };
        self.move_from_level_one(&parts).or_else(merged)
    }

    /// Moves the tables of level 1 that overlap nothing as deep as they may go; those with the same target in one plan.
    fn move_from_level_one(&self, parts: &[Component<'a>]) -> Option<MergePlan> {
        let mut target = 1;
        let mut moved = Vec::new();
        for part in parts {
            let [table] = part.tables[..] else { continue };
            if table.busy || self.sheds_tombstones(&[table]) {
                continue;
            }
            let deepest = self.deepest_free(1, Span::of(table));
            if deepest > target && moved.is_empty() {
                target = deepest;
            }
            if deepest == target && target > 1 {
                moved.push(table);
            }
        }
        // Together they would reserve what lies between them, so each goes alone when that is taken.
        let one = moved.first().map(|table| vec![*table]);
        self.plan(&[(1, moved)], target, true)
            .or_else(|| self.plan(&[(1, one?)], target, true))
    }

    /// The deepest level that a table of `level` may move to.
    fn deepest_free(&self, level: usize, span: Span<'_>) -> usize {
        crate::place(level, self.first_active()..=self.last, |below| {
            below == level || self.shape.is_free(below, span, self.order)
        })
    }

    /// All that a full merge of `sources`, of level 1, takes, and its target: the first level that holds all above it.
    fn with_levels_below(&self, sources: &[&'a TableShape]) -> (Inputs<'a>, usize) {
        let (first, dividing) = (self.first_active(), self.dividing());
        let mut inputs: Inputs<'a> = vec![(1, sources.to_vec())];
        let mut bytes = bytes_of(sources);
        let mut all = sources.to_vec();
        for level in 2..=self.last {
            let Some(hull) = self.hull(&all) else { break };
            let overlapped = self.overlapping(level, hull);
            bytes += bytes_of(&overlapped);
            all.extend(&overlapped);
            let rest = self.shape.level_bytes(level) - bytes_of(&overlapped);
            inputs.push((level, overlapped));
            let fits = bytes.saturating_add(rest) <= self.capacity(level);
            if level >= first && (level >= dividing || fits) {
                return (inputs, level);
            }
        }
        (inputs, self.last)
    }

    /// Where the outputs of a dividing merge into `target` end: before tables of the next level, not too often.
    fn cuts(&self, inputs: &Inputs<'a>, target: usize) -> Vec<Vec<u8>> {
        let tables: Vec<&TableShape> = inputs
            .iter()
            .flat_map(|(_, tables)| tables)
            .copied()
            .collect();
        let Some(hull) = self.hull(&tables) else {
            return Vec::new();
        };
        let below = self.overlapping(target + 1, hull);
        let share = bytes_of(&tables) as f64 / bytes_of(&below).max(1) as f64;
        let piece_min = (self.options.table_bytes_target / PIECE_SHARE) as f64;
        let mut piece = 0.0;
        let mut cuts = Vec::new();
        for table in below {
            if piece >= piece_min {
                cuts.push(table.smallest.clone());
                piece = 0.0;
            }
            piece += table.bytes as f64 * share;
        }
        cuts
    }

    /// The groups of `level`, 2 or deeper, that should be merged down.
    fn full_groups(&self, level: usize) -> Vec<Group<'a>> {
        let bytes = self.shape.level_bytes(level);
        if bytes == 0 {
            return Vec::new();
        }
        let may_drain_early = level >= self.dividing();
        // Half a capacity apart, so that a level at the edge of use is not emptied and filled in turns.
        let is_unused = self.capacity(level) < self.options.base_bytes() / 2;
        let whole = bytes as f64 / self.capacity(level).max(self.options.base_bytes()) as f64;
        let mut groups = self.groups(level);
        let best = groups
            .iter()
            .map(|group| group.fullness)
            .fold(0.0, f64::max);
        groups.retain_mut(|group| {
            let is_best = group.fullness >= best && whole > 1.0;
            let is_due = is_best || is_unused || (may_drain_early && group.fullness >= GROUP_FULL);
            if is_best {
                group.fullness = group.fullness.max(whole);
            }
            is_due
        });
        groups
    }

    /// All groups of `level` that are not busy.
    fn groups(&self, level: usize) -> Vec<Group<'a>> {
        let shape: &'a TreeShape = self.shape;
        let tables = shape.level(level);
        let mut groups = Vec::new();
        let mut next = 0;
        while let Some(first) = tables.get(next) {
            let group = self.group_of(level, next, first);
            next += group.sources.len();
            let mut all = group.sources.iter().chain(&group.overlapped);
            if !all.any(|table| table.busy) {
                groups.push(group);
            }
        }
        groups
    }

    /// The group of the table at `index` and those behind it that overlap nothing else.
    fn group_of(&self, level: usize, index: usize, first: &'a TableShape) -> Group<'a> {
        let shape: &'a TreeShape = self.shape;
        let overlapped = self.overlapping(level + 1, Span::of(first));
        let mut sources = vec![first];
        if let Some(end) = overlapped.last() {
            let joining = shape.level(level)[index + 1..]
                .iter()
                .take_while(|table| self.order.compare(&table.largest, &end.largest).is_le());
            sources.extend(joining);
        }
        let share = bytes_of(&overlapped) as f64 / self.options.ratio() as f64;
        let fullness = match overlapped.is_empty() {
            true => f64::INFINITY,
            false => bytes_of(&sources) as f64 / share.max(1.0),
        };
        Group {
            sources,
            overlapped,
            fullness,
        }
    }

    /// Merges a group of `level` into the next one, or further where that would be full at once.
    fn merge_group(&self, level: usize, group: &Group<'a>) -> Option<MergePlan> {
        if group.overlapped.is_empty() && !self.sheds_tombstones(&group.sources) {
            let hull = self.hull(&group.sources)?;
            let target = self.deepest_free(level, hull);
            if target == level {
                return None;
            }
            return self.plan(&[(level, group.sources.clone())], target, true);
        }
        let mut inputs = vec![
            (level, group.sources.clone()),
            (level + 1, group.overlapped.clone()),
        ];
        let mut target = level + 1;
        let mut all: Vec<&TableShape> = [&group.sources[..], &group.overlapped].concat();
        while target < self.last {
            let overlapped = self.overlapping(target + 1, self.hull(&all)?);
            let ratio = self.options.ratio();
            if bytes_of(&all).saturating_mul(ratio) <= bytes_of(&overlapped)
                && self.capacity(target) >= self.options.base_bytes()
            {
                break;
            }
            target += 1;
            all.extend(&overlapped);
            inputs.push((target, overlapped));
        }
        self.plan(&inputs, target, false)
    }

    /// Merges tables that must shed their tombstones down, the deepest level first because its tombstones are closest to
    /// their end; overdue ones of the last level are rewritten.
    fn sink_tombstones(&self) -> Option<MergePlan> {
        let sinking = |level: usize| {
            let shape: &'a TreeShape = self.shape;
            let wanted = (0..).zip(shape.level(level));
            let wanted = wanted.filter(|(_, table)| self.options.must_shed(table));
            let mut plans = wanted.map(move |(index, table)| {
                let group = self.group_of(level, index, table);
                self.merge_group(level, &group)
            });
            plans.find_map(|plan| plan)
        };
        let rewritten = || {
            let mut overdue = self.shape.level(self.last).iter();
            overdue.find_map(|table| {
                table.is_overdue.then_some(())?;
                self.plan(&[(self.last, vec![table])], self.last, false)
            })
        };
        (2..self.last).rev().find_map(sinking).or_else(rewritten)
    }

    /// Merges a row of very small tables of one level: some that continue each other, so that nothing will come between
    /// them, or else very many.
    fn gather(&self) -> Option<MergePlan> {
        let small = (self.options.table_bytes_target / SMALL_SHARE).max(1);
        let are_small = |left: &TableShape, right: &TableShape| left.bytes.max(right.bytes) < small;
        (2..=self.last).find_map(|level| {
            let shape: &'a TreeShape = self.shape;
            let tables = shape.level(level);
            let mut ascending = tables.chunk_by(|left, right| {
                are_small(left, right) && left.sequence_max < right.sequence_min
            });
            let mut all = tables.chunk_by(are_small);
            ascending
                .find_map(|row| self.gather_row(level, row, GATHER_MIN))
                .or_else(|| all.find_map(|row| self.gather_row(level, row, GATHER_ANY_MIN)))
        })
    }

    /// Merges the tables of `row`, if it has `count` at least, without those that are larger than all others together:
    /// so each doubles before it is taken again.
    fn gather_row(&self, level: usize, row: &[TableShape], count: usize) -> Option<MergePlan> {
        let mut row = row;
        while row.len() >= count {
            let total: u64 = row.iter().map(|table| table.bytes).sum();
            let largest = (0..row.len()).max_by_key(|index| row[*index].bytes)?;
            if row[largest].bytes <= total / 2 {
                return self.plan(&[(level, row.iter().collect())], level, false);
            }
            let (left, right) = row.split_at(largest);
            row = if left.len() < right.len() {
                &right[1..]
            } else {
                left
            };
        }
        None
    }

    /// True when rewriting `tables` with nothing below would free a good share of them, so that a move is a waste.
    fn sheds_tombstones(&self, tables: &[&TableShape]) -> bool {
        let entries: u64 = tables.iter().map(|table| table.entries).sum();
        let tombstones: u64 = tables.iter().map(|table| table.tombstones).sum();
        let is_much = tombstones > 0
            && (tombstones.saturating_mul(4) >= entries
                || tables.iter().any(|table| self.options.must_shed(table)));
        let Some(hull) = self.hull(tables) else {
            return false;
        };
        let mut below = 2..=self.shape.levels.len();
        let is_input = |other: &TableShape| tables.iter().any(|table| table.file == other.file);
        is_much
            && below.all(|level| {
                let mut others = self.shape.overlapping(level, hull, self.order);
                others.all(is_input)
            })
    }

    fn plan(
        &self,
        inputs: &[(usize, Vec<&TableShape>)],
        target: usize,
        moves_only: bool,
    ) -> Option<MergePlan> {
        let tables = || inputs.iter().flat_map(|(_, tables)| tables.iter().copied());
        let hull = Span::hull(tables(), self.order)?;
        let levels = inputs.iter().filter(|(_, tables)| !tables.is_empty());
        let (shallowest, deepest) = levels.fold((target, target), |(least, most), (level, _)| {
            (least.min(*level), most.max(*level))
        });
        let reservation = Reservation {
            smallest: hull.smallest.to_vec(),
            largest: hull.largest.to_vec(),
            from_level: shallowest,
            to_level: deepest,
        };
        let mut others = self.shape.reserved.iter();
        let is_taken = others.any(|other| other.meets(&reservation, self.order));
        if is_taken || tables().any(|table| table.busy) {
            return None;
        }
        let bytes: u64 = tables().map(|table| table.bytes).sum();
        let below = || target + 1..=self.shape.levels.len();
        Some(MergePlan {
            inputs: inputs
                .iter()
                .flat_map(|(level, tables)| {
                    tables.iter().map(|table| MergeInput {
                        level: *level,
                        file: table.file,
                    })
                })
                .collect(),
            target_level: target,
            is_bottom: below().all(|level| self.overlapping(level, hull).is_empty()),
            output_table_bytes: output_bytes(bytes, self.options.table_bytes_target),
            moves_only,
            cuts: Vec::new(),
            reservation,
        })
    }
}

/// Divides `bytes` into equal tables of at most about `target` bytes; a sixteenth is added so that the last table
/// does not begin for a few entries.
fn output_bytes(bytes: u64, target: u64) -> u64 {
    let target = target.max(1);
    let tables = bytes.div_ceil(target).max(1);
    let even = bytes.div_ceil(tables);
    even.saturating_add(even / 16).max(target / 2).max(1)
}
