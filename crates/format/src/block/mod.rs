//! The blocks of a klog file and the compression of blocks and values. `docs/formats/klog.md` is the specification.

mod annotate;
mod build;
mod codec;
mod columns;
mod data;
mod dictionary;
mod fault;
mod header;
mod lz4_range;
mod pointer;
mod search;

pub(crate) use annotate::{Annotated, readable};
pub use build::DataBlockBuilder;
pub use codec::{RAW_BYTES_MAX, compress, compress_if_smaller, decompress};
pub(crate) use codec::{decompress_behind, saves_an_eighth};
pub use data::DataBlock;
pub use dictionary::BlockDictionary;
pub use fault::BlockFault;
pub use header::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, BlockPlace, begin_block, end_block, open_block,
    open_section, write_section,
};
pub use pointer::{decode_pointer, encode_pointer};

#[cfg(test)]
mod tests;
