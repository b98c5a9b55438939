//! Lines of an input: numbered, of bounded length, without the byte order mark that some programs write first.

use std::io::{BufRead, Read};

use super::{RECORD_BYTES_MAX, ReadError};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads lines.
pub(super) struct Lines<R> {
    input: R,
    /// Lines read so far; the number of the line read last.
    pub(super) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// Appends the next line, its end included, to `target`; `false` at the end of the input. A record, that is
    /// `target`, may grow to [`RECORD_BYTES_MAX`].
    pub(super) fn append_line(&mut self, target: &mut Vec<u8>) -> Result<bool, ReadError> {
        let start = target.len();
        let allowed = RECORD_BYTES_MAX.saturating_sub(start);
        let count = (&mut self.input)
            .take(allowed as u64 + 1)
            .read_until(b'\n', target)
            .map_err(ReadError::Io)?;
        if count == 0 {
            return Ok(false);
        }
        self.number += 1;
        if count > allowed {
            return Err(ReadError::fatal(
                self.number,
                format!("the record is longer than {RECORD_BYTES_MAX} bytes"),
            ));
        }
        if self.number == 1 && target[start..].starts_with(BYTE_ORDER_MARK) {
            target.drain(start..start + BYTE_ORDER_MARK.len());
        }
        Ok(true)
    }

    /// Replaces `target` by the next line, without its end.
    pub(super) fn next_line(&mut self, target: &mut Vec<u8>) -> Result<bool, ReadError> {
        target.clear();
        let found = self.append_line(target)?;
        if target.last() == Some(&b'\n') {
            target.pop();
            if target.last() == Some(&b'\r') {
                target.pop();
            }
        }
        Ok(found)
    }
}
