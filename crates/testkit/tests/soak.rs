//! A short soak. Descriptors and threads of other tests would be counted, so nothing else runs in this program.

use std::{fs, time::Duration};

use kingtide_testkit::soak;

#[test]
fn a_short_soak_is_clean_and_draws_its_time_line() {
    let out = tempfile::tempdir().unwrap();
    let settings = soak::Settings {
        length: Duration::from_secs(3),
        seed: 1,
        out: Some(out.path().to_owned()),
    };
    let summary = soak::run(&settings, &mut |_| {}).unwrap();
    summary.judge().unwrap();
    assert!(summary.rounds >= 1 && summary.operations > 1000);
    let csv = fs::read_to_string(out.path().join("soak.csv")).unwrap();
    assert!(csv.lines().count() > summary.rounds);
    let svg = fs::read_to_string(out.path().join("soak.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}
