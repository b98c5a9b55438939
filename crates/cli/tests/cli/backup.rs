//! backup and restore.

use std::fs;

use crate::harness::{Place, run, run_badly, run_well, sample};

#[test]
fn a_backup_is_restored_as_it_was() {
    let place = Place::new();
    let db = place.db();
    run_well(&["import", &db, &sample()]);
    let before = run_well(&["export", &db]).stdout;
    for (name, option) in [("backup", None), ("checkpoint", Some("--checkpoint"))] {
        let (copy, restored) = (
            place.argument(name),
            place.argument(&format!("{name}-back")),
        );
        let mut arguments = vec!["backup", &db, &copy, "--json"];
        arguments.extend(option);
        let report = &run_well(&arguments).objects()[0];
        let linked = report["files_linked"].as_u64().expect("a number");
        assert_eq!(linked > 0, option.is_some(), "{report}");
        let told = run_well(&["restore", &copy, &restored]).text().to_owned();
        assert!(told.starts_with("restored to "), "{told}");
        assert_eq!(run_well(&["export", &restored]).stdout, before, "{name}");
        run_well(&["put", &restored, "new", "value"]);
    }
    assert_eq!(run_well(&["export", &db]).stdout, before);
    let told = run_well(&["--db", &db, "backup", &place.argument("third"), "-q"]);
    assert_eq!(told.text(), "");
}

#[test]
fn a_backup_is_made_beside_the_program_that_writes() {
    let place = Place::new();
    let db = place.db();
    run_well(&["put", &db, "key", "value"]);
    let open = kingtide::Db::open(&db, kingtide::Options::default()).expect("nobody has it open");
    let family = open.family("default").expect("the command made it");
    open.put(&family, b"new", b"in the log").expect("healthy");
    let copy = place.argument("copy");
    run_well(&["backup", &db, &copy]);
    assert_eq!(run_well(&["get", &copy, "new"]).text(), "in the log\n");
}

#[test]
fn targets_in_use_and_damaged_backups_are_refused() {
    let place = Place::new();
    let (db, copy) = (place.db(), place.argument("copy"));
    run_well(&["import", &db, &sample()]);
    run_badly(&["backup", &db, &db], "own directory");
    run_badly(&["backup", &place.argument("missing"), &copy], "missing");
    run_well(&["backup", &db, &copy]);
    run_badly(&["backup", &db, &copy], "not empty");
    run_badly(&["restore", &copy, &db], "not empty");

    let tables = fs::read_dir(place.path("copy/klog")).expect("tables");
    let table = tables
        .into_iter()
        .next()
        .expect("one")
        .expect("its name")
        .path();
    let mut bytes = fs::read(&table).expect("readable");
    bytes[40] ^= 1;
    fs::write(&table, bytes).expect("writable");
    let ran = run(&["restore", &copy, &place.argument("back")]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.text().starts_with("damaged: klog/"), "{ran:?}");
    assert!(!place.path("back").exists());
}
