//! Verification.

use std::ffi::{CString, c_char, c_int};

use crate::{
    border::{Failure, InCallback, answer, code, not_in_callback},
    objects::DatabaseHandle,
    pointer::{Context, Out},
};

/// Told how far a verification is: bytes done, bytes in all.
pub type ProgressFn = Option<unsafe extern "C" fn(u64, u64, Context)>;

/// Told of one damage, as text.
pub type DamageFn = Option<unsafe extern "C" fn(*const c_char, Context)>;

/// Reads and checks every byte of every table and value file.
#[unsafe(no_mangle)]
pub extern "C" fn kt_verify(
    db: DatabaseHandle,
    progress: ProgressFn,
    damage: DamageFn,
    ctx: Context,
    damaged_files: Out<usize>,
) -> c_int {
    answer(|| {
        not_in_callback()?;
        damaged_files.set_if_any(0);
        let database = db.get()?;
        let report = database.db.verify(&mut |done, all| {
            if let Some(progress) = progress {
                let _inside = InCallback::enter();
                // SAFETY: the user gave a function of this signature.
                unsafe { progress(done, all, ctx) };
            }
        })?;
        for text in &report.damages {
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            if let Some(damage) = damage {
                let _inside = InCallback::enter();
                // SAFETY: the user gave a function of this signature; the text lives for the call.
                unsafe { damage(text.as_ptr(), ctx) };
            }
        }
        damaged_files.set_if_any(report.damages.len());
        match report.damages.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(code::CORRUPTION, first.clone())),
        }
    })
}
