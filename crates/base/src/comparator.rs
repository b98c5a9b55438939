//! Key orders. A family's keys are sorted by one comparator for ever.
//!
//! The engine compares through [`KeyOrder`], which short-cuts the common order (plain bytes) and tells what else may be
//! done with keys: whether 8-byte heads sort like the keys (only in byte order), and how a key is brought into the
//! canonical bytes that hash indexes and filters need. An order without canonical bytes costs a family its hash index
//! and filters, never a right answer.

use std::{borrow::Cow, cmp::Ordering, fmt, sync::Arc};

/// A total order over keys. Must be the same for the whole life of a database: tables are sorted by it.
pub trait Comparator: Send + Sync {
    /// The name that is stored with every family that uses this order; 1 to 63 bytes.
    fn name(&self) -> &str;

    /// Compares two keys. Must be a total order and must not panic: it is called from background threads.
    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering;

    /// The bytes that all keys equal to `key` share and no other key has, or `None` when this order has no such form.
    /// Must answer `Some` for all keys or for none.
    fn canonical<'a>(&self, key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let _ = key;
        None
    }
}

/// A shared comparator.
pub type ComparatorRef = Arc<dyn Comparator>;

/// The names of the orders that every database knows.
pub const BUILT_IN_COMPARATORS: [&str; 6] = [
    "memcmp",
    "lexicographic",
    "uint64",
    "int64",
    "reverse_memcmp",
    "case_insensitive",
];

/// How the keys of one family are ordered; cheap to clone and to compare with.
#[derive(Clone)]
pub struct KeyOrder {
    custom: Option<ComparatorRef>,
    has_canonical: bool,
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyOrder").field(&self.name()).finish()
    }
}

impl KeyOrder {
    /// Plain byte order, the default.
    pub const BYTEWISE: Self = Self {
        custom: None,
        has_canonical: true,
    };

    /// The order of `comparator`.
    #[must_use]
    pub fn new(comparator: ComparatorRef) -> Self {
        if comparator.name() == "memcmp" {
            return Self::BYTEWISE;
        }
        let has_canonical = comparator.canonical(b"k").is_some();
        Self {
            custom: Some(comparator),
            has_canonical,
        }
    }

    /// The comparator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.custom
            .as_ref()
            .map_or("memcmp", |comparator| comparator.name())
    }

    /// Compares two keys.
    #[inline]
    #[must_use]
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match &self.custom {
            None => left.cmp(right),
            Some(comparator) => comparator.compare(left, right),
        }
    }

    /// True when the two are one key: when they compare as equal.
    #[inline]
    #[must_use]
    pub fn is_same(&self, left: &[u8], right: &[u8]) -> bool {
        match &self.custom {
            None => are_same_bytes(left, right),
            Some(comparator) => comparator.compare(left, right).is_eq(),
        }
    }

    /// True when keys sort as their bytes do, so that prefixes and 8-byte heads may stand for keys.
    #[inline]
    #[must_use]
    pub fn is_bytewise(&self) -> bool {
        self.custom.is_none()
    }

    /// True when [`KeyOrder::hash`] answers, that is, when hash indexes and filters can be used.
    #[inline]
    #[must_use]
    pub fn has_hash(&self) -> bool {
        self.has_canonical
    }

    /// The bytes that equal keys share: the key itself, its canonical form, or nothing when this order has none.
    #[must_use]
    pub fn identity<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.custom {
            None => Cow::Borrowed(key),
            Some(comparator) => comparator.canonical(key).unwrap_or(Cow::Borrowed(&[])),
        }
    }

    /// The hash that equal keys share, or `None` when this order has no canonical form.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> Option<u64> {
        match &self.custom {
            None => Some(crate::key_hash(key)),
            Some(comparator) => comparator
                .canonical(key)
                .map(|canonical| crate::key_hash(&canonical)),
        }
    }
}

/// The built-in comparator of that name, or `None`. The empty name means `memcmp`.
#[must_use]
pub fn built_in_comparator(name: &str) -> Option<ComparatorRef> {
    let order = match name {
        "" | "memcmp" => BuiltIn::Memcmp,
        "lexicographic" => BuiltIn::Lexicographic,
        "uint64" => BuiltIn::Uint64,
        "int64" => BuiltIn::Int64,
        "reverse_memcmp" => BuiltIn::ReverseMemcmp,
        "case_insensitive" => BuiltIn::CaseInsensitive,
        _ => return None,
    };
    Some(Arc::new(order))
}

#[derive(Clone, Copy)]
enum BuiltIn {
    Memcmp,
    Lexicographic,
    Uint64,
    Int64,
    ReverseMemcmp,
    CaseInsensitive,
}

/// The part of a key that `strcmp` sees: everything before the first zero byte.
fn c_string(key: &[u8]) -> &[u8] {
    key.iter()
        .position(|byte| *byte == 0)
        .map_or(key, |end| &key[..end])
}

/// Orders 8-byte keys by `number` and puts all other keys, in byte order, after them.
fn compare_integers<N: Ord>(left: &[u8], right: &[u8], number: fn([u8; 8]) -> N) -> Ordering {
    let left_bytes = <[u8; 8]>::try_from(left);
    let right_bytes = <[u8; 8]>::try_from(right);
    match (left_bytes, right_bytes) {
        (Ok(left), Ok(right)) => number(left).cmp(&number(right)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

impl Comparator for BuiltIn {
    fn name(&self) -> &str {
        BUILT_IN_COMPARATORS[*self as usize]
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Self::Memcmp => left.cmp(right),
            Self::Lexicographic => c_string(left).cmp(c_string(right)),
            Self::Uint64 => compare_integers(left, right, u64::from_ne_bytes),
            Self::Int64 => compare_integers(left, right, i64::from_ne_bytes),
            Self::ReverseMemcmp => right.cmp(left),
            Self::CaseInsensitive => left
                .iter()
                .map(u8::to_ascii_lowercase)
                .cmp(right.iter().map(u8::to_ascii_lowercase)),
        }
    }

    fn canonical<'a>(&self, key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(match self {
            Self::Memcmp | Self::Uint64 | Self::Int64 | Self::ReverseMemcmp => Cow::Borrowed(key),
            Self::Lexicographic => Cow::Borrowed(c_string(key)),
            Self::CaseInsensitive => Cow::Owned(key.to_ascii_lowercase()),
        })
    }
}

/// True when the two are the same bytes. Keys of 8 to 32 bytes are compared by their ends, without a call.
#[inline]
fn are_same_bytes(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    match left.len() {
        8..16 => have_same_ends::<8>(left, right),
        16..=32 => have_same_ends::<16>(left, right),
        33.. => have_same_ends::<16>(left, right) && left == right,
        _ => left == right,
    }
}

#[inline]
fn have_same_ends<const N: usize>(left: &[u8], right: &[u8]) -> bool {
    left.last_chunk::<N>() == right.last_chunk::<N>()
        && left.first_chunk::<N>() == right.first_chunk::<N>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every built-in order is total and agrees with its canonical form. Method: all triples of a set of awkward keys.
    #[test]
    fn built_in_orders_are_total_and_equal_keys_share_their_hash() {
        let keys: Vec<Vec<u8>> = vec![
            vec![],
            b"a".to_vec(),
            b"A".to_vec(),
            b"a\0b".to_vec(),
            b"a\0c".to_vec(),
            b"abcdefgh".to_vec(),
            b"ABCDEFGH".to_vec(),
            1_u64.to_ne_bytes().to_vec(),
            (-1_i64).to_ne_bytes().to_vec(),
            vec![0xff; 9],
        ];
        for name in BUILT_IN_COMPARATORS {
            let order = KeyOrder::new(built_in_comparator(name).expect("built in"));
            assert_eq!(order.name(), name);
            for a in &keys {
                for b in &keys {
                    assert_eq!(order.compare(a, b), order.compare(b, a).reverse());
                    assert_eq!(
                        order.compare(a, b) == Ordering::Equal,
                        order.hash(a) == order.hash(b),
                        "{name} {a:?} {b:?}"
                    );
                    for c in &keys {
                        if order.compare(a, b).is_le() && order.compare(b, c).is_le() {
                            assert!(order.compare(a, c).is_le(), "{name} {a:?} {b:?} {c:?}");
                        }
                    }
                }
            }
        }
    }

    /// Goal: two keys are the same when they compare as equal, wherever they differ. Method: keys of all lengths around
    /// those that are compared by their ends, each byte changed.
    #[test]
    fn the_same_key_is_one_that_compares_as_equal() {
        for name in ["memcmp", "case_insensitive"] {
            let order = KeyOrder::new(built_in_comparator(name).expect("built in"));
            for length in 0..70 {
                let key = vec![b'k'; length];
                assert!(order.is_same(&key, &key.clone()));
                assert!(!order.is_same(&key, &vec![b'k'; length + 1]));
                for at in 0..length {
                    for byte in [b'K', b'j', 0xff] {
                        let mut other = key.clone();
                        other[at] = byte;
                        let is_equal = order.compare(&key, &other).is_eq();
                        assert_eq!(order.is_same(&key, &other), is_equal);
                    }
                }
            }
        }
    }

    #[test]
    fn integers_sort_by_value_and_before_other_keys() {
        let order = KeyOrder::new(built_in_comparator("int64").expect("built in"));
        let minus = (-5_i64).to_ne_bytes();
        let plus = 5_i64.to_ne_bytes();
        assert_eq!(order.compare(&minus, &plus), Ordering::Less);
        assert_eq!(order.compare(&plus, b"a"), Ordering::Less);
    }

    #[test]
    fn unknown_names_are_not_built_in() {
        assert!(built_in_comparator("no such order").is_none());
    }
}
