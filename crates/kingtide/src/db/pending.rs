//! Commits of a family that cannot be sorted yet, as entries of a pending family in byte order.
//!
//! An operation takes two entries: `sequence, index, 0` holds what it is and its key, `sequence, index, 1` its value. Both
//! numbers are big-endian, so that a walk over the family meets the operations as they were made. Nothing is ever deleted
//! or written twice, so flushes and merges keep all of them; the family is dropped as a whole.

use kingtide_base::{EntryKind, SeqNo, StorageError};
use kingtide_format::Op;

use crate::{
    error::{Error, Result},
    read::Iter,
};

const KEY_BYTES: usize = 8 + 4 + 1;
const HEAD_BYTES: usize = 1 + 8;

/// The entries for the operations of one commit.
pub(super) struct Encoded {
    keys: Vec<[u8; KEY_BYTES]>,
    heads: Vec<Vec<u8>>,
}

impl Encoded {
    pub(super) fn new(sequence: SeqNo, ops: &[Op<'_>]) -> Self {
        let key = |index: usize, part: u8| {
            let mut key = [0; KEY_BYTES];
            key[..8].copy_from_slice(&sequence.0.to_be_bytes());
            // A record counts its operations in 32 bits.
            key[8..12].copy_from_slice(&(index as u32).to_be_bytes());
            key[12] = part;
            key
        };
        let keys = (0..ops.len()).flat_map(|index| [key(index, 0), key(index, 1)]);
        let head = |op: &Op<'_>| {
            let mut head = Vec::with_capacity(HEAD_BYTES + op.key.len());
            head.push(op.kind as u8);
            head.extend_from_slice(&op.expires_at.to_le_bytes());
            head.extend_from_slice(op.key);
            head
        };
        Self {
            keys: keys.collect(),
            heads: ops.iter().map(head).collect(),
        }
    }

    /// The entries as operations on the pending family; `ops` are those that were encoded.
    pub(super) fn ops<'a>(&'a self, ops: &[Op<'a>]) -> Vec<Op<'a>> {
        let put = |key: &'a [u8; KEY_BYTES], value: &'a [u8]| Op {
            kind: EntryKind::Put,
            key,
            value,
            expires_at: 0,
        };
        let pairs = self.keys.chunks_exact(2).zip(&self.heads).zip(ops);
        pairs
            .flat_map(|((keys, head), op)| [put(&keys[0], head), put(&keys[1], op.value)])
            .collect()
    }
}

/// One operation, read back.
struct Owned {
    kind: EntryKind,
    expires_at: i64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Walks a pending family and hands out the operations of each commit.
///
/// # Errors
/// Corruption when the entries are not what [`Encoded`] makes, what reading answers, and what `commit` answers.
pub(super) fn replay(
    mut iter: Iter,
    commit: &mut dyn FnMut(SeqNo, &[Op<'_>]) -> Result<()>,
) -> Result<()> {
    let mut ops: Vec<Owned> = Vec::new();
    let mut current = SeqNo::ZERO;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        let (sequence, part) = place_of(iter.key())?;
        if sequence != current {
            hand_out(current, &ops, commit)?;
            ops.clear();
            current = sequence;
        }
        let value = iter.value()?.to_vec();
        match (part, ops.last_mut()) {
            (0, _) => ops.push(head_of(&value)?),
            (1, Some(op)) => op.value = value,
            _ => return Err(malformed("a value without its operation")),
        }
        is_valid = iter.next()?;
    }
    hand_out(current, &ops, commit)
}

fn hand_out(
    sequence: SeqNo,
    ops: &[Owned],
    commit: &mut dyn FnMut(SeqNo, &[Op<'_>]) -> Result<()>,
) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    let borrowed = ops.iter().map(|op| Op {
        kind: op.kind,
        key: &op.key,
        value: &op.value,
        expires_at: op.expires_at,
    });
    commit(sequence, &borrowed.collect::<Vec<_>>())
}

fn place_of(key: &[u8]) -> Result<(SeqNo, u8)> {
    let (sequence, rest) = key
        .split_first_chunk::<8>()
        .filter(|_| key.len() == KEY_BYTES)
        .ok_or_else(|| malformed("a key of another length"))?;
    Ok((SeqNo(u64::from_be_bytes(*sequence)), rest[4]))
}

fn head_of(head: &[u8]) -> Result<Owned> {
    let split = head
        .split_first()
        .and_then(|(kind, rest)| Some((kind, rest.split_first_chunk::<8>()?)));
    let (kind, (expires_at, key)) = split.ok_or_else(|| malformed("an operation cut short"))?;
    Ok(Owned {
        kind: EntryKind::from_byte(*kind).ok_or_else(|| malformed("an unknown operation"))?,
        expires_at: i64::from_le_bytes(*expires_at),
        key: key.to_vec(),
        value: Vec::new(),
    })
}

fn malformed(what: &str) -> Error {
    StorageError::malformed("klog", 0, format!("pending commits: {what}")).into()
}
