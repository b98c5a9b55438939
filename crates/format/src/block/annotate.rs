//! Hex with annotations: what golden files of klog and vlog are made of.

use std::fmt::Write as _;
use std::ops::Range;

use super::{BLOCK_HEADER_BYTES, BlockFault};

const BYTES_PER_LINE: usize = 16;

/// A text that grows line by line: offset, bytes, meaning. A fault is a line like any other, so that a damaged file can
/// be looked at too.
#[derive(Debug)]
pub(crate) struct Annotated<'a> {
    bytes: &'a [u8],
    text: String,
}

impl<'a> Annotated<'a> {
    pub(crate) fn new(bytes: &'a [u8], title: &str) -> Self {
        Self {
            bytes,
            text: format!("{title}, {} bytes\n", bytes.len()),
        }
    }

    /// A line between fields.
    pub(crate) fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A line below the fields, with what they mean together.
    pub(crate) fn remark(&mut self, text: &str) {
        self.text.push_str("        = ");
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(crate) fn fault(&mut self, fault: &BlockFault) {
        self.remark(&format!("FAULT: {fault}"));
    }

    /// The bytes of one field and what they are. Empty fields are left out.
    pub(crate) fn field(&mut self, range: Range<usize>, meaning: &str) {
        let start = range.start;
        let bytes = self.bytes.get(range).unwrap_or_default();
        for (line, chunk) in bytes.chunks(BYTES_PER_LINE).enumerate() {
            let mut hex = String::new();
            for byte in chunk {
                let _ = write!(hex, "{byte:02x} ");
            }
            let note = if line == 0 { meaning } else { "" };
            let offset = start + line * BYTES_PER_LINE;
            let row = format!("{offset:06x}  {hex:<48}  {note}");
            self.text.push_str(row.trim_end());
            self.text.push('\n');
        }
    }

    /// Consecutive fields of the given lengths from `start`; where they end.
    pub(crate) fn fields(&mut self, start: usize, fields: &[(usize, &str)]) -> usize {
        fields.iter().fold(start, |at, (length, meaning)| {
            self.field(at..at + length, meaning);
            at + length
        })
    }

    /// The header of a block at `start`; where its payload begins.
    pub(crate) fn block_header(&mut self, start: usize) -> usize {
        let end = self.fields(
            start,
            &[
                (8, "checksum"),
                (4, "payload bytes"),
                (4, "raw bytes"),
                (1, "kind"),
                (1, "codec"),
            ],
        );
        debug_assert_eq!(end, start + BLOCK_HEADER_BYTES);
        end
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// Bytes as text where they are printable, at most 40 of them.
pub(crate) fn readable(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    if bytes.len() > SHOWN {
        format!("\"{shown}\".. ({} bytes)", bytes.len())
    } else {
        format!("\"{shown}\"")
    }
}
