//! LZ4 blocks with a dictionary: bytes that writer and reader know, and that matches may reach back into as if they lay
//! right before the raw bytes. The crate `lz4` does not offer these calls of the C library that it builds and links.
//!
//! The stored bytes are those of any LZ4 implementation that takes dictionaries.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

// Links the C library.
use lz4 as _;

unsafe extern "C" {
    fn LZ4_createStream() -> *mut c_void;
    fn LZ4_freeStream(stream: *mut c_void) -> c_int;
    fn LZ4_loadDict(
        stream: *mut c_void,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut c_void);
    fn LZ4_attach_dictionary(stream: *mut c_void, prepared: *const c_void);
    fn LZ4_compress_fast_continue(
        stream: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes_max: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes_max: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
}

/// The most bytes of a dictionary, and of what is compressed with one: matches reach no further back.
const BYTES_MAX: usize = 64 << 10;
/// What a stream of the library takes in memory.
const STREAM_BYTES: usize = (16 << 10) + 32;
/// The library's default: no speed is bought with size.
const ACCELERATION: c_int = 1;

/// A dictionary that is prepared for compressing with it: its bytes are hashed once, not for each block. For one thread at a
/// time.
///
/// ```
/// # use kingtide_collections::{Lz4Dictionary, lz4_with_dictionary};
/// let words = b"the values of this file begin with these words".to_vec();
/// let raw = b"the values of this file begin with these words, as a rule";
/// let mut dictionary = Lz4Dictionary::new(words.clone());
/// let mut stored = Vec::new();
/// assert!(dictionary.compress(raw, &mut stored) && stored.len() < 20);
/// let mut found = Vec::new();
/// assert!(lz4_with_dictionary(&words, &stored, raw.len(), &mut found));
/// assert_eq!(found, raw);
/// ```
#[derive(Debug)]
pub struct Lz4Dictionary {
    bytes: Vec<u8>,
    /// The prepared dictionary, which points to `bytes`, and the state of a compression. None when the dictionary is longer
    /// than any may be, or the library has no memory.
    streams: Option<(Stream, Stream)>,
}

/// A stream of the library, owned.
#[derive(Debug)]
struct Stream(NonNull<c_void>);

// SAFETY: a stream is memory and nothing else; it belongs to this value alone, and any thread may use and free it.
unsafe impl Send for Stream {}

impl Stream {
    fn new() -> Option<Self> {
        // SAFETY: takes nothing; answers a stream that is initialised, or null when there is no memory.
        NonNull::new(unsafe { LZ4_createStream() }).map(Self)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it is from `LZ4_createStream`, nobody else has it, and this is the last use.
        unsafe { LZ4_freeStream(self.0.as_ptr()) };
    }
}

impl Lz4Dictionary {
    /// Prepares `bytes`, at most 64 KiB, as a dictionary.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut streams = None;
        if bytes.len() <= BYTES_MAX {
            streams = Stream::new().zip(Stream::new());
        }
        if let Some((prepared, _)) = &streams {
            // SAFETY: the stream lives; the pointer is valid for as many bytes as are said, at most `BYTES_MAX`. The stream
            // keeps it: the bytes are never changed, moved or freed as long as `streams` is used, because both are private
            // to one value, whose methods do not touch `bytes`.
            unsafe {
                LZ4_loadDict(
                    prepared.0.as_ptr(),
                    bytes.as_ptr().cast(),
                    bytes.len() as c_int,
                )
            };
        }
        Self { bytes, streams }
    }

    /// The dictionary itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let streams = self.streams.as_ref().map_or(0, |_| 2 * STREAM_BYTES);
        self.bytes.capacity() + streams
    }

    /// Appends `raw`, compressed with the dictionary, to `target`. False when `raw` or the dictionary is longer than 64 KiB,
    /// or there was no memory to prepare the dictionary; `target` is then as before.
    #[must_use]
    pub fn compress(&mut self, raw: &[u8], target: &mut Vec<u8>) -> bool {
        let Some((prepared, working)) = &self.streams else {
            return false;
        };
        if raw.len() > BYTES_MAX {
            return false;
        }
        let Ok(bytes_max) = lz4::block::compress_bound(raw.len()) else {
            return false;
        };
        let start = target.len();
        target.resize(start + bytes_max, 0);
        let free = &mut target[start..];
        let working = working.0.as_ptr();
        // SAFETY: the stream lives, was initialised when it was made, and no other thread has it (`&mut self`).
        unsafe { LZ4_resetStream_fast(working) };
        // SAFETY: as above, of both streams. The prepared one, and the dictionary behind it, stay as they are through the
        // call of the library that follows, which ends the attachment.
        unsafe { LZ4_attach_dictionary(working, prepared.0.as_ptr()) };
        // SAFETY: as above. The source pointer is valid for `raw.len()` bytes and the target pointer for writes of
        // `free.len()`; the two do not overlap, because one is borrowed exclusively; both lengths are far below what an int
        // holds.
        let written = unsafe {
            LZ4_compress_fast_continue(
                working,
                raw.as_ptr().cast(),
                free.as_mut_ptr().cast(),
                raw.len() as c_int,
                free.len() as c_int,
                ACCELERATION,
            )
        };
        let written = usize::try_from(written).unwrap_or(0).min(bytes_max);
        target.truncate(start + written);
        written > 0
    }
}

/// Replaces the content of `target` by the `raw_bytes` bytes that the LZ4 block `stored` holds with `dictionary`. False when
/// a length is more than 64 KiB, or the block does not decompress to exactly that length; `target` is then empty.
#[must_use]
pub fn lz4_with_dictionary(
    dictionary: &[u8],
    stored: &[u8],
    raw_bytes: usize,
    target: &mut Vec<u8>,
) -> bool {
    if raw_bytes > BYTES_MAX {
        target.clear();
        return false;
    }
    // Only what grows is zeroed.
    target.resize(raw_bytes, 0);
    let is_whole = lz4_with_dictionary_into(dictionary, stored, target);
    if !is_whole {
        target.clear();
    }
    is_whole
}

/// Replaces the content of `target` by the bytes that the LZ4 block `stored` holds with `dictionary`. False when a length is
/// more than 64 KiB, or the block does not decompress to exactly the length of `target`, whose content is unspecified then.
#[must_use]
pub fn lz4_with_dictionary_into(dictionary: &[u8], stored: &[u8], target: &mut [u8]) -> bool {
    let source_bytes = c_int::try_from(stored.len());
    let raw_bytes = target.len();
    let is_short = dictionary.len() <= BYTES_MAX && raw_bytes <= BYTES_MAX;
    let (Ok(source_bytes), true) = (source_bytes, is_short) else {
        return false;
    };
    // SAFETY: the source pointer is valid for `source_bytes` initialised bytes, the dictionary's for its length, and the
    // target pointer for writes of `raw_bytes`; the target overlaps neither, because it is borrowed exclusively; the function
    // reads and writes within these lengths whatever the source holds.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            stored.as_ptr().cast(),
            target.as_mut_ptr().cast(),
            source_bytes,
            raw_bytes as c_int,
            dictionary.as_ptr().cast(),
            dictionary.len() as c_int,
        )
    };
    usize::try_from(written) == Ok(raw_bytes)
}

#[cfg(test)]
mod tests;
