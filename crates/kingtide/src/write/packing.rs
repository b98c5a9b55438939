//! Which values are packed when they are put, and where: long ones that tables would compress apart from the others.

use kingtide_base::EntryKind;
use kingtide_collections::{FAST_ACCELERATION, PACKED_FOR_GOOD_BYTES_MIN, pack_value};
use kingtide_format::Op;

use crate::{family::Family, options::Compression};

/// Shorter values are not packed: the codec would spend more on its table than on them. Simulations come by packed ones with less.
const VALUE_BYTES_MIN: usize = if cfg!(simulated) { 64 } else { 2 << 10 };
/// Nor are longer ones, which are spilled, as a rule.
const VALUE_BYTES_MAX: usize = 4 << 20;
/// As much of the scratch memory is kept for the next transaction.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Packs the values of one transaction, one at a time. Recycled with it.
#[derive(Debug, Default)]
pub(super) struct ValuePacking {
    scratch: Vec<u8>,
}

impl ValuePacking {
    /// `op`, its value packed if it is to be and if that saves an eighth of it.
    #[inline]
    pub(super) fn packed<'a>(&'a mut self, family: &Family, op: &Op<'a>) -> Op<'a> {
        let is_fit = (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&op.value.len());
        match op.kind == EntryKind::Put && is_fit {
            true => self.pack(family, op).unwrap_or(*op),
            false => *op,
        }
    }

    fn pack<'a>(&'a mut self, family: &Family, op: &Op<'a>) -> Option<Op<'a>> {
        let options = family.options();
        let threshold = options.value_threshold_bytes;
        let is_separated = threshold > 0 && op.value.len() >= threshold;
        if options.compression == Compression::None || !is_separated {
            return None;
        }
        let acceleration = match options.compression {
            Compression::Lz4 if op.value.len() >= PACKED_FOR_GOOD_BYTES_MIN => 1,
            // What a flush compresses anew is to take little of a put's time.
            _ => FAST_ACCELERATION,
        };
        Some(Op {
            kind: EntryKind::PutPacked,
            value: pack_value(op.value, acceleration, &mut self.scratch)?,
            ..*op
        })
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.scratch.capacity()
    }

    /// Gives back memory beyond what is kept for the next transaction.
    pub(super) fn clear(&mut self) {
        self.scratch.truncate(SCRATCH_BYTES_MAX);
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
    }
}
