//! The search over separators against a linear one.

use kingtide_format::klog::IndexBuilder;

use super::model::{ORDERS, Random, order_named};
use crate::fences::Fences;

fn random_key(random: &mut Random, style: usize) -> Vec<u8> {
    let (prefix, count) = match style {
        0 => ("", random.below(4)),
        1 => ("shared/beginning/", random.below(7)),
        2 => ("shared/beginning/", random.below(16)),
        _ => ("", random.below(20)),
    };
    let mut key = prefix.as_bytes().to_vec();
    key.extend((0..count).map(|_| b"\0ab\xff"[random.below(4)]));
    key
}

/// Goal: every search finds the block that a linear search finds. Method: separators with and without a shared
/// beginning, longer and shorter than a head, with ties and with repeats; extents below and above 4 GiB.
#[test]
fn searches_agree_with_a_linear_search() {
    for name in ORDERS {
        let order = order_named(name);
        for seed in 0..60 {
            eprintln!("order {name}, seed {seed}");
            let random = &mut Random(seed);
            let style = random.below(4);
            let count = random.below(300);
            let mut separators: Vec<_> = (0..count).map(|_| random_key(random, style)).collect();
            separators.sort_by(|a, b| order.compare(a, b));
            let block_bytes = if random.one_in(2) { 500 } else { 1 << 30 };
            let mut builder = IndexBuilder::new();
            for separator in &separators {
                builder.add(block_bytes, separator);
            }
            let fences = Fences::decode(&builder.finish(), &order).expect("intact");
            assert_eq!(fences.blocks(), count);
            assert_eq!(fences.data_end(), count as u64 * block_bytes);
            let mut separator = Vec::new();
            for (index, wanted) in separators.iter().enumerate() {
                fences.copy_separator(index, &mut separator);
                assert_eq!(separator, *wanted);
                let start = index as u64 * block_bytes;
                assert_eq!(fences.extent(index), start..start + block_bytes);
            }
            for _ in 0..200 {
                let key = if random.one_in(2) || count == 0 {
                    random_key(random, random.0 as usize % 4)
                } else {
                    separators[random.below(count)].clone()
                };
                let before = separators
                    .iter()
                    .filter(|other| order.compare(other, &key).is_lt());
                assert_eq!(
                    fences.first_at_or_after(&order, &key),
                    before.count(),
                    "{key:?}"
                );
                let not_after = separators
                    .iter()
                    .filter(|other| order.compare(other, &key).is_le());
                assert_eq!(
                    fences.first_after(&order, &key),
                    not_after.count(),
                    "{key:?}"
                );
            }
        }
    }
}

/// Goal: what the fences cost is known. Method: short separators, 13 bytes a block.
#[test]
fn short_separators_cost_thirteen_bytes_a_block() {
    let mut builder = IndexBuilder::new();
    for i in 0..10_000_u32 {
        builder.add(500, &i.to_be_bytes());
    }
    let order = kingtide_base::KeyOrder::BYTEWISE;
    let fences = Fences::decode(&builder.finish(), &order).expect("intact");
    assert!(
        fences.memory_bytes() <= 13 * 10_000 + 64,
        "{}",
        fences.memory_bytes()
    );
}
