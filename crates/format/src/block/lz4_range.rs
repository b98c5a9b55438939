//! A part of an LZ4 block without decompressing what lies before it.
//!
//! A point read wants one value out of a compressed column. An LZ4 block is a list of *sequences*: literal bytes, then a
//! match, which repeats bytes from an earlier place. [`lz4_range`] notes the sequences up to the end of the wanted part,
//! which copies nothing, and then resolves the part itself: literals are copied, and a match is followed back, from match
//! to match, until it ends in literals or in what was resolved already. Because `out[x + i] = out[x + i - offset]` holds
//! for every byte of a match, a run of bytes is followed back as one for as long as it stays within each match that it
//! meets, and a match that overlaps itself is left in one step. What lies before the first byte is the end of the dictionary.
//!
//! Invariant: what it answers is what a whole decompression has in that place, or nothing.
//!
//! It pays where matches repeat a short period over and over, which a decompressor copies a few bytes at a time, each copy
//! waiting for the one before. Everything else a decompressor does faster than its sequences are noted.
//!
//! What it does not do: work where it does not pay. Blocks without short periods or of many short sequences, and long chains
//! of matches, are given up early, and the caller decompresses from the beginning. It reports no damage either: a block that it cannot follow is
//! given up too, and the decompressor says what is wrong with it.

use std::{cell::RefCell, ops::Range};

/// The shortest match, which a length of 0 stands for.
const MATCH_BYTES_MIN: usize = 4;
/// A length of four bits with this value goes on in the next bytes.
const LENGTH_GOES_ON: usize = 15;
/// A match that repeats what is so near is copied slowly.
const PERIOD_BYTES_MAX: usize = 16;
/// After this many sequences, a block without short periods is given up.
const SEQUENCES_FOR_PERIODS: usize = 4;
/// Before this many sequences, a block is not judged by their length.
const SEQUENCES_JUDGED: usize = 24;
/// Sequences that yield fewer bytes than this on average are decompressed faster than they are followed.
const SEQUENCE_BYTES_MIN: usize = 16;
/// Copies and steps back from match to match for one part. Whoever needs more is faster with all that lies before it
/// decompressed (`bench/LEDGER.md`).
const STEPS_MAX: usize = 8;

/// Positions are in the raw bytes, except `source`.
#[derive(Clone, Copy)]
struct Sequence {
    /// Where its literals begin.
    start: u32,
    /// Where its match begins.
    matched: u32,
    /// Where its literals lie in the stored bytes.
    source: u32,
    /// How far back the match repeats.
    offset: u32,
}

thread_local! {
    // The sequences of the block that this thread reads from.
    static SEQUENCES: RefCell<Vec<Sequence>> = const { RefCell::new(Vec::new()) };
}

/// Appends bytes `range` of what the LZ4 block `stored` decompresses to with the dictionary `words`, which is empty for a
/// block without one. False when they are not there, the block is malformed, or decompressing is the better way; `target` is
/// as before then.
#[must_use]
pub(super) fn lz4_range(
    (stored, words): (&[u8], &[u8]),
    range: Range<usize>,
    target: &mut Vec<u8>,
) -> bool {
    let start = target.len();
    let is_whole = SEQUENCES.with_borrow_mut(|sequences| {
        note_sequences(stored, range.end, sequences)
            .and_then(|()| resolve((stored, words), range, sequences, target))
            .is_some()
    });
    if !is_whole {
        target.truncate(start);
    }
    is_whole
}

/// The bytes that continue a length of four bits; `at` is moved behind them.
#[inline]
fn rest_of_length(stored: &[u8], at: &mut usize) -> Option<usize> {
    let mut sum = 0_usize;
    loop {
        let byte = *stored.get(*at)?;
        *at += 1;
        sum = sum.checked_add(byte.into())?;
        if byte != u8::MAX {
            return Some(sum);
        }
    }
}

/// Replaces the content of `sequences` by those that reach up to `end`.
fn note_sequences(stored: &[u8], end: usize, sequences: &mut Vec<Sequence>) -> Option<()> {
    sequences.clear();
    let (mut at, mut start) = (0, 0_usize);
    // Bytes of matches that repeat a short period.
    let mut periodic = 0;
    loop {
        let token = usize::from(*stored.get(at)?);
        at += 1;
        let mut literals = token >> 4;
        if literals == LENGTH_GOES_ON {
            literals += rest_of_length(stored, &mut at)?;
        }
        let source = at;
        at = at.checked_add(literals)?;
        let matched = start.checked_add(literals)?;
        let mut sequence = Sequence {
            start: u32::try_from(start).ok()?,
            matched: u32::try_from(matched).ok()?,
            source: u32::try_from(source).ok()?,
            offset: 0,
        };
        if matched >= end {
            // Whether these literals are all there is checked when they are copied.
            sequences.push(sequence);
            return Some(());
        }
        let offset = stored.get(at..)?.first_chunk::<2>()?;
        sequence.offset = u16::from_le_bytes(*offset).into();
        if sequence.offset == 0 {
            return None;
        }
        sequences.push(sequence);
        at += 2;
        let mut length = (token & 15) + MATCH_BYTES_MIN;
        if token & 15 == LENGTH_GOES_ON {
            length += rest_of_length(stored, &mut at)?;
        }
        start = matched.checked_add(length)?;
        if start >= end {
            return Some(());
        }
        if (sequence.offset as usize) < PERIOD_BYTES_MAX {
            periodic += length;
        }
        if sequences.len() == SEQUENCES_FOR_PERIODS && periodic < start / 2 {
            return None;
        }
        if sequences.len() >= SEQUENCES_JUDGED && start < sequences.len() * SEQUENCE_BYTES_MIN {
            return None;
        }
    }
}

/// Appends the bytes of `range`, which the sequences reach to the end of.
fn resolve(
    (stored, words): (&[u8], &[u8]),
    range: Range<usize>,
    sequences: &[Sequence],
    target: &mut Vec<u8>,
) -> Option<()> {
    let origin = target.len();
    let mut place = range.start;
    let mut steps = 0;
    // Sequences behind the one that the walk is in are not looked at again.
    let mut current = last_at_or_before(sequences, place);
    while place < range.end {
        while current + 1 < sequences.len() && sequences[current + 1].start as usize <= place {
            current += 1;
        }
        let (mut from, mut count, mut index) = (place, range.end - place, current);
        loop {
            steps += 1;
            if steps > STEPS_MAX {
                return None;
            }
            let sequence = sequences[index];
            let matched = sequence.matched as usize;
            if from < matched {
                count = count.min(matched - from);
                let begin = sequence.source as usize + (from - sequence.start as usize);
                target.extend_from_slice(stored.get(begin..begin + count)?);
                break;
            }
            if let Some(next) = sequences.get(index + 1) {
                count = count.min(next.start as usize - from);
            }
            // As far back as it takes to leave a match that overlaps itself.
            let offset = sequence.offset as usize;
            let back = ((from - matched) / offset + 1) * offset;
            if back > from {
                // Before the first byte lies the dictionary.
                let before = back - from;
                count = count.min(before);
                let begin = words.len().checked_sub(before)?;
                target.extend_from_slice(words.get(begin..begin + count)?);
                break;
            }
            from -= back;
            if from >= range.start {
                repeat(target, origin + (from - range.start), count);
                break;
            }
            index = last_at_or_before(&sequences[..=index], from);
        }
        place += count;
    }
    Some(())
}

/// The last sequence that begins at or before `place`; the first begins at 0.
#[inline]
fn last_at_or_before(sequences: &[Sequence], place: usize) -> usize {
    sequences
        .partition_point(|sequence| sequence.start as usize <= place)
        .saturating_sub(1)
}

/// Appends `count` bytes that repeat those from `from` on, over and over when there are fewer. `from` is before the end.
fn repeat(target: &mut Vec<u8>, from: usize, mut count: usize) {
    while count > 0 {
        let part = count.min(target.len() - from);
        target.extend_from_within(from..from + part);
        count -= part;
    }
}

#[cfg(test)]
mod tests;
