//! From a record to a key, a value and an expiry.

use serde_json::Value;

use crate::text::from_hex;

use super::{Field, Malformed, Record};

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where its record begins.
    pub(crate) line: u64,
    /// The key; at least one byte.
    pub(crate) key: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
    /// Unix seconds; 0 is never.
    pub(crate) expires_at: i64,
}

/// Where the value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueFrom {
    /// The field of this name.
    Field(String),
    /// The whole record, as JSON.
    WholeRecord,
}

/// Which fields become what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The field that is the key.
    pub(crate) key_field: String,
    /// The value.
    pub(crate) value: ValueFrom,
    /// The input is what `export` writes: fields `key` or `key_hex`, `value` or `value_hex`, `expires_at`.
    pub(crate) is_exported: bool,
    /// Names are compared without case.
    pub(crate) ignore_case: bool,
}

impl Mapping {
    /// Checks that `header` has the fields that every record needs.
    ///
    /// # Errors
    /// A message that names the missing column and those that exist.
    pub(crate) fn check_header(&self, header: &[String]) -> Result<(), String> {
        let mut needed = vec![&self.key_field];
        if let ValueFrom::Field(name) = &self.value {
            needed.push(name);
        }
        match needed.into_iter().find(|name| !header.contains(name)) {
            None => Ok(()),
            Some(missing) => Err(format!(
                "there is no column {missing:?}; the columns are {}",
                header.join(", ")
            )),
        }
    }

    /// What `record` becomes.
    ///
    /// # Errors
    /// Skippable: a missing field, an empty key, hexadecimal or an expiry that is none.
    pub(crate) fn entry(&self, record: &Record) -> Result<Entry, Malformed> {
        self.try_entry(record).map_err(|message| Malformed {
            line: record.line,
            message,
            can_skip: true,
        })
    }

    fn try_entry(&self, record: &Record) -> Result<Entry, String> {
        let key = self.bytes(record, &self.key_field, key_bytes)?;
        if key.is_empty() {
            return Err("the key is empty".into());
        }
        let value = match &self.value {
            ValueFrom::WholeRecord => record.to_json()?,
            ValueFrom::Field(name) => self.bytes(record, name, |field| Ok(value_bytes(field)))?,
        };
        let expires_at = if self.is_exported {
            expiry(self.find(record, "expires_at"))?
        } else {
            0
        };
        Ok(Entry {
            line: record.line,
            key,
            value,
            expires_at,
        })
    }

    fn find<'a>(&self, record: &'a Record, name: &str) -> Option<&'a Field> {
        let is_named = |candidate: &str| {
            if self.ignore_case {
                candidate.eq_ignore_ascii_case(name)
            } else {
                candidate == name
            }
        };
        record
            .fields
            .iter()
            .find(|(candidate, _)| is_named(candidate))
            .map(|(_, field)| field)
    }

    fn bytes(
        &self,
        record: &Record,
        name: &str,
        convert: impl FnOnce(&Field) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<u8>, String> {
        let hex_name = format!("{name}_hex");
        let hex_field = if self.is_exported {
            self.find(record, &hex_name)
        } else {
            None
        };
        match (self.find(record, name), hex_field) {
            (Some(_), Some(_)) => Err(format!("the record has both {name:?} and {hex_name:?}")),
            (Some(field), None) => convert(field),
            (None, Some(Field::Bytes(text))) => {
                from_hex(text).ok_or_else(|| format!("{hex_name:?} is not hexadecimal"))
            }
            (None, Some(Field::Json(_))) => Err(format!("{hex_name:?} is not hexadecimal")),
            (None, None) => Err(format!("the record has no field {name:?}")),
        }
    }
}

/// Strings, numbers and truth values can be keys.
fn key_bytes(field: &Field) -> Result<Vec<u8>, String> {
    match field {
        Field::Bytes(bytes) => Ok(bytes.clone()),
        Field::Json(value @ (Value::Number(_) | Value::Bool(_))) => {
            Ok(value.to_string().into_bytes())
        }
        Field::Json(_) => Err("the key is neither a string nor a number".into()),
    }
}

fn value_bytes(field: &Field) -> Vec<u8> {
    match field {
        Field::Bytes(bytes) => bytes.clone(),
        Field::Json(value) => value.to_string().into_bytes(),
    }
}

fn expiry(field: Option<&Field>) -> Result<i64, String> {
    let number = match field {
        None | Some(Field::Json(Value::Null)) => return Ok(0),
        Some(Field::Bytes(text)) if text.is_empty() => return Ok(0),
        Some(Field::Bytes(text)) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<i64>().ok()),
        Some(Field::Json(value)) => value.as_i64(),
    };
    match number {
        Some(seconds) if seconds >= 0 => Ok(seconds),
        _ => Err("expires_at is not a number of seconds since 1970".into()),
    }
}
