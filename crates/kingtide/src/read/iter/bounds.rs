//! Where an iterator may go.
//!
//! The user gives a lower bound, an upper bound and a prefix ([`IterOptions`]); what is left of them is one half-open
//! range of keys. A prefix is a range only where keys sort as their bytes do, so other orders refuse it.

use std::cmp::Ordering;

use kingtide_base::KeyOrder;

use crate::{Error, IterOptions, Result};

/// A half-open range of keys under one order. A range whose lower bound is at or beyond its upper bound is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Bounds {
    /// The range that satisfies every part of `options`.
    ///
    /// # Errors
    /// `InvalidArgument` for a prefix under an order that is not plain byte order.
    pub(crate) fn new(options: &IterOptions, order: &KeyOrder) -> Result<Self> {
        let mut bounds = Self {
            lower: options.lower.clone(),
            upper: options.upper.clone(),
        };
        let prefix = match &options.prefix {
            Some(prefix) if !prefix.is_empty() => prefix,
            Some(_) | None => return Ok(bounds),
        };
        check_bytewise(order)?;
        if bounds.lower.as_ref().is_none_or(|lower| lower < prefix) {
            bounds.lower = Some(prefix.clone());
        }
        if let Some(successor) = prefix_successor(prefix)
            && bounds.upper.as_ref().is_none_or(|upper| *upper > successor)
        {
            bounds.upper = Some(successor);
        }
        Ok(bounds)
    }

    /// The first key that may be visited, if the range has one.
    pub(crate) fn lower(&self) -> Option<&[u8]> {
        self.lower.as_deref()
    }

    /// The first key beyond the end, if the range has one.
    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// True when `key` lies before the range.
    #[inline]
    pub(crate) fn starts_after(&self, key: &[u8], order: &KeyOrder) -> bool {
        self.lower
            .as_ref()
            .is_some_and(|lower| order.compare(key, lower) == Ordering::Less)
    }

    /// True when `key` lies behind the range.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8], order: &KeyOrder) -> bool {
        self.upper
            .as_ref()
            .is_some_and(|upper| order.compare(key, upper) != Ordering::Less)
    }
}

/// The first key with `prefix`, and the first key behind all of them; the latter is empty when there is none.
///
/// # Errors
/// As [`Bounds::new`].
pub(crate) fn prefix_range(prefix: &[u8], order: &KeyOrder) -> Result<(Vec<u8>, Vec<u8>)> {
    check_bytewise(order)?;
    let start = match prefix {
        // Keys have at least one byte.
        [] => vec![0],
        prefix => prefix.to_vec(),
    };
    Ok((start, prefix_successor(prefix).unwrap_or_default()))
}

fn check_bytewise(order: &KeyOrder) -> Result<()> {
    if order.is_bytewise() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a prefix needs the key order memcmp, this family is ordered by {}",
        order.name()
    )))
}

/// The smallest byte string that is larger than every string that begins with `prefix`; none when there is no larger
/// one, that is, when all bytes are 0xff.
fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}
