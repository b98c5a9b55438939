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

/// The components of a level whose tables may overlap, by ascending keys. One pass over the ends of all tables.
pub(crate) fn components<'a>(tables: &'a [TableShape], order: &KeyOrder) -> Vec<Component<'a>> {
    let mut by_start: Vec<usize> = (0..tables.len()).collect();
    by_start
        .sort_by(|left, right| order.compare(&tables[*left].smallest, &tables[*right].smallest));
    let mut by_end: Vec<usize> = (0..tables.len()).collect();
    by_end.sort_by(|left, right| order.compare(&tables[*left].largest, &tables[*right].largest));
    let mut ends = by_end.into_iter().peekable();
    let mut found: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut open = 0;
    for index in by_start {
        let start = &tables[index].smallest;
        let is_over = |end: &usize| order.compare(&tables[*end].largest, start).is_lt();
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
    let in_order = |(mut members, depth): (Vec<usize>, usize)| {
        members.sort_unstable();
        Component {
            tables: members.into_iter().map(|index| &tables[index]).collect(),
            depth,
        }
    };
    found.into_iter().map(in_order).collect()
}
