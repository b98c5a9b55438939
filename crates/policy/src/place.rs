//! Where a new table goes.

use std::ops::RangeInclusive;

/// The level for a table that would go to level `from`, counted from 1: the deepest one of `in_use` such that nothing in
/// the range of its keys lies on any level from `from` to it. `is_free` answers that for one level: no table on it has keys
/// in the range, and no running merge may put one there.
///
/// So a table never comes to lie below an older version of one of its keys, if it did not at `from`, nor beside one on a
/// level whose tables are disjoint. See [`PolicyOptions::levels_in_use`](crate::PolicyOptions::levels_in_use).
///
/// ```
/// use kingtide_policy::place;
/// assert_eq!(place(1, 3..=4, |_| true), 4);
/// assert_eq!(place(1, 3..=4, |level| level < 4), 3);
/// assert_eq!(place(1, 3..=4, |level| level < 3), 1);
/// assert_eq!(place(1, 3..=4, |level| level > 1), 1);
/// ```
#[must_use]
pub fn place(from: usize, in_use: RangeInclusive<usize>, is_free: impl Fn(usize) -> bool) -> usize {
    let free = (from..=*in_use.end()).take_while(|level| is_free(*level));
    let usable = free.filter(|level| in_use.contains(level));
    usable.last().unwrap_or(from)
}
