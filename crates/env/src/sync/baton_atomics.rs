//! Atomic integers of simulated threads: std's, with a pause before each operation.

use std::sync::atomic::Ordering;

use crate::baton;

macro_rules! with_pauses {
    ($($name:ident $inner:ident $value:ty),* $(,)?) => {$(
        #[doc = concat!("[`std::sync::atomic::", stringify!($inner), "`] with a pause before each operation.")]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$inner);

        impl $name {
            /// A new one that holds `value`.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$inner::new(value))
            }

            /// As std's.
            pub fn load(&self, order: Ordering) -> $value {
                baton::pause(17);
                self.0.load(order)
            }

            /// As std's.
            pub fn store(&self, value: $value, order: Ordering) {
                baton::pause(18);
                self.0.store(value, order);
            }

            /// As std's.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                baton::pause(19);
                self.0.swap(value, order)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found, when it is not `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                baton::pause(20);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found, when it is not `current`.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As std's.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As std's.
            #[must_use]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }
    )*};
}

with_pauses!(
    AtomicBool AtomicBool bool,
    AtomicU32 AtomicU32 u32,
    AtomicU64 AtomicU64 u64,
    AtomicUsize AtomicUsize usize,
);

macro_rules! with_arithmetic {
    ($($name:ident $value:ty),* $(,)?) => {$(
        impl $name {
            /// As std's.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                baton::pause(21);
                self.0.fetch_add(value, order)
            }

            /// As std's.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                baton::pause(22);
                self.0.fetch_sub(value, order)
            }

            /// As std's.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                baton::pause(23);
                self.0.fetch_max(value, order)
            }

            /// As std's.
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                baton::pause(24);
                self.0.fetch_min(value, order)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value found, when `change` answers `None`.
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                baton::pause(25);
                self.0.fetch_update(set_order, fetch_order, change)
            }
        }
    )*};
}

with_arithmetic!(AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);

impl AtomicBool {
    /// As std's.
    pub fn fetch_or(&self, value: bool, order: Ordering) -> bool {
        baton::pause(26);
        self.0.fetch_or(value, order)
    }

    /// As std's.
    pub fn fetch_and(&self, value: bool, order: Ordering) -> bool {
        baton::pause(27);
        self.0.fetch_and(value, order)
    }
}
