//! Comma-separated values as RFC 4180 describes them, with a header line.
//!
//! Lines end with LF or CRLF. A field in quotes may hold delimiters, line ends and doubled quotes; what follows its
//! closing quote must be a delimiter or a line end. A quote inside a field that did not begin with one is an ordinary
//! character. Empty lines between records are skipped. Fields are bytes: they need not be UTF-8; header names do.
//!
//! Stricter than many readers in two points, because both usually mean lost data: a quote that is never closed is an
//! error (and the end: nobody knows where the next record begins), and so is a record with more or fewer fields than
//! the header.

use std::io::BufRead;

use super::{FIELDS_MAX, Field, ReadError, Record, RecordReader, lines::Lines};

/// Reads records of a CSV file.
pub(crate) struct CsvReader<R> {
    lines: Lines<R>,
    delimiter: u8,
    header: Vec<String>,
    buffer: Vec<u8>,
}

/// The fields of one record.
type Fields = Vec<Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// Behind a quote inside a quoted field: its end, or the first of two.
    QuoteInQuoted,
}

impl<R: BufRead> CsvReader<R> {
    /// A reader that has read the header. An input without any line has no columns and no records.
    ///
    /// # Errors
    /// A header that is malformed, not UTF-8, or names a column twice; never skippable.
    pub(crate) fn new(input: R, delimiter: u8) -> Result<Self, ReadError> {
        let mut reader = Self {
            lines: Lines::new(input),
            delimiter,
            header: Vec::new(),
            buffer: Vec::new(),
        };
        let fields = match reader.next_fields() {
            Ok(Some((_, fields))) => fields,
            Ok(None) => return Ok(reader),
            Err(ReadError::Malformed(mut malformed)) => {
                malformed.can_skip = false;
                return Err(ReadError::Malformed(malformed));
            }
            Err(source) => return Err(source),
        };
        if fields.len() > FIELDS_MAX {
            let message = format!("the header has more than {FIELDS_MAX} columns");
            return Err(ReadError::fatal(reader.lines.number, message));
        }
        for field in fields {
            let name = String::from_utf8(field).map_err(|_| {
                ReadError::fatal(reader.lines.number, "a column's name is not UTF-8")
            })?;
            if reader.header.contains(&name) {
                let message = format!("the header names the column {name:?} twice");
                return Err(ReadError::fatal(reader.lines.number, message));
            }
            reader.header.push(name);
        }
        Ok(reader)
    }

    /// The names of the columns; empty when the input was empty.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The first line and the fields of the next record.
    fn next_fields(&mut self) -> Result<Option<(u64, Fields)>, ReadError> {
        self.buffer.clear();
        let first_line = loop {
            if !self.lines.append_line(&mut self.buffer)? {
                return Ok(None);
            }
            if !matches!(&self.buffer[..], b"\n" | b"\r\n" | b"") {
                break self.lines.number;
            }
            self.buffer.clear();
        };
        let mut fields = vec![Vec::new()];
        let mut state = State::FieldStart;
        let mut parsed = 0;
        loop {
            state = self.parse(parsed, state, &mut fields)?;
            if state != State::Quoted {
                return Ok(Some((first_line, fields)));
            }
            parsed = self.buffer.len();
            if !self.lines.append_line(&mut self.buffer)? {
                let message = "a quote is opened in the record that begins here and never closed";
                return Err(ReadError::fatal(first_line, message));
            }
        }
    }

    /// Parses the line that begins at `start` of the buffer. Answers [`State::Quoted`] when the record goes on.
    fn parse(
        &self,
        start: usize,
        mut state: State,
        fields: &mut Fields,
    ) -> Result<State, ReadError> {
        let line = &self.buffer[start..];
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        let mut field = fields.pop().unwrap_or_default();
        for byte in content {
            match (state, *byte) {
                (State::FieldStart, b'"') => state = State::Quoted,
                (State::Quoted, b'"') => state = State::QuoteInQuoted,
                (State::QuoteInQuoted, b'"') => {
                    field.push(b'"');
                    state = State::Quoted;
                }
                (State::FieldStart | State::Unquoted | State::QuoteInQuoted, byte)
                    if byte == self.delimiter =>
                {
                    fields.push(std::mem::take(&mut field));
                    state = State::FieldStart;
                }
                (State::QuoteInQuoted, _) => {
                    let message = "text follows a closing quote; quotes inside a quoted field are written twice";
                    return Err(ReadError::skippable(self.lines.number, message));
                }
                (State::Quoted, byte) => field.push(byte),
                (State::FieldStart | State::Unquoted, byte) => {
                    field.push(byte);
                    state = State::Unquoted;
                }
            }
        }
        if state == State::Quoted {
            // The line end belongs to the field.
            field.extend_from_slice(&line[content.len()..]);
        }
        fields.push(field);
        Ok(state)
    }
}

impl<R: BufRead> RecordReader for CsvReader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let Some((line, fields)) = self.next_fields()? else {
            return Ok(None);
        };
        if fields.len() != self.header.len() {
            let message = format!(
                "the record has {} fields, the header {}",
                fields.len(),
                self.header.len()
            );
            return Err(ReadError::skippable(line, message));
        }
        let fields = self
            .header
            .iter()
            .cloned()
            .zip(fields.into_iter().map(Field::Bytes))
            .collect();
        Ok(Some(Record {
            line,
            fields,
            json: None,
        }))
    }
}
