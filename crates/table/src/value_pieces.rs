//! Pieces of value files in the cache, for records that are read one here and one there.
//!
//! The system has the bytes of a file in memory, as a rule; but to ask it for a record of a hundred bytes takes longer than all
//! else that a read of its value does. So a file is divided into pieces of equal length, and a record that is short beside that is
//! read with its neighbours, if the cache takes their piece in. Longer ones, and those that lie in two pieces, are pieces of their
//! own; the longest, beside which the call of the system counts for little, are read from the file each time.
//!
//! Pieces are copies of bytes that never change: what a file has is never overwritten. A piece of a file that still grows may end
//! early, and then serves the records that it has. Nothing is verified when a piece is read, but every record whenever it is read.

use std::{ops::Range, sync::Arc};

use kingtide_base::ValuePointer;
use kingtide_collections::{BlockBytes, BlockCache, BlockKey, PieceAnswer, bytes_in};
use kingtide_format::block::DataBlock;

/// Bytes of a piece; the last one of a file may be shorter.
const PIECE_BYTES: u64 = 8 << 10;
/// Longer records are pieces of their own: few of them fit into one.
const SHORT_BYTES_MAX: u64 = PIECE_BYTES / 4;
/// Longer records are not kept.
const RECORD_BYTES_MAX: u64 = 2 * PIECE_BYTES;
/// In the key of a record that is a piece of its own, so that it is not taken for a piece that begins there.
const ALONE: u64 = 1 << 63;
/// The [`Piece::period`] of records that are pieces of their own: to bring one in takes half as long again as to read it.
const ALONE_PERIOD: u64 = 16;

/// A part of a value file, as the cache keeps it.
#[derive(Debug)]
pub(crate) struct Piece {
    key: BlockKey,
    length: usize,
    /// While the cache has room, one in so many of those that are asked for comes in.
    period: u64,
}

impl Piece {
    /// Where it begins in its file.
    pub(crate) fn start(&self) -> u64 {
        self.key.1 & !ALONE
    }
}

/// The piece in which the record lies that `pointer` leads to, and where in it; `None` for a record that is not kept.
pub(crate) fn piece_of(pointer: &ValuePointer) -> Option<(Piece, Range<usize>)> {
    let record_bytes = u64::from(pointer.record_bytes);
    let start = pointer.offset % PIECE_BYTES;
    let end = start + record_bytes;
    if record_bytes <= SHORT_BYTES_MAX && end <= PIECE_BYTES {
        let piece = Piece {
            key: (pointer.file, pointer.offset - start),
            length: PIECE_BYTES as usize,
            period: 1,
        };
        return Some((piece, start as usize..end as usize));
    }
    (record_bytes <= RECORD_BYTES_MAX).then(|| {
        let piece = Piece {
            key: (pointer.file, pointer.offset | ALONE),
            length: record_bytes as usize,
            period: ALONE_PERIOD,
        };
        (piece, 0..record_bytes as usize)
    })
}

/// The bytes of `piece`, from the cache, or by `read` if the cache takes it in. `read` fills its argument from the beginning of the
/// piece on, and answers how many bytes there were.
pub(crate) fn in_cached_piece(
    cache: &BlockCache<DataBlock>,
    piece: &Piece,
    read: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<Arc<BlockBytes>> {
    match cache.piece(&piece.key, piece.length, piece.period) {
        PieceAnswer::Here(bytes) => return Some(bytes),
        PieceAnswer::Refused => return None,
        PieceAnswer::Admitted => {}
    }
    let mut bytes = bytes_in(cache.memory(), piece.length);
    let length = read(bytes.as_mut_slice())?;
    if length < bytes.len() {
        let mut short = bytes_in(cache.memory(), length);
        short.as_mut_slice().copy_from_slice(bytes.get(..length)?);
        bytes = short;
    }
    let bytes = Arc::new(bytes);
    cache.insert_piece(piece.key, &bytes);
    Some(bytes)
}
