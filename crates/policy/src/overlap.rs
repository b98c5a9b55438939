//! Which tables of level 1 hang together, and how many of them overlap in one place.

use kingtide_base::KeyOrder;

use crate::shape::TableShape;

/// Tables that hang together by overlaps: none of them overlaps one outside.
#[derive(Clone, Debug)]
pub(crate) struct Component<'a> {
    /// In the order of the level, the oldest first.
    pub(crate) tables: Vec<&'a TableShape>,
    /// The sorted runs among them: the most tables that hold one key.
    pub(crate) depth: usize,
}

/// The first and the last key of a table.
type Keys<'a> = (&'a [u8], &'a [u8]);

/// The components of a level whose tables may overlap, by ascending keys.
pub(crate) fn components<'a>(tables: &'a [TableShape], order: &KeyOrder) -> Vec<Component<'a>> {
    let keys = |table: &'a TableShape| (&table.smallest[..], &table.largest[..]);
    let spans: Vec<Keys<'_>> = tables.iter().map(keys).collect();
    let in_order = |(mut members, depth): (Vec<usize>, usize)| {
        members.sort_unstable();
        Component {
            tables: members.into_iter().map(|index| &tables[index]).collect(),
            depth,
        }
    };
    sweep(&spans, order).into_iter().map(in_order).collect()
}

/// The most tables that hold one key, of those with these first and last keys: what a point read may have to look into.
///
/// ```
/// use kingtide_base::KeyOrder;
/// use kingtide_policy::sorted_runs;
/// let tables: [(&[u8], &[u8]); 3] = [(b"a", b"f"), (b"m", b"t"), (b"e", b"p")];
/// assert_eq!(sorted_runs(&tables, &KeyOrder::BYTEWISE), 2);
/// ```
#[must_use]
pub fn sorted_runs(tables: &[(&[u8], &[u8])], order: &KeyOrder) -> usize {
    let depths = sweep(tables, order).into_iter().map(|(_, depth)| depth);
    depths.max().unwrap_or(0)
}

/// The components, as indexes, each with its depth. One pass over the ends of all tables.
fn sweep(tables: &[Keys<'_>], order: &KeyOrder) -> Vec<(Vec<usize>, usize)> {
    let mut by_start: Vec<usize> = (0..tables.len()).collect();
    by_start.sort_by(|left, right| order.compare(tables[*left].0, tables[*right].0));
    let mut by_end: Vec<usize> = (0..tables.len()).collect();
    by_end.sort_by(|left, right| order.compare(tables[*left].1, tables[*right].1));
    let mut ends = by_end.into_iter().peekable();
    let mut found: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut open = 0;
    for index in by_start {
        let start = tables[index].0;
        let is_over = |end: &usize| order.compare(tables[*end].1, start).is_lt();
        while ends.next_if(is_over).is_some() {
            open -= 1;
        }
        if open == 0 {
            found.push((Vec::new(), 0));
        }
        open += 1;
        if let Some((members, depth)) = found.last_mut() {
            members.push(index);
            *depth = open.max(*depth);
        }
    }
    found
}
