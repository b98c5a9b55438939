//! One sorted table of the tree, and the value log.
//!
//! | module | what it is |
//! |---|---|
//! | [`TableBuilder`] | writes a klog file from sorted entries |
//! | [`Table`] | an open klog file: point reads, cursors, verification |
//! | [`TableCursor`], [`LevelCursor`] | walk one table, or the disjoint tables of a level |
//! | [`TableCache`] | keeps a bounded number of tables open |
//! | [`ScannedTable`] | what is whole in a damaged table |
//! | [`ValueLogBuilder`], [`ValueFiles`] | write and read value files |
//! | [`ValueReadAhead`] | reads values ahead of a scan |
//!
//! The bytes are specified in `docs/formats/klog.md` and `vlog.md` and coded in `kingtide-format`; this crate adds
//! files, caches and the family's order. Every byte is verified before it is believed, and damage is reported with the
//! file and the offset.

mod block_dictionary;
mod builder;
mod cursor;
mod fences;
mod habit;
mod handles;
mod level;
mod long_value;
mod names;
mod output;
mod read_ahead;
mod salvage;
mod samples;
mod scan;
mod sections;
mod table;
mod table_cache;
mod value;
mod value_ahead;
mod value_chunks;
mod value_dictionary;
mod value_log;
mod value_pieces;
mod value_scratch;
mod verify;
mod warm;

pub use builder::{TableBuilder, TableSettings};
pub use cursor::{CursorUse, TableCursor};
pub use fences::Fences;
pub use handles::has_no_more_files;
pub use kingtide_format::block::DataBlock as Block;
pub use level::{LevelCursor, LevelTables};
pub use names::{klog_name, parse_klog_name, parse_vlog_name, vlog_name};
pub use output::Unsynced;
pub use scan::{ScanDamage, ScannedEntries, ScannedEntry, ScannedTable, ScannedValue, scan_value};
pub use sections::read_table_meta;
pub use table::{CachedForm, Table, cached_bytes_max};
pub use table_cache::{OpenTables, TableCache};
pub use value::{BlockValue, TableEntry, TableValue};
pub use value_ahead::ValueReadAhead;
pub use value_chunks::SpilledValueWriter;
pub use value_log::{ValueFiles, ValueLogBuilder, read_value_file_meta};

#[cfg(test)]
mod tests;
