//! What waits for an outcome, and giving it by hand.

use kingtide::{Db, FamilyOptions, Options};

use crate::harness::{Place, run_badly, run_well};

/// A database with two transactions prepared; the name of one is no text.
fn prepared(place: &Place) -> String {
    let db = Db::open(place.path("db"), Options::default()).expect("a new one");
    let family = db
        .open_family("default", FamilyOptions::default())
        .expect("new");
    for (xid, key) in [(&b"order 17"[..], b"a"), (b"\x00\xff", b"b")] {
        let mut transaction = db.begin().expect("open");
        transaction.put(&family, key, b"v").expect("short");
        transaction.prepare(xid).expect("healthy");
    }
    db.close().expect("healthy");
    place.db()
}

#[test]
fn what_is_prepared_is_listed() {
    let place = Place::new();
    let db = prepared(&place);
    for arguments in [
        &["prepared", &db][..],
        &["prepared", &db, "list"],
        &["--db", &db, "prepared"],
    ] {
        let listed = run_well(arguments).text().to_owned();
        assert_eq!(listed.lines().count(), 3, "{listed}");
        assert!(
            listed.contains("order 17") && listed.contains("\\x00\\xff"),
            "{listed}"
        );
        assert!(
            listed.contains("ReadCommitted") && listed.contains("default"),
            "{listed}"
        );
    }
    let objects = run_well(&["prepared", &db, "--json"]).objects();
    assert_eq!(objects[0]["xid_hex"], "00ff");
    assert_eq!(objects[1]["xid"], "order 17");
    assert_eq!(objects[1]["operations"], 1);
    assert_eq!(objects[1]["families"], serde_json::json!(["default"]));
    let objects = run_well(&["prepared", &db, "list", "--hex", "--json"]).objects();
    assert_eq!(objects[1]["xid_hex"], "6f72646572203137");
}

#[test]
fn outcomes_are_given_by_hand() {
    let place = Place::new();
    let db = prepared(&place);
    run_badly(&["put", &db, "a", "other"], "order 17");
    let told = run_well(&["prepared", &db, "commit", "order 17"]);
    assert!(told.text().starts_with("committed as number "), "{told:?}");
    run_well(&["prepared", &db, "rollback", "--hex", "00ff", "-q"]);
    assert_eq!(run_well(&["scan", &db]).text(), "a\tv\n");
    assert_eq!(run_well(&["prepared", &db]).text(), "");
    for action in ["commit", "rollback"] {
        run_badly(
            &["prepared", &db, action, "order 17"],
            "kingtide prepared DIR",
        );
    }
    run_badly(&["prepared", &db, "commit", "--hex", "0g"], "hexadecimal");
}
