//! migrate: through Kingtide's own C library, which is built beside these tests.

use crate::harness::{Place, run_badly, run_well, sample};

/// The C library, as an argument.
fn library() -> String {
    let test = std::env::current_exe().expect("a test knows where it is");
    let library = test.with_file_name("libkingtide_capi.so");
    library.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_database_is_copied_through_its_library() {
    let place = Place::new();
    let (db, lib) = (place.db(), library());
    run_well(&["import", &db, &sample()]);
    run_well(&[
        "put", &db, "ebbs", "soon", "--ttl", "100000", "--family", "tides",
    ]);
    let exported = run_well(&["export", &db]).stdout;
    let ran = run_well(&["--json", "migrate", "--from", &db, "--lib", &lib]);
    let objects = ran.objects();
    let families: Vec<_> = objects
        .iter()
        .filter_map(|object| object["family"].as_str())
        .collect();
    assert_eq!(families, ["default", "tides"]);
    assert_eq!(objects[1]["expiring"], 1, "{objects:?}");
    assert_eq!(objects[1]["expiry"], "kept", "{objects:?}");
    assert_eq!(objects[2]["families"], 2, "{objects:?}");
    let copy = format!("{db}.kingtide");
    assert_eq!(run_well(&["export", &copy]).stdout, exported);
    assert_eq!(
        run_well(&["get", &copy, "ebbs", "-f", "tides"]).text(),
        "soon\n"
    );

    let one = place.argument("one");
    let arguments = [
        "migrate", "--from", &db, "--lib", &lib, "--to", &one, "-f", "tides",
    ];
    let told = run_well(&arguments).text().to_owned();
    assert!(told.contains("migrated 1 families, 1 entries"), "{told}");
    assert_eq!(run_well(&["families", &one]).text().lines().count(), 1);
    run_badly(&arguments, "holds data");
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_written() {
    let place = Place::new();
    let (db, lib) = (place.db(), library());
    run_well(&["put", &db, "key", "value"]);
    let missing = place.argument("missing");
    run_badly(
        &["migrate", "--from", &missing, "--lib", &lib],
        "not a directory",
    );
    run_badly(&["migrate", "--from", &db, "--lib", &missing], "missing");
    run_badly(
        &["migrate", "--from", &db, "--lib", &lib, "--to", &db],
        "same directory",
    );
    run_badly(
        &["migrate", "--from", &db, "--lib", &lib, "-f", "x"],
        "no family",
    );
    let ttl = ["migrate", "--from", &db, "--lib", &lib, "--ttl"];
    run_badly(&[&ttl[..], &["default=5"]].concat(), "does");
    run_badly(&[&ttl[..], &["x=5"]].concat(), "none of the families");
    run_badly(&[&ttl[..], &["5"]].concat(), "FAMILY=SECONDS");
    assert!(!place.path("db.kingtide").exists() && !place.path("missing").exists());
}
