//! Keys that an index determines, and the index that a key has.
//!
//! A key is `prefix | code | padding`: as many bytes `k` as the settings ask for, eight bytes (or what is left of the
//! key) that tell the index, and `0` up to the length. What the eight bytes are is the key's [`KeyForm`]; in two of the
//! forms keys sort as their indices do, in the third `KeyMaker::successor` knows the order.

use super::random::mix;

/// The bytes that carry the index.
const CODE_BYTES: usize = 8;
/// A moment in microseconds since 1970 that the timestamps begin with: 2026-01-01.
const EPOCH_MICROS: u64 = 1_767_225_600_000_000;
/// The microseconds between two timestamps, on average.
const STEP_MICROS: u64 = 1000;

/// How an index stands in a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// Big-endian: keys sort as indices do.
    #[default]
    Ordered,
    /// Little-endian: neighbours in the index are far apart in the order of keys.
    ByteReversed,
    /// Microseconds that grow with the index by irregular steps, big-endian.
    Timestamp,
}

/// Makes keys of one length.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    form: KeyForm,
    prefix_bytes: usize,
    code_bytes: usize,
    key_bytes: usize,
}

impl KeyMaker {
    /// Keys of `key_bytes` bytes (at least 1) that begin with a common prefix of `prefix_bytes` bytes, which leaves at
    /// least one byte. See [`KeyMaker::count_max`] for how many there are.
    #[must_use]
    pub fn new(form: KeyForm, prefix_bytes: usize, key_bytes: usize) -> Self {
        let key_bytes = key_bytes.max(1);
        let prefix_bytes = prefix_bytes.min(key_bytes - 1);
        Self {
            form,
            prefix_bytes,
            code_bytes: (key_bytes - prefix_bytes).min(CODE_BYTES),
            key_bytes,
        }
    }

    /// How many different keys of this length there are (saturating); half of them when there is no padding, because
    /// the other half are the keys that are never written.
    #[must_use]
    pub fn count_max(&self) -> u64 {
        if self.form == KeyForm::Timestamp {
            // A timestamp needs all eight bytes.
            return if self.code_bytes == CODE_BYTES {
                (u64::MAX - EPOCH_MICROS) / STEP_MICROS / 2
            } else {
                0
            };
        }
        let bits = 8 * self.code_bytes as u32 - u32::from(!self.has_padding());
        1_u64.checked_shl(bits).unwrap_or(u64::MAX)
    }

    /// Writes the key of `index` over `target`.
    pub fn write(&self, index: u64, target: &mut Vec<u8>) {
        let code = match self.form {
            KeyForm::Ordered => index,
            KeyForm::ByteReversed => index.swap_bytes() >> (8 * (CODE_BYTES - self.code_bytes)),
            KeyForm::Timestamp => EPOCH_MICROS + index * STEP_MICROS + mix(index) % STEP_MICROS,
        };
        // All of it is overwritten; only what grows is zeroed.
        target.resize(self.key_bytes, 0);
        let (prefix, rest) = target.split_at_mut(self.prefix_bytes);
        let (place, padding) = rest.split_at_mut(self.code_bytes);
        prefix.fill(b'k');
        place.copy_from_slice(&code.to_be_bytes()[CODE_BYTES - self.code_bytes..]);
        padding.fill(b'0');
    }

    /// Writes over `target` a key that no index has, and that sorts next to the key of `index`; behind all of them where there is no
    /// room behind the code, but for byte-reversed ones.
    pub fn write_missing(&self, index: u64, target: &mut Vec<u8>) {
        self.write(index, target);
        let place = target.len() - 1;
        if self.has_padding() {
            target[place] = b'm';
        } else {
            // The code's highest bit, which no index below the maximum sets.
            match self.form {
                KeyForm::ByteReversed => target[place] |= 0x80,
                KeyForm::Ordered | KeyForm::Timestamp => target[self.prefix_bytes] |= 0x80,
            }
        }
    }

    /// The index of `key`, or `None` when no index has this key.
    #[must_use]
    pub fn index(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        let (prefix, rest) = key.split_at(self.prefix_bytes);
        let (code, padding) = rest.split_at(self.code_bytes);
        if prefix.iter().any(|byte| *byte != b'k') || padding.iter().any(|byte| *byte != b'0') {
            return None;
        }
        let mut bytes = [0; CODE_BYTES];
        bytes[CODE_BYTES - code.len()..].copy_from_slice(code);
        let code = u64::from_be_bytes(bytes);
        match self.form {
            KeyForm::Ordered => Some(code),
            KeyForm::ByteReversed => {
                Some((code << (8 * (CODE_BYTES - self.code_bytes))).swap_bytes())
            }
            KeyForm::Timestamp => {
                let index = code.checked_sub(EPOCH_MICROS)? / STEP_MICROS;
                let jitter = mix(index) % STEP_MICROS;
                (EPOCH_MICROS + index * STEP_MICROS + jitter == code).then_some(index)
            }
        }
    }

    /// The index whose key follows that of `index` among the keys of `0 .. count`. The smallest key is that of 0.
    #[must_use]
    pub fn successor(&self, index: u64, count: u64) -> Option<u64> {
        if self.form != KeyForm::ByteReversed {
            return index.checked_add(1).filter(|next| *next < count);
        }
        // Keys compare their lowest byte first. The next one keeps as many low bytes as it can, has a larger byte
        // behind them, and zeros behind that, which is the smallest number that begins so.
        for place in (0..self.code_bytes as u32).rev() {
            let unit = 1_u64 << (8 * place);
            let kept = index & (unit - 1);
            let byte = (index >> (8 * place)) & 0xff;
            if byte < 0xff {
                let next = kept + (byte + 1) * unit;
                if next < count {
                    return Some(next);
                }
            }
        }
        None
    }

    fn has_padding(&self) -> bool {
        self.prefix_bytes + self.code_bytes < self.key_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &KeyMaker, index: u64) -> Vec<u8> {
        let mut key = Vec::new();
        keys.write(index, &mut key);
        key
    }

    #[test]
    fn keys_name_their_indices_and_sort_as_the_successor_says() {
        for form in [KeyForm::Ordered, KeyForm::ByteReversed, KeyForm::Timestamp] {
            for (prefix_bytes, key_bytes) in [(0, 1), (0, 2), (1, 3), (0, 8), (4, 12), (8, 24)] {
                let keys = KeyMaker::new(form, prefix_bytes, key_bytes);
                let count = keys.count_max().min(1000);
                let mut sorted: Vec<_> = (0..count).map(|index| key(&keys, index)).collect();
                sorted.sort();
                let mut next = (count > 0).then_some(0);
                for key in sorted {
                    assert_eq!(key.len(), key_bytes);
                    assert_eq!(keys.index(&key), next, "{keys:?}");
                    next = keys.successor(next.expect("as many as keys"), count);
                }
                assert_eq!(next, None);
            }
        }
    }

    #[test]
    fn foreign_keys_have_no_index() {
        for form in [KeyForm::Ordered, KeyForm::ByteReversed, KeyForm::Timestamp] {
            let keys = KeyMaker::new(form, 2, 16);
            let good = key(&keys, 5);
            for place in [0, 1, 10, 15] {
                let mut bad = good.clone();
                bad[place] ^= 1;
                assert_eq!(keys.index(&bad), None, "{form:?} {place}");
            }
            assert_eq!(keys.index(&good[1..]), None);
        }
    }

    #[test]
    fn missing_keys_are_never_written() {
        for form in [KeyForm::Ordered, KeyForm::ByteReversed, KeyForm::Timestamp] {
            for (prefix_bytes, key_bytes) in [(0, 2), (0, 8), (3, 11), (0, 16)] {
                let keys = KeyMaker::new(form, prefix_bytes, key_bytes);
                for index in 0..keys.count_max().min(300) {
                    let mut key = Vec::new();
                    keys.write_missing(index, &mut key);
                    let found = keys.index(&key);
                    assert!(
                        found.is_none_or(|index| index >= keys.count_max()),
                        "{keys:?} {index}"
                    );
                }
            }
        }
    }
}
