//! The fuzz targets over the committed corpora, and over mutations of them that follow from a fixed seed.

use std::{fs, path::Path};

use kingtide_testkit::{Random, fuzz::TARGETS};

/// Mutations of each target.
const MUTATIONS: usize = 300;

// Promise: input.
#[test]
fn every_committed_input_and_its_mutations_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let mut inputs = (target.seeds)();
        let folder = root.join(target.name);
        if folder.is_dir() {
            for entry in fs::read_dir(&folder).unwrap() {
                inputs.push(fs::read(entry.unwrap().path()).unwrap());
            }
        }
        let mut random = Random::new(target.name.len() as u64);
        for input in &inputs {
            (target.run)(input);
        }
        for _ in 0..MUTATIONS {
            let mut input = random.pick(&inputs).clone();
            for _ in 0..random.between(1, 4) {
                mutate(&mut input, &mut random);
            }
            (target.run)(&input);
        }
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(input.len().max(1));
    match random.below(4) {
        0 if !input.is_empty() => input[place] ^= 1 << random.below(8),
        1 if !input.is_empty() => input[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => input.truncate(place),
        _ => {
            let count = random.between(1, 12);
            let bytes = random.bytes(count);
            input.splice(place.min(input.len())..place.min(input.len()), bytes);
        }
    }
}
