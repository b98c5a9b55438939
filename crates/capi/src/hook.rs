//! Commit hooks.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::Arc,
};

use kingtide::{CommitEvent, CommitHook, CommitOperation};

use crate::{
    border::{InHook, Outcome, answer, not_in_callback},
    objects::{Family, FamilyHandle, lock},
    pointer::Context,
    types::{CommitHookFn, CommitOp},
};

const IS_PUT: c_int = 0;
const IS_DELETE: c_int = 1;
const IS_RANGE_DELETE: c_int = 2;

/// One operation as C sees it.
fn operation(operation: CommitOperation<'_>) -> CommitOp {
    let (key, value, ttl, is_delete) = match operation {
        CommitOperation::Put {
            key,
            value,
            expires_at,
        } => (key, Some(value), expires_at, IS_PUT),
        CommitOperation::Delete { key } | CommitOperation::SingleDelete { key } => {
            (key, None, 0, IS_DELETE)
        }
        CommitOperation::RangeDelete { start, end } => (
            start,
            Some(end).filter(|end| !end.is_empty()),
            0,
            IS_RANGE_DELETE,
        ),
        // An operation of a newer engine: told without what this struct has no place for.
        _ => (&[][..], None, 0, IS_DELETE),
    };
    CommitOp {
        key: key.as_ptr(),
        key_size: key.len(),
        value: value.map_or(ptr::null(), <[u8]>::as_ptr),
        value_size: value.map_or(0, <[u8]>::len),
        ttl,
        is_delete,
    }
}

/// The user's function as a hook of the engine.
fn hook(function: CommitHookFn, context: Context) -> Option<CommitHook> {
    let function = function?;
    Some(Arc::new(move |event: &CommitEvent<'_>| {
        let operations: Vec<CommitOp> = event.operations().map(operation).collect();
        let count = c_int::try_from(operations.len()).map_err(|error| error.to_string())?;
        let context = context.for_call();
        let _inside = InHook::enter();
        // SAFETY: the user gave a function of this signature; the operations live for the call.
        let result = unsafe { function(operations.as_ptr(), count, event.sequence().0, context) };
        if result == 0 {
            Ok(())
        } else {
            Err(format!("the hook answered {result}"))
        }
    }))
}

impl Family {
    /// Sets or clears the hook.
    ///
    /// # Errors
    /// What the engine answers.
    pub(crate) fn set_hook(&self, function: CommitHookFn, context: Context) -> Outcome<()> {
        let hook = hook(function, context);
        self.database.db.set_commit_hook(&self.family, hook)?;
        *lock(&self.hook) = function.map(|function| (function, context));
        Ok(())
    }

    /// The hook as the user gave it.
    pub(crate) fn hook(&self) -> (CommitHookFn, *mut c_void) {
        match *lock(&self.hook) {
            Some((function, context)) => (Some(function), context.0),
            None => (None, ptr::null_mut()),
        }
    }
}

/// Tells a function of the commits of a family.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_set_commit_hook(
    cf: FamilyHandle,
    hook: CommitHookFn,
    ctx: Context,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        cf.get()?.set_hook(hook, ctx)
    })
}
