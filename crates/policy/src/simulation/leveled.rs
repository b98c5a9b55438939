//! Leveled compaction with partial merges, to measure the policy against.
use kingtide_base::{KeyOrder, limits::LEVELS_MAX};

use crate::shape::{
    MergeInput, MergePlan, PolicyOptions, Reservation, Span, TableShape, TreeShape,
};

/// Small neighbours that join a level 1 merge, at most, on each side.
const NEIGHBOURS_MAX: usize = 16;
/// A table below this share of the target size is merged rather than moved along with others.
const MOVE_SHARE: u64 = 4;

/// The merge that the leveled policy wants, or `None`.
#[must_use]
pub fn pick_merge_leveled(
    shape: &TreeShape,
    options: &PolicyOptions,
    order: &KeyOrder,
) -> Option<MergePlan> {
    let picker = Picker::new(shape, options, order);
    picker
        .deepen()
        .or_else(|| picker.relieve())
        .or_else(|| picker.sink_tombstones())
}

fn any_busy(tables: &[&TableShape]) -> bool {
    tables.iter().any(|table| table.busy)
}

struct Picker<'a> {
    shape: &'a TreeShape,
    options: &'a PolicyOptions,
    order: &'a KeyOrder,
    /// The last level, counted from 1.
    last: usize,
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

    /// The bytes that `level` would hold if the last level were `ratio` times the one above, and so on.
    fn share(&self, level: usize) -> u64 {
        (level..self.last).fold(self.shape.level_bytes(self.last), |bytes, _| {
            bytes / self.options.ratio()
        })
    }

    fn capacity(&self, level: usize) -> u64 {
        self.share(level).max(self.options.base_bytes())
    }

    /// Opens a new last level when the present one has outgrown its place.
    fn deepen(&self) -> Option<MergePlan> {
        let bound = (1..self.last).fold(self.options.base_bytes(), |bytes, _| {
            bytes.saturating_mul(self.options.ratio())
        });
        let tables: Vec<&TableShape> = self.shape.level(self.last).iter().collect();
        if self.last >= LEVELS_MAX
            || self.shape.level_bytes(self.last) <= bound
            || any_busy(&tables)
        {
            return None;
        }
        self.plan(&[(self.last, tables)], self.last + 1, true)
    }

    /// Merges out of the level that is furthest over its bound, or the next one if that cannot be done now.
    fn relieve(&self) -> Option<MergePlan> {
        let level_one = self.shape.level(1);
        let mut fullness =
            level_one.len() as f64 / self.options.l1_file_count_trigger.max(1) as f64;
        if level_one.iter().any(|table| self.options.must_shed(table)) {
            fullness = fullness.max(1.0);
        }
        let mut candidates = Vec::new();
        if fullness >= 1.0 {
            candidates.push((fullness, 1));
        }
        for level in 2..self.last {
            let fullness = self.shape.level_bytes(level) as f64 / self.capacity(level) as f64;
            if fullness > 1.0 {
                candidates.push((fullness, level));
            }
        }
        candidates.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
        candidates.into_iter().find_map(|(_, level)| {
            if level == 1 {
                self.merge_level_one()
            } else {
                self.merge_cheapest(level, |_| true)
            }
        })
    }

    /// Merges dense tables down, the deepest level first because its tombstones are closest to their end.
    fn sink_tombstones(&self) -> Option<MergePlan> {
        if self.options.tombstone_density_trigger <= 0.0 {
            return None;
        }
        (2..self.last)
            .rev()
            .find_map(|level| self.merge_cheapest(level, |table| self.options.must_shed(table)))
    }

    /// Where level 1 goes. All levels between are empty.
    fn level_one_target(&self) -> usize {
        (2..self.last)
            .find(|level| {
                !self.shape.level(*level).is_empty()
                    || self.share(*level) >= self.options.base_bytes()
            })
            .unwrap_or(self.last)
    }

    fn overlapping(&self, level: usize, span: Span<'_>) -> Vec<&'a TableShape> {
        let shape: &'a TreeShape = self.shape;
        shape
            .level(level)
            .iter()
            .filter(|table| Span::of(table).overlaps(span, self.order))
            .collect()
    }

    fn merge_level_one(&self) -> Option<MergePlan> {
        let tables: Vec<&TableShape> = self.shape.level(1).iter().collect();
        if any_busy(&tables) {
            return None;
        }
        let target = self.level_one_target();
        let moved = self.movable(&tables, target);
        if !moved.is_empty() {
            return self.plan(&[(1, moved)], target, true);
        }
        let hull = Span::hull(tables.iter().copied(), self.order)?;
        let overlapped = self.with_neighbours(&tables, target, hull);
        if any_busy(&overlapped) {
            return None;
        }
        let is_single_move = overlapped.is_empty() && tables.len() == 1;
        let moves_only = is_single_move && !self.sheds_tombstones(&tables, target);
        self.plan(&[(1, tables), (target, overlapped)], target, moves_only)
    }

    /// The tables of level 1 that overlap neither each other nor the target and are worth keeping as they are.
    fn movable(&self, tables: &[&'a TableShape], target: usize) -> Vec<&'a TableShape> {
        tables
            .iter()
            .copied()
            .filter(|table| {
                let span = Span::of(table);
                let is_alone = tables.iter().all(|other| {
                    other.file == table.file || !Span::of(other).overlaps(span, self.order)
                });
                let is_large =
                    table.bytes.saturating_mul(MOVE_SHARE) >= self.options.table_bytes_target;
                is_alone
                    && is_large
                    && self.overlapping(target, span).is_empty()
                    && !self.sheds_tombstones(&[table], target)
            })
            .collect()
    }

    /// The tables of the target in `hull`, and the small ones next to them.
    fn with_neighbours(
        &self,
        sources: &[&TableShape],
        target: usize,
        hull: Span<'_>,
    ) -> Vec<&'a TableShape> {
        let level: &'a [TableShape] = {
            let shape: &'a TreeShape = self.shape;
            shape.level(target)
        };
        let before = |table: &TableShape| self.order.compare(&table.largest, hull.smallest).is_lt();
        let after = |table: &TableShape| self.order.compare(&table.smallest, hull.largest).is_gt();
        let mut start = level.partition_point(before);
        let mut end = level.partition_point(|table| !after(table));
        let mut bytes: u64 = sources.iter().map(|table| table.bytes).sum();
        bytes += level[start..end]
            .iter()
            .map(|table| table.bytes)
            .sum::<u64>();
        let joins = |table: &TableShape, bytes: u64| {
            !table.busy
                && table.bytes < self.options.table_bytes_target / 2
                && table.bytes <= bytes.saturating_mul(self.options.ratio())
        };
        for _ in 0..NEIGHBOURS_MAX {
            if start > 0 && joins(&level[start - 1], bytes) {
                start -= 1;
                bytes += level[start].bytes;
            }
            if end < level.len() && joins(&level[end], bytes) {
                bytes += level[end].bytes;
                end += 1;
            }
        }
        level[start..end].iter().collect()
    }

    /// True when rewriting `tables` into `target` would free a good share of them, so that a move is a waste.
    fn sheds_tombstones(&self, tables: &[&TableShape], target: usize) -> bool {
        let entries: u64 = tables.iter().map(|table| table.entries).sum();
        let tombstones: u64 = tables.iter().map(|table| table.tombstones).sum();
        let is_much = tombstones > 0
            && (tombstones.saturating_mul(4) >= entries
                || tables.iter().any(|table| self.options.must_shed(table)));
        is_much && self.is_bottom(tables.iter().copied(), target)
    }

    /// The cheapest merge of one wanted table of `level` (2 or deeper) into the next one.
    fn merge_cheapest(
        &self,
        level: usize,
        is_wanted: impl Fn(&TableShape) -> bool,
    ) -> Option<MergePlan> {
        let target = level + 1;
        let mut best: Option<(f64, &TableShape, Vec<&TableShape>)> = None;
        for table in self.shape.level(level) {
            if table.busy || !is_wanted(table) {
                continue;
            }
            let overlapped = self.overlapping(target, Span::of(table));
            if any_busy(&overlapped) {
                continue;
            }
            let bytes: u64 = overlapped.iter().map(|other| other.bytes).sum();
            let cost = bytes as f64 / table.bytes.max(1) as f64;
            let is_better = best.as_ref().is_none_or(|(least, chosen, _)| {
                cost.total_cmp(least)
                    .then(table.file.cmp(&chosen.file))
                    .is_lt()
            });
            if is_better {
                best = Some((cost, table, overlapped));
            }
        }
        let (_, table, overlapped) = best?;
        let moves_only = overlapped.is_empty() && !self.sheds_tombstones(&[table], target);
        self.plan(
            &[(level, vec![table]), (target, overlapped)],
            target,
            moves_only,
        )
    }

    fn is_bottom<'t>(
        &self,
        tables: impl IntoIterator<Item = &'t TableShape>,
        target: usize,
    ) -> bool {
        Span::hull(tables, self.order).is_none_or(|hull| {
            (target + 1..=self.shape.levels.len())
                .all(|level| self.overlapping(level, hull).is_empty())
        })
    }

    fn plan(
        &self,
        inputs: &[(usize, Vec<&TableShape>)],
        target: usize,
        moves_only: bool,
    ) -> Option<MergePlan> {
        let tables = || inputs.iter().flat_map(|(_, tables)| tables.iter().copied());
        tables().next()?;
        let bytes: u64 = tables().map(|table| table.bytes).sum();
        let hull = Span::hull(tables(), self.order)?;
        let reservation = Reservation {
            smallest: hull.smallest.to_vec(),
            largest: hull.largest.to_vec(),
            from_level: inputs.iter().map(|(level, _)| *level).min()?.min(target),
            to_level: target,
        };
        let mut others = self.shape.reserved.iter();
        if others.any(|other| other.meets(&reservation, self.order)) {
            return None;
        }
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
            is_bottom: self.is_bottom(tables(), target),
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
