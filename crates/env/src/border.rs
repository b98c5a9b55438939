//! Checks of what callers pass in, one rule for all worlds, so that a test world refuses what the real one refuses.

use std::io;

/// The longest name, in bytes; the limit of every file system that is in use.
const NAME_BYTES_MAX: usize = 255;

/// Refuses every name that is not a single component of a path.
///
/// # Errors
/// `InvalidInput` for an empty or overlong name, `.`, `..`, and names with a separator or a zero byte.
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    let is_component = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && !name.bytes().any(|byte| byte == b'/' || byte == 0);
    if is_component {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not the name of a file in a directory"),
        ))
    }
}

/// The end of `bytes` at `offset`.
///
/// # Errors
/// `InvalidInput` when it is beyond what an offset in a file can say.
pub(crate) fn end_of(offset: u64, bytes: u64) -> io::Result<u64> {
    offset
        .checked_add(bytes)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bytes} bytes at offset {offset} end beyond every file"),
            )
        })
}

/// The answer to a change through a handle that was opened with [`crate::OpenMode::Read`].
pub(crate) fn read_only() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the file was opened for reading only",
    )
}
