//! Records of files: readers that stream, name the line of everything malformed, and never hold more than one record.
//!
//! A reader yields records one after the other. After a malformed record that is [`Malformed::can_skip`] it stands at
//! the next one; after any other the rest of the input has no meaning any more.

mod csv;
mod deb822;
mod jsonl;
mod lines;
mod mapping;

use std::io;

use serde::ser::{SerializeMap, Serializer};

pub(crate) use csv::CsvReader;
pub(crate) use deb822::Deb822Reader;
pub(crate) use jsonl::JsonlReader;
pub(crate) use mapping::{Entry, Mapping, ValueFrom};

/// The longest record, in bytes; one that is longer is malformed and cannot be skipped.
pub(crate) const RECORD_BYTES_MAX: usize = 256 << 20;
/// The most columns of a CSV file and the most fields of a paragraph.
const FIELDS_MAX: usize = 10_000;

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    /// Text, usually UTF-8.
    Bytes(Vec<u8>),
    /// A JSON value that is not a string.
    Json(serde_json::Value),
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Where it begins; the first line is 1.
    pub(crate) line: u64,
    /// Names and values in the order of the input.
    pub(crate) fields: Vec<(String, Field)>,
    /// The record as JSON, when the input is JSON already.
    pub(crate) json: Option<Vec<u8>>,
}

impl Record {
    /// The whole record as one JSON object.
    fn to_json(&self) -> Result<Vec<u8>, String> {
        if let Some(json) = &self.json {
            return Ok(json.clone());
        }
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut bytes);
        let mut object = serializer
            .serialize_map(Some(self.fields.len()))
            .map_err(|source| source.to_string())?;
        for (name, field) in &self.fields {
            match field {
                Field::Bytes(value) => {
                    let text = std::str::from_utf8(value).map_err(|_| {
                        format!("field {name:?} is not UTF-8, so the record cannot become JSON")
                    })?;
                    object.serialize_entry(name, text)
                }
                Field::Json(value) => object.serialize_entry(name, value),
            }
            .map_err(|source| source.to_string())?;
        }
        object.end().map_err(|source| source.to_string())?;
        Ok(bytes)
    }
}

/// A record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where the trouble is; the first line is 1.
    pub(crate) line: u64,
    /// What is wrong.
    pub(crate) message: String,
    /// Whether the reader knows where the next record begins.
    pub(crate) can_skip: bool,
}

/// Why there is no next record.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is there, and wrong.
    Malformed(Malformed),
    /// The input cannot be read.
    Io(io::Error),
}

impl ReadError {
    fn skippable(line: u64, message: impl Into<String>) -> Self {
        Self::Malformed(Malformed {
            line,
            message: message.into(),
            can_skip: true,
        })
    }

    fn fatal(line: u64, message: impl Into<String>) -> Self {
        Self::Malformed(Malformed {
            line,
            message: message.into(),
            can_skip: false,
        })
    }
}

/// Reads records of one format.
pub(crate) trait RecordReader {
    /// The next record, or `None` at the end.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn next_record(&mut self) -> Result<Option<Record>, ReadError>;
}

#[cfg(test)]
mod tests;
