//! A layout as JSON, and as a page.

use std::path::Path;

use kingtide::{FamilyLayout, Layout, SegmentLayout, SegmentState, TableLayout, ValueFileLayout};
use kingtide_bench::html::Page;
use serde_json::{Value, json};

use super::state_name;
use crate::text::hex;

/// Bytes of a key that are shown; one may have a million.
const KEY_BYTES_SHOWN: usize = 48;

/// What the page shows, also printed with `--json`.
pub(super) fn data(layout: &Layout, directory: &Path) -> Value {
    // The whole path, because a page is looked at elsewhere; as it was given when the system does not know.
    let directory = directory
        .canonicalize()
        .unwrap_or_else(|_| directory.to_owned());
    json!({
        "directory": directory.display().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "families": layout.families.iter().map(family).collect::<Vec<_>>(),
        "value_files": layout.value_files.iter().map(value_file).collect::<Vec<_>>(),
        "segments": layout.segments.iter().map(segment).collect::<Vec<_>>(),
    })
}

/// The page that shows `data`.
pub(super) fn render(data: &Value) -> String {
    Page {
        title: "Kingtide: the files of a database",
        style: include_str!("lsm.css"),
        script: include_str!("lsm.js"),
        data,
    }
    .render()
}

fn family(family: &FamilyLayout) -> Value {
    let keys = family.boundaries.iter().map(|key| key_text(key));
    json!({
        "name": family.name,
        "comparator": family.comparator,
        "order_known": family.is_order_known,
        "flushed_through": family.flushed_through.0,
        "keys": keys.collect::<Vec<_>>(),
        "tables": family.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn table(table: &TableLayout) -> Value {
    json!({
        "level": table.level,
        "file": table.file,
        "bytes": table.bytes,
        "smallest": table.smallest,
        "largest": table.largest,
        "largest_excluded": table.is_largest_excluded,
        "sequence_min": table.sequence_min.0,
        "sequence_max": table.sequence_max.0,
        "entries": table.entries,
        "tombstones": table.tombstones,
        "tombstones_since": table.tombstones_since,
        "range_deletes": table.range_deletes,
        "raw_bytes": table.raw_bytes,
        "value_bytes": table.value_bytes,
        "value_files": table.value_files,
    })
}

fn value_file(file: &ValueFileLayout) -> Value {
    json!({
        "file": file.file,
        "bytes": file.bytes,
        "live_bytes": file.live_bytes,
        "records": file.records,
        "live_records": file.live_records,
        "tables": file.tables,
    })
}

fn segment(segment: &SegmentLayout) -> Value {
    let mut object = json!({
        "file": segment.file,
        "bytes": segment.bytes,
        "state": state_name(segment.state),
    });
    if let SegmentState::Live { life, position } = segment.state {
        object["life"] = json!(life);
        object["position"] = json!(position);
    }
    object
}

/// A key for people: text as it is when every character can be seen, else hexadecimal after `0x`; long ones are cut.
pub(super) fn key_text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.is_empty() && text.chars().all(is_visible) => {
            let end = (0..=KEY_BYTES_SHOWN.min(text.len()))
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            let rest = text.len() - end;
            match rest {
                0 => text.to_owned(),
                _ => format!("{}\u{2026} ({} bytes)", &text[..end], text.len()),
            }
        }
        _ if key.len() <= KEY_BYTES_SHOWN => format!("0x{}", hex(key)),
        _ => {
            let shown = hex(&key[..KEY_BYTES_SHOWN]);
            format!("0x{shown}\u{2026} ({} bytes)", key.len())
        }
    }
}

/// False for control characters, and for those that have no shape of their own or turn the direction of the text.
fn is_visible(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_where_all_of_it_can_be_seen() {
        assert_eq!(key_text(b"user 7"), "user 7");
        assert_eq!(key_text("na\u{ef}ve".as_bytes()), "na\u{ef}ve");
        assert_eq!(key_text(b""), "0x");
        assert_eq!(key_text(b"a\n"), "0x610a");
        assert_eq!(key_text(b"\xff\x00"), "0xff00");
        assert_eq!(key_text("a\u{202e}b".as_bytes()), "0x61e280ae62");
        let long = key_text("\u{e9}".repeat(500_000).as_bytes());
        assert_eq!(
            long,
            format!("{}\u{2026} (1000000 bytes)", "\u{e9}".repeat(24))
        );
        assert_eq!(
            key_text(&[0; 49]),
            format!("0x{}\u{2026} (49 bytes)", "00".repeat(48))
        );
    }
}
