//! Key orders for tests: the built-in ones, and one that only the application knows.

use std::{cmp::Ordering, fmt, sync::Arc};

use kingtide::{Comparator, ComparatorRef};
use kingtide_base::{KeyOrder, built_in_comparator};

/// The name of [`ShortFirst`].
pub const SHORT_FIRST: &str = "testkit.short_first";

/// Shorter keys first, keys of one length in byte order. Has no canonical form, so families with it live without hash
/// indexes and filters.
#[derive(Debug)]
pub struct ShortFirst;

impl Comparator for ShortFirst {
    fn name(&self) -> &str {
        SHORT_FIRST
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    }
}

/// The orders that test databases register.
#[must_use]
pub fn registered() -> Vec<ComparatorRef> {
    vec![Arc::new(ShortFirst)]
}

/// The order of that name: a built-in one, or [`ShortFirst`]; byte order for any other name.
#[must_use]
pub fn key_order(name: &str) -> KeyOrder {
    if name == SHORT_FIRST {
        return KeyOrder::new(Arc::new(ShortFirst));
    }
    built_in_comparator(name).map_or(KeyOrder::BYTEWISE, KeyOrder::new)
}

/// A key that sorts by the order of its family, so that ordered maps of the standard library can hold it.
#[derive(Clone)]
pub struct OrderedKey {
    order: KeyOrder,
    /// The key as it was written.
    pub bytes: Vec<u8>,
}

impl OrderedKey {
    /// `bytes` under `order`.
    #[must_use]
    pub fn new(order: &KeyOrder, bytes: &[u8]) -> Self {
        Self {
            order: order.clone(),
            bytes: bytes.to_vec(),
        }
    }
}

impl fmt::Debug for OrderedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.bytes, &other.bytes)
    }
}
