use std::ops::Range;

/// The first index of `range` for which `before` is false, its end when there is none; `before` must be true on a (possibly
/// empty) front. What [`slice::partition_point`] is for slices.
///
/// ```
/// use kingtide_base::partition;
///
/// assert_eq!(partition(2..9, |index| index * index < 30), 6);
/// assert_eq!(partition(2..5, |_| true), 5);
/// ```
#[inline]
pub fn partition(range: Range<usize>, mut before: impl FnMut(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = usize::midpoint(start, end);
        if before(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}
