//! Key orders: the built-in ones as functions, and those of the user.

use std::{
    cmp::Ordering,
    ffi::{c_int, c_void},
    sync::{Arc, OnceLock},
};

use kingtide::{BUILT_IN_COMPARATORS, Comparator, ComparatorRef, limits};
use kingtide_base::built_in_comparator;

use crate::{
    border::{Failure, InCallback, Outcome, answer, answer_with, code, not_in_callback},
    objects::{Database, DatabaseHandle, lock},
    pointer::{Bytes, Context, Out, Text},
    types::ComparatorFn,
};

type CompareFn = unsafe extern "C" fn(*const u8, usize, *const u8, usize, Context) -> c_int;

/// The longest `ctx_str`, in bytes; the struct holds 256 with the zero byte.
const CONTEXT_TEXT_BYTES_MAX: usize = 255;

/// An order of the user.
#[derive(Debug)]
pub(crate) struct Registered {
    name: String,
    compare: CompareFn,
    pub(crate) context: Context,
    pub(crate) context_text: String,
}

impl Registered {
    /// Checks what the user gave.
    ///
    /// # Errors
    /// `TDB_ERR_INVALID_ARGS`: null, a name that is too long or built in, a context text that is too long.
    pub(crate) fn new(
        name: Text,
        compare: ComparatorFn,
        ctx_str: Text,
        context: Context,
    ) -> Outcome<Self> {
        let name = name.name(limits::COMPARATOR_NAME_BYTES_MAX, "name")?;
        let compare = compare.ok_or_else(|| Failure::null("fn"))?;
        let context_text = if ctx_str.is_null() {
            String::new()
        } else {
            let bytes = ctx_str.bytes(CONTEXT_TEXT_BYTES_MAX, "ctx_str")?;
            String::from_utf8_lossy(bytes).into_owned()
        };
        if BUILT_IN_COMPARATORS.contains(&engine_name(name)) {
            return Err(Failure::invalid(format!("name: {name:?} is built in")));
        }
        Ok(Self {
            name: name.to_owned(),
            compare,
            context,
            context_text,
        })
    }

    /// True when the other order has the same name.
    pub(crate) fn has_name_of(&self, other: &Self) -> bool {
        self.name == other.name
    }

    pub(crate) fn function(&self) -> CompareFn {
        self.compare
    }
}

impl Comparator for Registered {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let _inside = InCallback::enter();
        // SAFETY: the user gave a function of this signature; the keys live for the call.
        let order = unsafe {
            (self.compare)(
                left.as_ptr(),
                left.len(),
                right.as_ptr(),
                right.len(),
                self.context,
            )
        };
        order.cmp(&0)
    }
}

impl Database {
    /// The order of the user of that name.
    pub(crate) fn comparator(&self, name: &str) -> Option<Arc<Registered>> {
        let comparators = lock(&self.comparators);
        comparators.iter().find(|order| order.name == name).cloned()
    }
}

/// Makes an order known.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_register_comparator(
    db: DatabaseHandle,
    name: Text,
    compare: ComparatorFn,
    ctx_str: Text,
    ctx: Context,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        let database = db.get()?;
        let order = Arc::new(Registered::new(name, compare, ctx_str, ctx)?);
        // Not the list's own lock: opening the families that waited for the order calls it.
        let _changes = lock(&database.family_changes);
        if database.comparator(&order.name).is_some() {
            return Err(Failure::invalid(format!(
                "name: {:?} is registered already",
                order.name
            )));
        }
        database.db.register_comparator(Arc::clone(&order) as _)?;
        lock(&database.comparators).push(order);
        Ok(())
    })
}

/// Looks an order up.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_get_comparator(
    db: DatabaseHandle,
    name: Text,
    compare: Out<ComparatorFn>,
    ctx: Out<*mut c_void>,
) -> c_int {
    answer(|| {
        let database = db.get()?;
        let name = name.name(limits::COMPARATOR_NAME_BYTES_MAX, "name")?;
        let (function, context) = if let Some(function) = built_in(name) {
            (function, std::ptr::null_mut())
        } else {
            let order = database.comparator(name).ok_or_else(|| {
                Failure::new(code::NOT_FOUND, format!("name: {name:?} is not registered"))
            })?;
            (order.compare, order.context.0)
        };
        compare.set_if_any(Some(function));
        ctx.set_if_any(context);
        Ok(())
    })
}

/// The name by which the engine knows an order: callers also know the backward one as `reverse`.
pub(crate) fn engine_name(name: &str) -> &str {
    if name == "reverse" {
        "reverse_memcmp"
    } else {
        name
    }
}

macro_rules! built_ins {
    ($($(#[$doc:meta])* $function:ident = $name:literal),+ $(,)?) => {
        fn built_in(name: &str) -> Option<CompareFn> {
            match engine_name(name) {
                $($name => Some($function),)+
                _ => None,
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Each key is null, or points to as many bytes as its size says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $function(
                key1: *const u8,
                key1_size: usize,
                key2: *const u8,
                key2_size: usize,
                _ctx: Context,
            ) -> c_int {
                static ORDER: OnceLock<Option<ComparatorRef>> = OnceLock::new();
                answer_with(
                    || {
                        let (left, right) = (Bytes::from_raw(key1), Bytes::from_raw(key2));
                        let (left, right) = (left.operand(key1_size), right.operand(key2_size));
                        let order = ORDER.get_or_init(|| built_in_comparator($name));
                        Ok(match order.as_ref().map(|order| order.compare(left, right)) {
                            Some(Ordering::Less) => -1,
                            Some(Ordering::Greater) => 1,
                            Some(Ordering::Equal) | None => 0,
                        })
                    },
                    |_| 0,
                )
            }
        )+
    };
}

built_ins!(
    /// Byte order.
    tidesdb_comparator_memcmp = "memcmp",
    /// Byte order up to the first zero byte, as strcmp.
    tidesdb_comparator_lexicographic = "lexicographic",
    /// Keys of eight bytes by their unsigned value.
    tidesdb_comparator_uint64 = "uint64",
    /// Keys of eight bytes by their signed value.
    tidesdb_comparator_int64 = "int64",
    /// Byte order, backwards.
    tidesdb_comparator_reverse_memcmp = "reverse_memcmp",
    /// Byte order of the keys in ASCII lower case.
    tidesdb_comparator_case_insensitive = "case_insensitive",
);
