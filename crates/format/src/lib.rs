//! Bytes to values and back, for everything durable. No I/O, no unsafe.

mod codec;
mod table_meta;

pub mod block;
pub mod klog;
pub mod vlog;

pub use codec::CodecId;
pub use table_meta::{TableMeta, ValueFileMeta, ValueFileUse};
