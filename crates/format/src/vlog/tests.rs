//! Records against changed input.

use kingtide_base::FileId;

use super::*;
use crate::CodecId;
use crate::block::BlockPlace;

const PLACE: BlockPlace = BlockPlace {
    file: FileId(3),
    offset: 77,
};

#[test]
fn a_record_fails_with_every_changed_bit_and_in_another_place() {
    for codec in [CodecId::None, CodecId::Snappy, CodecId::Lz4, CodecId::Zstd] {
        let mut bytes = Vec::new();
        let length = encode_record(&mut bytes, codec, 42, &[5; 100], PLACE);
        assert_eq!(length as usize, bytes.len());
        assert_eq!(peek_record_bytes(&bytes), Some(u64::from(length)));
        let mut value = Vec::new();
        let header = open_record(&bytes, PLACE, &mut value).expect("intact");
        assert_eq!((header.key_hash, header.raw_bytes), (42, 100));
        assert_eq!((header.codec, value.as_slice()), (codec, &[5; 100][..]));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open_record(&changed, PLACE, &mut value).is_err());
        }
        let elsewhere = BlockPlace {
            offset: 78,
            ..PLACE
        };
        assert!(open_record(&bytes, elsewhere, &mut value).is_err());
    }
}

/// Goal: a record whose checksum is right and whose fields lie is refused without a panic.
#[test]
fn forged_records_never_panic() {
    let mut bytes = Vec::new();
    encode_record(&mut bytes, CodecId::Lz4, 42, &[5; 100], PLACE);
    for at in 8..bytes.len() {
        for change in [1, 2, 4, 8, 16, 32, 64, 128] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let sum = kingtide_base::checksum(&changed[8..], PLACE.seed());
            changed[..8].copy_from_slice(&sum.to_le_bytes());
            let mut value = Vec::new();
            if let Ok(header) = open_record(&changed, PLACE, &mut value) {
                assert_eq!(header.raw_bytes as usize, value.len());
            }
        }
    }
}
