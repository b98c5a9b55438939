//! Where a pass is cut, so that its parts are about equal: a pure function of samples.

use kingtide_base::KeyOrder;

/// So many bytes of entries begin at `key` and end before the next sample of their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) key: Vec<u8>,
    pub(crate) bytes: u64,
}

/// At most `parts - 1` keys, strictly ascending, that cut what `samples` describe into `parts` parts of about equal bytes:
/// each is the first key of a part. No part is empty, as far as the samples tell.
pub(crate) fn split(mut samples: Vec<Sample>, parts: usize, order: &KeyOrder) -> Vec<Vec<u8>> {
    samples.sort_by(|left, right| order.compare(&left.key, &right.key));
    let total: u128 = samples.iter().map(|sample| u128::from(sample.bytes)).sum();
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut before: u128 = 0;
    let first = samples.first().map(|sample| sample.key.clone());
    for Sample { key, bytes } in samples {
        // The next cut belongs where so many bytes lie before it.
        let wanted = total * (cuts.len() as u128 + 1) / parts.max(1) as u128;
        let previous = cuts.last().or(first.as_ref());
        let is_new = previous.is_some_and(|previous| order.compare(previous, &key).is_lt());
        if cuts.len() + 1 < parts && before >= wanted && is_new {
            cuts.push(key);
        }
        before += u128::from(bytes);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use kingtide_base::built_in_comparator;

    use super::*;

    fn order() -> KeyOrder {
        KeyOrder::new(built_in_comparator("memcmp").expect("it is built in"))
    }

    fn samples(of: &[(&str, u64)]) -> Vec<Sample> {
        let sample = |(key, bytes): &(&str, u64)| Sample {
            key: key.as_bytes().to_vec(),
            bytes: *bytes,
        };
        of.iter().map(sample).collect()
    }

    fn cuts(of: &[(&str, u64)], parts: usize) -> Vec<String> {
        let cuts = split(samples(of), parts, &order());
        cuts.into_iter()
            .map(|key| String::from_utf8(key).expect("text"))
            .collect()
    }

    #[test]
    fn cuts_lie_where_the_bytes_are() {
        let even = [("a", 10), ("c", 10), ("b", 10), ("d", 10)];
        assert_eq!(cuts(&even, 2), ["c"]);
        assert_eq!(cuts(&even, 4), ["b", "c", "d"]);
        assert_eq!(cuts(&even, 9), ["b", "c", "d"], "there are no more");
        assert_eq!(cuts(&[("a", 1), ("b", 1), ("c", 100), ("d", 1)], 2), ["d"]);
    }

    #[test]
    fn no_cut_makes_an_empty_part() {
        assert!(cuts(&[], 4).is_empty());
        assert!(cuts(&[("a", 100)], 4).is_empty());
        assert!(cuts(&[("a", 1), ("a", 9), ("a", 5)], 3).is_empty());
        assert_eq!(cuts(&[("a", 10), ("b", 5), ("b", 5)], 3), ["b"]);
        assert!(cuts(&[("a", 0), ("b", 0)], 1).is_empty());
    }
}
