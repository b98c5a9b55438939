//! The witness of the manifest: how far which manifest was durable, kept in a file of its own, so that a manifest that was
//! cut off or replaced by an older one is recognized. 64 bytes at offset 0; the page is docs/formats/manifest.md.

use kingtide_base::{ByteReader, DatabaseId, Truncated};

use crate::header::{BODY_BYTES, HEADER_BYTES, HeaderFault, decode_header, encode_header};

/// The newest version of the witness that this build reads, and the one it writes. Version 1 does not say of which database
/// the manifest is.
pub const WITNESS_VERSION: u32 = 2;
/// The length of the witness in bytes.
pub const WITNESS_BYTES: usize = HEADER_BYTES;

const WITNESS_MAGIC: [u8; 4] = *b"KTMW";

/// How far a manifest was durable at least.
///
/// ```
/// use kingtide_base::DatabaseId;
/// use kingtide_format::ManifestWitness;
///
/// let database = Some(DatabaseId(5));
/// let witness = ManifestWitness { number: 7, durable_bytes: 4096, database };
/// assert_eq!(ManifestWitness::decode(&witness.encode()), Ok(witness));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestWitness {
    /// The number of the manifest.
    pub number: u64,
    /// Bytes of that file which were durable when the witness was written.
    pub durable_bytes: u64,
    /// The database whose manifest it is, as far as that was known.
    pub database: Option<DatabaseId>,
}

impl ManifestWitness {
    /// The witness as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; WITNESS_BYTES] {
        let mut body = [0_u8; BODY_BYTES];
        body[..8].copy_from_slice(&self.number.to_le_bytes());
        body[8..16].copy_from_slice(&self.durable_bytes.to_le_bytes());
        let database = self.database.map_or(0, |database| database.0);
        body[16..32].copy_from_slice(&database.to_le_bytes());
        encode_header(WITNESS_MAGIC, WITNESS_VERSION, &body)
    }

    /// The witness at the front of `bytes`.
    ///
    /// # Errors
    /// [`HeaderFault`] says why there is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let (version, body) = decode_header(bytes, WITNESS_MAGIC, WITNESS_VERSION)?;
        let mut reader = ByteReader::new(&body);
        let witness = Self::read(&mut reader).map_err(|Truncated| HeaderFault::Malformed)?;
        let is_known = version > 1 || witness.database.is_none();
        if !is_known || reader.rest().iter().any(|byte| *byte != 0) {
            return Err(HeaderFault::Malformed);
        }
        Ok(witness)
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<Self, Truncated> {
        Ok(Self {
            number: reader.u64()?,
            durable_bytes: reader.u64()?,
            database: Some(DatabaseId(reader.u128()?)).filter(|database| database.0 != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITNESS: ManifestWitness = ManifestWitness {
        number: 7,
        durable_bytes: 0x0102,
        database: Some(DatabaseId(0x0304)),
    };

    /// Goal: the bytes are those of version 2, for ever. Method: magic, version and fields at their places.
    #[test]
    fn the_layout_is_that_of_version_2() {
        let bytes = WITNESS.encode();
        assert_eq!(&bytes[..8], b"KTMW\x02\0\0\0");
        assert_eq!(&bytes[8..24], b"\x07\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(&bytes[24..26], b"\x04\x03");
        assert!(bytes[26..56].iter().all(|byte| *byte == 0));
    }

    /// Goal: a witness of version 1 is read. Method: one whose reserved bytes are zero, and one where they are not.
    #[test]
    fn version_1_says_nothing_of_a_database() {
        let mut body = [0; BODY_BYTES];
        body[0] = 7;
        let of_version_1 = |body: &[u8; BODY_BYTES]| {
            ManifestWitness::decode(&encode_header(WITNESS_MAGIC, 1, body))
        };
        let found = of_version_1(&body).expect("whole");
        assert_eq!((found.number, found.database), (7, None));
        body[20] = 1;
        assert_eq!(of_version_1(&body), Err(HeaderFault::Malformed));
    }

    /// Goal: no damaged witness is believed. Method: every bit flipped, every length.
    #[test]
    fn a_damaged_witness_is_refused() {
        for bit in 0..WITNESS_BYTES * 8 {
            let mut bytes = WITNESS.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(ManifestWitness::decode(&bytes).is_err(), "bit {bit}");
        }
        for length in 0..WITNESS_BYTES {
            assert!(ManifestWitness::decode(&WITNESS.encode()[..length]).is_err());
        }
    }
}
