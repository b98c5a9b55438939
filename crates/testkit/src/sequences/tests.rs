use super::*;

// Promise: 1, 2, 3.
#[test]
fn every_letter_recovers_from_cuts_at_every_call() {
    let mut tally = Tally::default();
    for number in 0..count(1) {
        tally += check(number).unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("{tally}");
    assert_eq!(tally.sequences, count(1));
    assert!(tally.recoveries > tally.cuts / 2);
    assert_eq!(tally.images, 4 * tally.cuts);
}

#[test]
fn every_sequence_has_one_number() {
    let letters = LETTERS.len() as u64;
    assert_eq!(count(2), 3 * (1 + letters + letters * letters));
    let all: std::collections::BTreeSet<Vec<usize>> = (0..1 + letters + letters * letters)
        .map(letters_of)
        .collect();
    assert_eq!(all.len() as u64, 1 + letters + letters * letters);
    assert!(all.iter().all(|sequence| sequence.len() <= 2));
}
