//! Bytes as text and back: hexadecimal, escapes for terminals, JSON.

use std::{fmt::Write, time::Duration};

use serde_json::{Map, Value};

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes that `text` spells in hexadecimal, in either case; `None` for an odd number of digits or other signs.
pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2)
        .map(|pair| {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect()
}

/// How far [`escape`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// For one field of a line: line ends, tabs and backslashes are escaped too, so that the field can be read back.
    Field,
    /// For a text of its own: line ends, tabs and backslashes stay.
    Text,
}

/// UTF-8 as it is; other bytes and control characters as `\xNN`, so that no stored value can command the terminal.
pub(crate) fn escape(bytes: &[u8], how: Escape) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match (character, how) {
                ('\n' | '\t' | '\\', Escape::Text) => text.push(character),
                ('\n', Escape::Field) => text.push_str("\\n"),
                ('\t', Escape::Field) => text.push_str("\\t"),
                ('\\', Escape::Field) => text.push_str("\\\\"),
                _ if character.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in character.encode_utf8(&mut buffer).bytes() {
                        let _ = write!(text, "\\x{byte:02x}");
                    }
                }
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Puts `bytes` into a JSON object: under `name` as text, or under `name_hex` when they are not UTF-8.
pub(crate) fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{name}_hex"), Value::from(hex(bytes))),
    };
}

/// A number of bytes for people: `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{number:.1} {}", UNITS[unit])
    }
}

/// A length of time for people, in its largest whole unit: `3 h`.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let texts = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|seconds| {
            let duration = Duration::from_secs(seconds);
            age(duration)
        });
        assert_eq!(
            texts,
            ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]
        );
    }

    #[test]
    fn hexadecimal_survives_a_round_trip_and_nonsense_is_refused() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(hex(&bytes).as_bytes()), Some(bytes));
        assert_eq!(from_hex(b"AbcD"), Some(vec![0xab, 0xcd]));
        assert_eq!(from_hex(b""), Some(vec![]));
        for wrong in [&b"a"[..], b"0g", b"0x", b"+1", b"\xc3\xa9"] {
            assert_eq!(from_hex(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let bytes = b"a\tb\nc\\\x1b[2J\xff\xc3\xa9\xc2\x9b\x7f";
        assert_eq!(
            escape(bytes, Escape::Field),
            "a\\tb\\nc\\\\\\x1b[2J\\xff\u{e9}\\xc2\\x9b\\x7f"
        );
        assert_eq!(
            escape(bytes, Escape::Text),
            "a\tb\nc\\\\x1b[2J\\xff\u{e9}\\xc2\\x9b\\x7f"
        );
    }

    #[test]
    fn json_names_say_whether_bytes_are_text() {
        let mut object = Map::new();
        insert_bytes(&mut object, "key", "\u{e9}".as_bytes());
        insert_bytes(&mut object, "value", b"\xff\x00");
        let text = Value::Object(object).to_string();
        assert_eq!(text, "{\"key\":\"\u{e9}\",\"value_hex\":\"ff00\"}");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }
}
