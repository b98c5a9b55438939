//! Little-endian integers, varints and length-prefixed bytes; a reader that never reads past its end.

/// Input ended, or a number did not fit, before the value was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// Appends `value` in 7-bit groups, least significant first; at most ten bytes.
#[inline]
pub fn write_varint(target: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        target.push((value as u8) | 0x80);
        value >>= 7;
    }
    target.push(value as u8);
}

/// Appends the length of `bytes` as a varint, then the bytes.
#[inline]
pub fn write_bytes(target: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(target, bytes.len() as u64);
    target.extend_from_slice(bytes);
}

/// Reads values from the front of a slice. Every length is checked against what is left before it is believed.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True when everything has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`Truncated`] when fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Truncated`] at the end.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    /// A little-endian `u16`.
    ///
    /// # Errors
    /// [`Truncated`] when fewer than two bytes are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// A little-endian `u32`.
    ///
    /// # Errors
    /// [`Truncated`] when fewer than four bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    ///
    /// # Errors
    /// [`Truncated`] when fewer than eight bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian `u128`.
    ///
    /// # Errors
    /// [`Truncated`] when fewer than sixteen bytes are left.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, Truncated> {
        self.array().map(u128::from_le_bytes)
    }

    /// A varint.
    ///
    /// # Errors
    /// [`Truncated`] when the input ends inside it or it exceeds 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                return Err(Truncated);
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Truncated)
    }

    /// A varint that must fit `usize` and be at most `limit`.
    ///
    /// # Errors
    /// [`Truncated`] when it does not.
    #[inline]
    pub fn length(&mut self, limit: usize) -> Result<usize, Truncated> {
        let value = usize::try_from(self.varint()?).map_err(|_| Truncated)?;
        if value > limit {
            Err(Truncated)
        } else {
            Ok(value)
        }
    }

    /// A varint length of at most `limit`, then that many bytes.
    ///
    /// # Errors
    /// [`Truncated`] when the length exceeds `limit` or what is left.
    #[inline]
    pub fn bytes(&mut self, limit: usize) -> Result<&'a [u8], Truncated> {
        let length = self.length(limit)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_survive_a_round_trip() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(ByteReader::new(&bytes[..cut]).varint(), Err(Truncated));
            }
        }
        assert_eq!(ByteReader::new(&[0xff; 11]).varint(), Err(Truncated));
        assert_eq!(
            ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(),
            Err(Truncated)
        );
    }

    #[test]
    fn lengths_are_checked_before_they_are_believed() {
        let mut bytes = Vec::new();
        write_bytes(&mut bytes, b"abc");
        assert_eq!(ByteReader::new(&bytes).bytes(3), Ok(&b"abc"[..]));
        assert_eq!(ByteReader::new(&bytes).bytes(2), Err(Truncated));
        assert_eq!(ByteReader::new(&bytes[..3]).bytes(3), Err(Truncated));
    }
}
