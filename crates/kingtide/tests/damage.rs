//! Some bytes of every file damaged, and files cut short. `proof corrupt` damages every byte.

use kingtide_testkit::damage::{
    self, Flip, Specimen,
    matrix::{Harm, Matrix},
};

// Promise: 5.
#[test]
fn a_damaged_byte_is_an_error_or_harmless() {
    let specimen = Specimen::build().unwrap_or_else(|violation| panic!("{violation}"));
    let places = specimen.places();
    for (number, place) in places.iter().enumerate().step_by(41) {
        let flip = if number % 2 == 0 {
            Flip::Invert
        } else {
            Flip::OneBit
        };
        specimen
            .check(place, flip, number % 3 == 0)
            .unwrap_or_else(|violation| panic!("{violation}"));
    }
}

// Promise: 5.
#[test]
fn verify_finds_every_damaged_table_and_value_file() {
    let specimen = Specimen::build().unwrap_or_else(|violation| panic!("{violation}"));
    let places = specimen.places();
    let checked: Vec<_> = places
        .iter()
        .filter(|place| damage::is_table_or_values(&place.path))
        .collect();
    assert!(!checked.is_empty(), "the specimen has no tables");
    for place in checked.into_iter().step_by(97) {
        damage::check_verify(&specimen, place).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

// Promise: 5.
#[test]
fn a_file_cut_short_is_an_error_or_harmless() {
    let specimen = Specimen::build().unwrap_or_else(|violation| panic!("{violation}"));
    for (path, bytes) in specimen.files() {
        if !damage::is_table_or_values(&path) {
            continue;
        }
        for kept in [0, 1, bytes / 2, bytes - 1] {
            specimen
                .check_truncated(&path, kept)
                .unwrap_or_else(|violation| panic!("{violation}"));
        }
    }
}

/// `proof corrupt` checks all of these.
#[test]
fn exchanged_stale_and_foreign_bytes_are_an_error_or_harmless() {
    let matrix = Matrix::build().unwrap_or_else(|violation| panic!("{violation}"));
    let cases = matrix.cases(false);
    for case in cases.iter().step_by(149) {
        matrix
            .check(case)
            .unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// Goal: no file of another database is taken for this one's. Method: two databases of the same history, with other values;
/// each file of the one takes the place of the other's of the same name.
// Promise: 5.
#[test]
fn files_of_another_database_are_recognized() {
    let matrix = Matrix::build().unwrap_or_else(|violation| panic!("{violation}"));
    let cases = matrix.cases(false);
    let foreign = cases.iter().filter(|case| case.harm == Harm::Foreign);
    let mut kinds = std::collections::BTreeSet::new();
    for case in foreign {
        let tally = matrix
            .check(case)
            .unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(tally.harmless, 0, "{case:?}");
        kinds.insert(case.path.parent().map(std::path::Path::to_path_buf));
    }
    assert_eq!(
        kinds.len(),
        4,
        "manifest, log, tables and value files: {kinds:?}"
    );
}
