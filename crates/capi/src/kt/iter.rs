//! Iterators with bounds.

use std::{ffi::c_int, mem};

use kingtide::{IterOptions, limits};

use crate::{
    border::{Outcome, answer},
    iter,
    objects::{FamilyHandle, IteratorHandle, TransactionHandle, handle_place},
    pointer::{Bytes, GrowingStruct, InSized, Out},
};

/// `kt_iter_options_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    size: usize,
    lower: Bytes,
    lower_size: usize,
    upper: Bytes,
    upper_size: usize,
    prefix: Bytes,
    prefix_size: usize,
}

// SAFETY: repr(C), begins with its size; pointers and integers, of which any bit pattern is one.
unsafe impl GrowingStruct for Bounds {
    fn defaults() -> Self {
        let null = Bytes::from_raw(std::ptr::null());
        Self {
            size: mem::size_of::<Self>(),
            lower: null,
            lower_size: 0,
            upper: null,
            upper_size: 0,
            prefix: null,
            prefix_size: 0,
        }
    }
}

fn bound(bytes: &Bytes, size: usize, name: &'static str) -> Outcome<Option<Vec<u8>>> {
    let bytes = bytes.at_most(size, limits::KEY_BYTES_MAX, name)?;
    Ok((!bytes.is_empty()).then(|| bytes.to_vec()))
}

/// Makes an iterator that visits part of a family.
#[unsafe(no_mangle)]
pub extern "C" fn kt_iter_new(
    txn: TransactionHandle,
    cf: FamilyHandle,
    options: InSized<Bounds>,
    iter: Out<IteratorHandle>,
) -> c_int {
    answer(|| {
        let place = handle_place(iter, IteratorHandle::NULL, "iter")?;
        let given = options.read("options")?;
        let options = IterOptions {
            lower: bound(&given.lower, given.lower_size, "lower")?,
            upper: bound(&given.upper, given.upper_size, "upper")?,
            prefix: bound(&given.prefix, given.prefix_size, "prefix")?,
        };
        place.set(iter::open((txn, cf), options)?);
        Ok(())
    })
}

/// When the entry expires.
#[unsafe(no_mangle)]
pub extern "C" fn kt_iter_expires_at(iter: IteratorHandle, ttl: Out<libc::time_t>) -> c_int {
    answer(|| {
        let place = ttl.require("ttl")?;
        place.set(iter::expires_at(iter)?.unwrap_or(0));
        Ok(())
    })
}
