//! JSON lines: one object per line, blank lines skipped.

use std::io::BufRead;

use serde_json::Value;

use super::{Field, ReadError, Record, RecordReader, lines::Lines};

/// Reads records of a file of JSON lines.
pub(crate) struct JsonlReader<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
}

impl<R: BufRead> JsonlReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input),
            buffer: Vec::new(),
        }
    }
}

impl<R: BufRead> RecordReader for JsonlReader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        while self.lines.next_line(&mut self.buffer)? {
            let line = self.lines.number;
            let text = self.buffer.trim_ascii();
            if text.is_empty() {
                continue;
            }
            let value: Value = serde_json::from_slice(text)
                .map_err(|source| ReadError::skippable(line, describe(&source)))?;
            let Value::Object(object) = value else {
                return Err(ReadError::skippable(line, "the line is JSON but no object"));
            };
            let fields = object
                .into_iter()
                .map(|(name, value)| match value {
                    Value::String(text) => (name, Field::Bytes(text.into_bytes())),
                    other => (name, Field::Json(other)),
                })
                .collect();
            return Ok(Some(Record {
                line,
                fields,
                json: Some(text.to_vec()),
            }));
        }
        Ok(None)
    }
}

/// The parser counts lines within the line it is given; only the column means something here.
fn describe(source: &serde_json::Error) -> String {
    let text = source.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("not JSON: {what} (column {})", source.column())
}
