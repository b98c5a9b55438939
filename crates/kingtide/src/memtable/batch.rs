//! What of one commit's operations a memtable takes.
//!
//! All operations of a commit share its sequence number, and at one number a put beats a range delete. So what a range
//! delete covers of the operations *before* it in the same commit is left out; those after it count. The log holds all
//! operations in their order, and its replay asks the same question again.

use kingtide_base::{EntryKind, Fragments, KeyOrder, RangeTombstone, SeqNo};

/// Kind, key (or start) and value (or end) of an operation.
pub(crate) type PlainOp<'a> = (EntryKind, &'a [u8], &'a [u8]);

/// The range deletes among `ops` as fragments, each numbered by the place of its operation, from 1 on, the last one of a
/// range alone: an operation on a key at a smaller place is covered.
pub(crate) fn covered_places<'a>(
    order: &KeyOrder,
    ops: impl Iterator<Item = PlainOp<'a>>,
) -> Fragments {
    let ranges = (1..).zip(ops).filter_map(|(place, (kind, start, end))| {
        (kind == EntryKind::RangeDelete).then_some(RangeTombstone {
            start,
            end,
            sequence: SeqNo(place),
        })
    });
    Fragments::build(order, ranges, &[SeqNo::MAX])
}

/// The indexes of the operations on single keys that no later range delete among `ops` covers; `None` when there is no
/// range delete, so that all of them count.
pub(crate) fn surviving<'a>(
    order: &KeyOrder,
    ops: impl Iterator<Item = PlainOp<'a>> + Clone,
) -> Option<Vec<u32>> {
    let is_range = |(kind, _, _): &PlainOp<'a>| *kind == EntryKind::RangeDelete;
    if !ops.clone().any(|op| is_range(&op)) {
        return None;
    }
    let covered = covered_places(order, ops.clone());
    let points = (0..).zip(ops).filter(|(_, op)| !is_range(op));
    let left = points.filter(|(index, (_, key, _))| {
        covered.cover(order, key, SeqNo::MAX) <= SeqNo(u64::from(*index) + 1)
    });
    Some(left.map(|(index, _)| index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_range_deletes_cover_what_was_written_before_them() {
        let order = KeyOrder::BYTEWISE;
        let put = |key: &'static str| (EntryKind::Put, key.as_bytes(), &b"v"[..]);
        let range = |start: &'static str, end: &'static str| {
            (EntryKind::RangeDelete, start.as_bytes(), end.as_bytes())
        };
        let of = |ops: &[PlainOp<'static>]| surviving(&order, ops.iter().copied());
        assert_eq!(of(&[put("a"), put("b")]), None);
        assert_eq!(of(&[put("a"), put("b"), range("b", "c")]), Some(vec![0]));
        assert_eq!(of(&[range("a", "c"), put("a"), put("b")]), Some(vec![1, 2]));
        assert_eq!(
            of(&[
                put("a"),
                range("a", ""),
                put("b"),
                range("b", "c"),
                put("a")
            ]),
            Some(vec![4])
        );
        assert_eq!(of(&[range("a", "b")]), Some(vec![]));
    }
}
