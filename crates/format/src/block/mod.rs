//! The blocks of a klog file and the compression of blocks and values. `docs/formats/klog.md` is the specification.

mod build;
mod codec;
mod data;
mod fault;
mod header;
mod search;

pub use build::DataBlockBuilder;
pub use codec::{RAW_BYTES_MAX, compress, compress_if_smaller, decompress};
pub use data::{DataBlock, decode_pointer, encode_pointer};
pub use fault::BlockFault;
pub use header::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, BlockPlace, begin_block, end_block, open_block,
    open_section, write_section,
};

#[cfg(test)]
mod tests;
