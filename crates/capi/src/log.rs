//! Lines for people: in the file `LOG` of the database that was opened last, or on standard error, from the level on that
//! it asked for.

use std::{
    ffi::{c_char, c_int},
    io::Write as _,
    mem,
    sync::{Arc, Weak},
};

use kingtide::{LogLevel, LogOptions};

use crate::{
    border::{Failure, Outcome, answer},
    handle::{LOG_LOCK, SpinCell},
    objects::Database,
    pointer::{PATH_BYTES_MAX, Text},
    types::Config,
};

/// Where lines go that belong to no database.
struct Target {
    level: LogLevel,
    database: Weak<Database>,
}

static TARGET: SpinCell<Target> = SpinCell::new(
    LOG_LOCK,
    Target {
        level: LogLevel::Info,
        database: Weak::new(),
    },
);

/// The level of that number.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
fn level(number: c_int) -> Outcome<LogLevel> {
    Ok(match number {
        0 => LogLevel::Debug,
        1 => LogLevel::Info,
        2 => LogLevel::Warn,
        3 => LogLevel::Error,
        4 => LogLevel::Fatal,
        99 => LogLevel::None,
        _ => return Err(Failure::invalid("log_level: not a level")),
    })
}

pub(crate) fn level_number(level: LogLevel) -> c_int {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
        LogLevel::Fatal => 4,
        LogLevel::None => 99,
    }
}

/// The settings of the file `LOG`, and the level from which on lines go to standard error instead.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS`.
pub(crate) fn options(config: &Config) -> Outcome<(LogOptions, Option<LogLevel>)> {
    let level = level(config.log_level)?;
    let to_file = config.log_to_file != 0;
    let options = LogOptions {
        to_file,
        level,
        truncate_bytes: config.log_truncation_at as u64,
    };
    Ok((options, (!to_file).then_some(level)))
}

/// Sends lines to standard error from that level on; until the next open.
pub(crate) fn aim_at_standard_error(level: LogLevel) {
    let aimed = Target {
        level,
        database: Weak::new(),
    };
    // The one before is dropped behind the lock.
    let _before = TARGET.with(|target| mem::replace(target, aimed));
}

/// Sends lines to a database that was opened.
pub(crate) fn aim_at(database: &Arc<Database>) {
    let aimed = Arc::downgrade(database);
    let _before = TARGET.with(|target| mem::replace(&mut target.database, aimed));
}

/// Writes a line of this library.
pub(crate) fn write(level: LogLevel, text: &str) {
    let (limit, database) = TARGET.with(|target| (target.level, target.database.upgrade()));
    match database {
        Some(database) if database.check_open().is_ok() => database.db.log(level, text),
        _ if level >= limit => {
            // Nobody is told when standard error is closed: there is nowhere to tell it.
            let _ = writeln!(std::io::stderr().lock(), "[{level}] kingtide: {text}");
        }
        _ => {}
    }
}

/// Writes a line that is made already; what `tidesdb_log_write` calls with the text it made.
#[unsafe(no_mangle)]
pub extern "C" fn kt_log_text(number: c_int, file: Text, line_number: c_int, text: Text) {
    let _ = answer(|| {
        let file = if file.is_null() {
            "?".into()
        } else {
            String::from_utf8_lossy(file.bytes(PATH_BYTES_MAX, "file")?)
        };
        let text = String::from_utf8_lossy(text.bytes(TEXT_BYTES_MAX, "text")?);
        write(level(number)?, &format!("{file}:{line_number}: {text}"));
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
