//! Sequences of calls of the C interface against a model: the committed ones, and mutations that follow from a seed.

mod sequences;

use std::{fs, path::Path};

use kingtide_capi as _;

/// Drawn sequences that are run besides what is committed.
const MUTATIONS: u64 = 600;

fn run(input: &[u8]) {
    // Syncing costs nothing in memory.
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    sequences::run(input, directory.expect("a temporary directory").path());
}

fn committed() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/c_calls");
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("a committed input").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read(file).expect("a committed input"))
        .collect()
}

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

// Promise: input.
#[test]
fn every_committed_sequence_of_calls_answers_as_the_model() {
    for input in sequences::seeds().iter().chain(&committed()) {
        run(input);
    }
}

// Promise: input.
#[test]
fn sequences_of_calls_that_follow_from_a_seed_answer_as_the_model() {
    for seed in 0..MUTATIONS {
        let mut state = seed;
        let length = 50 + draw(&mut state) % 600;
        let mut input: Vec<u8> = (0..length).map(|_| draw(&mut state) as u8).collect();
        if seed % 2 == 0 {
            // Fewer kinds of calls, so that more of them hit the same transactions and keys.
            input.iter_mut().for_each(|byte| *byte &= 0xdb);
        }
        eprintln!("seed {seed}");
        run(&input);
    }
}

#[test]
fn every_function_of_the_interface_is_called() {
    let table = include_str!("../abi/functions.tsv");
    let names = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next());
    for name in names {
        assert!(
            sequences::bindings::NAMES.contains(&name),
            "{name} is in no sequence"
        );
    }
}
