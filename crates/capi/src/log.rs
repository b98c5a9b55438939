//! Lines for people: on standard error, from the level on that the last opened database asked for.

use std::{
    ffi::{c_char, c_int},
    io::Write as _,
    sync::atomic::{AtomicI32, Ordering},
};

use crate::{
    border::answer,
    pointer::{PATH_BYTES_MAX, Text},
    types::Config,
};

/// As the header numbers them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Error = 3,
}

const LEVEL_INFO: c_int = 1;
const NAMES: [&str; 5] = ["DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

static LEVEL_MIN: AtomicI32 = AtomicI32::new(LEVEL_INFO);

/// Takes the level of a database that is being opened.
pub(crate) fn configure(config: &Config) {
    LEVEL_MIN.store(config.log_level, Ordering::Relaxed);
}

/// Writes a line of this library.
pub(crate) fn write(level: Level, text: &str) {
    line(level as c_int, "kingtide", text);
}

fn line(level: c_int, source: &str, text: &str) {
    if level < LEVEL_MIN.load(Ordering::Relaxed) {
        return;
    }
    let name = usize::try_from(level)
        .ok()
        .and_then(|level| NAMES.get(level));
    let name = name.unwrap_or(&"LOG");
    // Nobody is told when standard error is closed: there is nowhere to tell it.
    let _ = writeln!(std::io::stderr().lock(), "[{name}] {source}: {text}");
}

/// Writes a line that is made already; what `tidesdb_log_write` calls with the text it made.
#[unsafe(no_mangle)]
pub extern "C" fn kt_log_text(level: c_int, file: Text, line_number: c_int, text: Text) {
    let _ = answer(|| {
        let file = if file.is_null() {
            "?".into()
        } else {
            String::from_utf8_lossy(file.bytes(PATH_BYTES_MAX, "file")?)
        };
        let text = String::from_utf8_lossy(text.bytes(TEXT_BYTES_MAX, "text")?);
        line(level, &format!("{file}:{line_number}"), &text);
        Ok(())
    });
}

/// The longest text of a line, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

unsafe extern "C" {
    fn kingtide_capi_log_write(
        level: c_int,
        file: *const c_char,
        line: c_int,
        fmt: *const c_char,
        ...
    );
}

/// Writes a line with printf arguments: goes on to the C function with every register and the stack as they came.
///
/// # Safety
/// As printf.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_log_write(
    level: c_int,
    file: *const c_char,
    line: c_int,
    fmt: *const c_char,
) {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {target}", target = sym kingtide_capi_log_write);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {target}", target = sym kingtide_capi_log_write);
}
