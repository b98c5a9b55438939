//! Pieces of value files in the cache: short records that are read alone, one here and one there.
//!
//! The system has the bytes of a file in memory, as a rule; but to ask it for a record of a hundred bytes takes longer than all
//! else that a read of its value does. So a file is divided into pieces of equal length, and a record that is short beside that is
//! read with its neighbours, if the cache takes their piece in. Records that lie in two pieces are read alone.
//!
//! Pieces are copies of bytes that never change: what a file has is never overwritten. A piece of a file that still grows may end
//! early, and then serves the records that it has. Nothing is verified when a piece is read, but every record whenever it is read.

use std::{ops::Range, sync::Arc};

use kingtide_base::ValuePointer;
use kingtide_collections::{BlockBytes, BlockCache, BlockKey, bytes_in};
use kingtide_format::block::DataBlock;

/// Bytes of a piece; the last one of a file may be shorter.
const PIECE_BYTES: u64 = 8 << 10;
/// Longer records are read alone: few of them fit into a piece.
const RECORD_BYTES_MAX: u64 = PIECE_BYTES / 4;

/// The piece in which the record lies that `pointer` leads to, and where in it; `None` for a record that is read alone.
pub(crate) fn piece_of(pointer: &ValuePointer) -> Option<(BlockKey, Range<usize>)> {
    let record_bytes = u64::from(pointer.record_bytes);
    let start = pointer.offset % PIECE_BYTES;
    let end = start + record_bytes;
    let is_inside = record_bytes <= RECORD_BYTES_MAX && end <= PIECE_BYTES;
    is_inside.then(|| {
        let place = (pointer.file, pointer.offset - start);
        (place, start as usize..end as usize)
    })
}

/// The piece at `place`, from the cache, or by `read` if the cache takes it in. `read` fills its argument from that place on, and
/// answers how many bytes there were.
pub(crate) fn in_cached_piece(
    cache: &BlockCache<DataBlock>,
    place: BlockKey,
    read: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<Arc<BlockBytes>> {
    if let Some(piece) = cache.piece(&place) {
        return Some(piece);
    }
    if !cache.admits_piece(&place, PIECE_BYTES as usize) {
        return None;
    }
    let mut bytes = bytes_in(cache.memory(), PIECE_BYTES as usize);
    let length = read(bytes.as_mut_slice())?;
    if length < bytes.len() {
        let mut short = bytes_in(cache.memory(), length);
        short.as_mut_slice().copy_from_slice(bytes.get(..length)?);
        bytes = short;
    }
    let piece = Arc::new(bytes);
    cache.insert_piece(place, &piece);
    Some(piece)
}
