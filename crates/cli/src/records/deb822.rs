//! Paragraphs of fields, the syntax of Debian's package indices and control files (deb822(5)).
//!
//! A paragraph is a run of lines between blank ones. `Name: value` begins a field; a line that begins with a blank or a
//! tab continues it. Lines that begin with `#` are comments. The value of a field with continuation lines is its lines
//! joined by line ends, each continuation without its first character; a lone `.` on such a line (an empty line of the
//! text) stays. Names are compared without case. Values need not be UTF-8.

use std::io::BufRead;

use super::{FIELDS_MAX, Field, ReadError, Record, RecordReader, lines::Lines};

/// Reads paragraphs.
pub(crate) struct Deb822Reader<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
}

impl<R: BufRead> Deb822Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input),
            buffer: Vec::new(),
        }
    }

    /// Goes to the end of the paragraph, so that the next call begins with the next one.
    fn skip_paragraph(&mut self) -> Result<(), ReadError> {
        while self.lines.next_line(&mut self.buffer)? && !is_blank(&self.buffer) {}
        Ok(())
    }

    fn refuse(&mut self, message: String) -> Result<Option<Record>, ReadError> {
        let line = self.lines.number;
        self.skip_paragraph()?;
        Err(ReadError::skippable(line, message))
    }
}

impl<R: BufRead> RecordReader for Deb822Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let mut first_line = 0;
        let mut paragraph_bytes = 0;
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        while self.lines.next_line(&mut self.buffer)? {
            if self.buffer.first() == Some(&b'#') {
                continue;
            }
            if is_blank(&self.buffer) {
                if fields.is_empty() {
                    continue;
                }
                break;
            }
            if first_line == 0 {
                first_line = self.lines.number;
            }
            paragraph_bytes += self.buffer.len();
            if paragraph_bytes > super::RECORD_BYTES_MAX {
                let message = format!(
                    "the paragraph is longer than {} bytes",
                    super::RECORD_BYTES_MAX
                );
                return Err(ReadError::fatal(first_line, message));
            }
            if matches!(self.buffer[0], b' ' | b'\t') {
                let Some((_, value)) = fields.last_mut() else {
                    return self.refuse("a continuation line without a field before it".into());
                };
                value.push(b'\n');
                value.extend_from_slice(self.buffer[1..].trim_ascii_end());
                continue;
            }
            match field_of(&self.buffer) {
                Ok((name, _))
                    if fields
                        .iter()
                        .any(|(other, _)| other.eq_ignore_ascii_case(&name)) =>
                {
                    return self.refuse(format!("the paragraph has the field {name:?} twice"));
                }
                Ok(_) if fields.len() == FIELDS_MAX => {
                    return self.refuse(format!("the paragraph has more than {FIELDS_MAX} fields"));
                }
                Ok(field) => fields.push(field),
                Err(message) => return self.refuse(message),
            }
        }
        if fields.is_empty() {
            return Ok(None);
        }
        Ok(Some(Record {
            line: first_line,
            fields: fields
                .into_iter()
                .map(|(name, value)| (name, Field::Bytes(value)))
                .collect(),
            json: None,
        }))
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// The name and the first line of the value of a line `Name: value`.
fn field_of(line: &[u8]) -> Result<(String, Vec<u8>), String> {
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .ok_or("the line has no colon: it is neither a field nor a continuation")?;
    let (name, value) = line.split_at(colon);
    let is_name = !name.is_empty()
        && !name.starts_with(b"-")
        && name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    match std::str::from_utf8(name) {
        Ok(name) if is_name => Ok((name.to_owned(), value[1..].trim_ascii().to_vec())),
        _ => Err(format!(
            "{:?} is not a field's name",
            String::from_utf8_lossy(name)
        )),
    }
}
