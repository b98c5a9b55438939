use kingtide_base::key_hash;

use super::{Filter, FilterBuilder, FilterFault, PROBES_MAX, choose_parameters};
use crate::testing::Random;

fn build(rate: f64, hashes: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut builder = FilterBuilder::new(rate);
    for hash in hashes {
        builder.add_hash(hash);
    }
    builder.finish()
}

fn hash_of(number: u64) -> u64 {
    key_hash(&number.to_be_bytes())
}

/// Goal: no key is denied, and missing keys are let through as rarely as asked. Method: keys of several numbers, then as
/// many missing keys as give a hundred expected errors.
#[test]
fn keeps_its_rate_and_denies_no_key() {
    for (rate, keys) in [(0.01, 100), (0.01, 50_000), (0.001, 50_000), (0.1, 20_000)] {
        let filter = Filter::new(build(rate, (0..keys).map(hash_of))).expect("just built");
        for number in 0..keys {
            assert!(filter.may_contain(hash_of(number)), "{number} of {keys}");
        }
        let lookups = 400_000;
        let wrong = (keys..keys + lookups)
            .filter(|number| filter.may_contain(hash_of(*number)))
            .count();
        let measured = wrong as f64 / lookups as f64;
        assert!(measured < rate * 1.5, "{rate} for {keys} keys: {measured}");
        if keys > 1000 {
            assert!(measured > rate / 2.0, "memory wasted at {rate}: {measured}");
        }
    }
}

#[test]
fn memory_stays_close_to_that_of_a_plain_filter() {
    for (rate, bits_max) in [(0.1, 5.6), (0.01, 10.8), (0.001, 17.0), (0.0001, 24.5)] {
        let (bits, probes) = choose_parameters(rate);
        assert!(bits <= bits_max, "{rate}: {bits} bits, {probes} probes");
    }
}

#[test]
fn rates_out_of_range_are_brought_into_it() {
    for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 1e-300] {
        let bytes = build(rate, [1, 2, 3]);
        let filter = Filter::new(bytes).expect("just built");
        assert!(filter.may_contain(2));
    }
}

#[test]
fn a_filter_of_no_keys_denies_all() {
    let filter = Filter::new(build(0.01, [])).expect("just built");
    assert!(!filter.may_contain(0));
    assert!(!filter.may_contain(u64::MAX));
    assert_eq!(filter.memory_bytes(), 0);
}

#[test]
fn versions_of_one_key_count_once() {
    let mut builder = FilterBuilder::new(0.01);
    for hash in [7, 7, 7, 8, 8] {
        builder.add_hash(hash);
    }
    assert_eq!(builder.keys(), 2);
}

/// Goal: the durable format does not change unnoticed. Method: the worked example of docs/formats/filter.md, byte for byte.
#[test]
fn the_bytes_are_those_of_the_documented_example() {
    let document = include_str!("../../../../docs/formats/filter.md");
    let example = document
        .split("```hex")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("the page has a worked example");
    let mut expected = Vec::new();
    for line in example.lines() {
        let digits = line.split('|').next().unwrap_or_default();
        for byte in digits.split_whitespace() {
            expected.push(u8::from_str_radix(byte, 16).expect("two hexadecimal digits"));
        }
    }
    let bytes = build(0.01, [b"tide", b"king", b"moon"].map(|key| key_hash(key)));
    assert_eq!(bytes, expected, "{bytes:02x?}");
}

/// Goal: no bytes make decoding panic, and damage to the frame is noticed. Method: every cut, every header byte changed,
/// and random bytes.
#[test]
fn damaged_bytes_are_refused() {
    let bytes = build(0.01, (0..200).map(hash_of));
    for cut in 0..bytes.len() {
        assert!(Filter::new(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for index in 0..16 {
        let mut damaged = bytes.clone();
        damaged[index] ^= 0x80;
        assert!(Filter::new(&damaged).is_err(), "byte {index}");
    }
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert_eq!(
        Filter::new(&newer).err(),
        Some(FilterFault::NewerVersion(2))
    );
    for probes in [0, PROBES_MAX + 1] {
        let mut damaged = bytes.clone();
        damaged[5] = probes;
        assert!(Filter::new(&damaged).is_err(), "{probes} probes");
    }
    let mut random = Random::new(11);
    for _ in 0..500 {
        let mut noise = bytes[..8].to_vec();
        noise.extend((0..random.below(200)).map(|_| random.number() as u8));
        if let Ok(filter) = Filter::new(&noise) {
            let _ = filter.may_contain(random.number());
        }
    }
}
