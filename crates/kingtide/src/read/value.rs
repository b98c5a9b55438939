//! The bytes of one value, without a copy where that is possible.
//!
//! A get answers with the bytes where they lie, in a memtable or in a cached block, and keeps that place alive. Where
//! there is no such place (the value came from the value log, or out of a decompressor) the bytes are owned.

use std::{fmt, ops::Deref, sync::Arc};

use kingtide_table::BlockValue;

/// Something that holds the bytes of values and can be kept alive: a memtable.
pub(crate) trait ValueOwner: Send + Sync {
    /// The value that `token` names; what a token means is the owner's business, for a memtable it is the entry's
    /// offset. Must answer the same bytes for as long as the owner lives, and empty bytes for an unknown token.
    fn bytes(&self, token: usize) -> &[u8];
}

/// The bytes of a value. Behaves like a byte slice, and pins the memory that they lie in until it is dropped: copy them
/// out with [`Value::into_vec`] to hold many for long. Clones share the bytes.
#[derive(Clone)]
pub struct Value(Place);

/// Where the bytes are. A new place needs its variant, its line in `deref`, and a constructor.
#[derive(Clone)]
enum Place {
    Owned(Arc<Vec<u8>>),
    Pinned {
        owner: Arc<dyn ValueOwner>,
        token: usize,
    },
    Block(BlockValue),
}

impl Value {
    /// A value of its own.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self(Place::Owned(Arc::new(bytes)))
    }

    /// The value `token` of `owner`, which lives at least as long as the result.
    pub(crate) fn pinned(owner: Arc<dyn ValueOwner>, token: usize) -> Self {
        Self(Place::Pinned { owner, token })
    }

    /// A value in a block of a table.
    pub(crate) fn in_block(value: BlockValue) -> Self {
        Self(Place::Block(value))
    }

    /// The bytes as a vector: moved out if this is their only owner, copied if not.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Place::Owned(bytes) => Arc::unwrap_or_clone(bytes),
            Place::Block(value) => value.into_vec(),
            place @ Place::Pinned { .. } => Self(place).to_vec(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Owned(bytes) => bytes,
            Place::Pinned { owner, token } => owner.bytes(*token),
            Place::Block(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.into_vec()
    }
}

impl Eq for Value {}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

macro_rules! equals_bytes {
    ($([$($generics:tt)*] $other:ty),+ $(,)?) => {$(
        impl<$($generics)*> PartialEq<$other> for Value {
            fn eq(&self, other: &$other) -> bool {
                let bytes: &[u8] = other.as_ref();
                **self == *bytes
            }
        }
    )+};
}

equals_bytes!(
    [] [u8],
    [] &[u8],
    [] Vec<u8>,
    [const N: usize] [u8; N],
    [const N: usize] &[u8; N],
);

#[cfg(test)]
mod tests {
    use super::*;

    struct Arena(Vec<Vec<u8>>);

    impl ValueOwner for Arena {
        fn bytes(&self, token: usize) -> &[u8] {
            self.0.get(token).map(Vec::as_slice).unwrap_or_default()
        }
    }

    const fn is_shareable<T: Clone + Send + Sync + 'static>() {}
    const _: () = is_shareable::<Value>();

    #[test]
    fn values_compare_and_print_like_their_bytes() {
        let arena: Arc<dyn ValueOwner> = Arc::new(Arena(vec![b"one".to_vec(), Vec::new()]));
        for value in [Value::owned(b"one".to_vec()), Value::pinned(arena, 0)] {
            assert_eq!(value, b"one");
            assert_eq!(value, *b"one");
            assert_eq!(value, b"one"[..]);
            assert_eq!(value, &b"one"[..]);
            assert_eq!(value, b"one".to_vec());
            assert_eq!(value, value.clone());
            assert_ne!(value, b"two");
            assert_eq!(format!("{value:?}"), format!("{:?}", b"one"));
            assert_eq!(value.len(), 3);
            assert_eq!(value.into_vec(), b"one");
        }
    }

    #[test]
    fn a_pinned_value_keeps_its_owner_alive_and_an_owned_one_is_not_copied_out() {
        let arena = Arc::new(Arena(vec![b"one".to_vec()]));
        let value = Value::pinned(arena.clone(), 0);
        assert_eq!(Arc::strong_count(&arena), 2);
        let copy = value.clone();
        drop(value);
        assert_eq!(copy, b"one");
        drop(copy);
        assert_eq!(Arc::strong_count(&arena), 1);

        let bytes = b"owned".to_vec();
        let address = bytes.as_ptr();
        let moved_out = Value::owned(bytes).into_vec();
        assert_eq!(moved_out.as_ptr(), address);
    }

    #[test]
    fn an_unknown_token_is_empty() {
        let value = Value::pinned(Arc::new(Arena(Vec::new())), 7);
        assert!(value.is_empty());
    }
}
