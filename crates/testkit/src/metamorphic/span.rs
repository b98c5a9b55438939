//! Keys and ranges of one family, as what transactions write, read and lock.

use std::cmp::Ordering;

use kingtide_base::KeyOrder;

use super::operation::Bounds;
use crate::model::{FamilyNumber, Model, Write};

/// A key, or a range of keys.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) family: FamilyNumber,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Key(Vec<u8>),
    Range(Bounds),
}

/// Two keys in order, or `None` when they are equal.
pub(super) fn arrange(order: &KeyOrder, a: &[u8], b: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    match order.compare(a, b) {
        Ordering::Less => Some((a.to_vec(), b.to_vec())),
        Ordering::Equal => None,
        Ordering::Greater => Some((b.to_vec(), a.to_vec())),
    }
}

/// Bounds in order; equal ones become a lower one.
pub(super) fn arrange_bounds(order: &KeyOrder, bounds: &Bounds) -> Bounds {
    match bounds {
        (Some(a), Some(b)) => match arrange(order, a, b) {
            Some((lower, upper)) => (Some(lower), Some(upper)),
            None => (Some(a.clone()), None),
        },
        bounds => bounds.clone(),
    }
}

impl Span {
    pub(super) fn key(family: FamilyNumber, key: &[u8]) -> Self {
        Self {
            family,
            place: Place::Key(key.to_vec()),
        }
    }

    pub(super) fn range(family: FamilyNumber, bounds: &Bounds) -> Self {
        Self {
            family,
            place: Place::Range(bounds.clone()),
        }
    }

    pub(super) fn of_write(write: &Write) -> Self {
        let place = match &write.end {
            None => Place::Key(write.key.clone()),
            Some(end) => Place::Range((Some(write.key.clone()), Some(end.clone()))),
        };
        Self {
            family: write.family,
            place,
        }
    }

    /// True when both are about some key.
    pub(super) fn meets(&self, other: &Self, order: &KeyOrder) -> bool {
        self.family == other.family
            && match (&self.place, &other.place) {
                (Place::Key(a), Place::Key(b)) => order.compare(a, b).is_eq(),
                (Place::Key(key), Place::Range(bounds))
                | (Place::Range(bounds), Place::Key(key)) => within(order, key, bounds),
                (Place::Range(a), Place::Range(b)) => {
                    begins_before_end(order, a, b) && begins_before_end(order, b, a)
                }
            }
    }

    /// The newest commit that changed anything in it; 0 when none did.
    pub(super) fn changed_at(&self, model: &Model) -> u64 {
        match &self.place {
            Place::Key(key) => model.written_at(self.family, key),
            Place::Range((lower, upper)) => {
                model.changed_at(self.family, lower.as_deref(), upper.as_deref())
            }
        }
    }
}

/// True when `key` lies within `bounds`, of which the upper one is excluded.
pub(super) fn within(order: &KeyOrder, key: &[u8], (lower, upper): &Bounds) -> bool {
    lower
        .as_ref()
        .is_none_or(|lower| order.compare(lower, key).is_le())
        && upper
            .as_ref()
            .is_none_or(|upper| order.compare(key, upper).is_lt())
}

fn begins_before_end(order: &KeyOrder, (lower, _): &Bounds, (_, upper): &Bounds) -> bool {
    match (lower, upper) {
        (Some(lower), Some(upper)) => order.compare(lower, upper).is_lt(),
        _ => true,
    }
}
