//! Databases of all format versions that ever were open, show what they held, and go on.

use kingtide_testkit::fixtures;

#[test]
fn every_fixture_opens_and_shows_what_was_recorded() {
    let all = fixtures::all().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(all.len() >= fixtures::SPECIMENS.len());
    for name in all {
        fixtures::check(&name).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn the_formats_of_this_build_have_fixtures() {
    fixtures::check_complete().unwrap_or_else(|violation| panic!("{violation}"));
}
