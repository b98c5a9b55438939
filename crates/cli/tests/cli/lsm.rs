//! `lsm`: text, JSON and the page.

use std::path::Path;

use kingtide::{Db, FamilyOptions, Options};

use crate::{
    browser,
    harness::{Place, run_badly, run_well},
};

/// A name that would be obeyed if it were taken for markup.
const EVIL: &str = "<script>alert('family')<script>&lt;\"";

/// Three families: tables on two levels that share keys, with tombstones, range deletes and long values; evil keys;
/// nothing. The last of the flushes goes on behind all tables, which makes a table of its own. Answers the database, which is
/// still open.
fn make_database(path: &Path) -> Db {
    let db = Db::open(path, Options::default()).expect("a new database");
    let quiet = || FamilyOptions {
        l1_file_count_trigger: 1000,
        tombstone_density_trigger: 0.0,
        ..FamilyOptions::default()
    };
    let tides = db.create_family("tides", quiet()).expect("created");
    let put = |from: u32, to: u32, bytes: usize| {
        for number in from..to {
            let key = format!("port/{number:05}");
            db.put(&tides, key.as_bytes(), &vec![b'x'; bytes])
                .expect("written");
        }
    };
    put(0, 400, 2000);
    put(300, 600, 20);
    db.flush(&tides).expect("flushed");
    db.compact(&tides).expect("compacted");
    for (from, to) in [(0, 100), (50, 300), (320, 500), (450, 900)] {
        put(from, to, 700);
        for number in (from..to).step_by(3) {
            let key = format!("port/{number:05}");
            db.delete(&tides, key.as_bytes()).expect("deleted");
        }
        db.flush(&tides).expect("flushed");
    }
    db.delete_range(&tides, b"port/00700", b"port/00800")
        .expect("deleted");
    db.flush(&tides).expect("flushed");
    let evil = db.create_family(EVIL, quiet()).expect("created");
    for key in ["<img src=x onerror=alert(1)>", "</script><b>", "z"] {
        db.put(&evil, key.as_bytes(), b"1").expect("written");
        db.flush(&evil).expect("flushed");
    }
    db.put(&evil, b"\xff\x00\x01", b"1").expect("written");
    db.flush(&evil).expect("flushed");
    db.create_family("empty", quiet()).expect("created");
    db
}

#[test]
fn files_are_listed_beside_the_writer() {
    let place = Place::new();
    let db = make_database(&place.path("db"));
    let ran = run_well(&["lsm", &place.db()]);
    let text = ran.text();
    assert!(text.contains("tides: 7 tables"), "{text}");
    assert!(text.contains("port/00000"), "{text}");
    assert!(text.contains("0xff0001"), "{text}");
    assert!(text.contains("live"), "{text}");
    let object = &run_well(&["--db", &place.db(), "lsm", "--json"]).objects()[0];
    let families = object["families"].as_array().expect("a list");
    assert_eq!(families.len(), 3);
    assert_eq!(families[1]["name"], EVIL);
    let tables = families[0]["tables"].as_array().expect("a list");
    assert_eq!(tables.len(), 7);
    assert!(tables.iter().any(|table| table["range_deletes"] != 0));
    assert!(!object["value_files"].as_array().expect("a list").is_empty());
    let one = &run_well(&["lsm", &place.db(), "-f", "empty", "--json"]).objects()[0];
    assert_eq!(one["families"].as_array().expect("a list").len(), 1);
    run_badly(&["lsm", &place.db(), "-f", "none"], "no family \"none\"");
    run_badly(&["lsm", &place.argument("nowhere")], "there is no database");
    let unwritable = place.argument("no/such/folder.html");
    run_badly(&["lsm", &place.db(), "--html", &unwritable], "folder.html");
    db.close().expect("closed");
}

/// Goal: the page is drawn in a browser, and names and keys stay text. Method: a database full of markup is shown in a
/// wide and in a narrow window; the element counts are those of the layout.
#[test]
fn the_page_shows_every_file_and_obeys_no_name() {
    let place = Place::new();
    let db = make_database(&place.path("db"));
    // Left for people to look at.
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lsm.html");
    let target = page.to_str().expect("the target directory is UTF-8");
    let ran = run_well(&["lsm", &place.db(), "--html", target, "--json"]);
    db.close().expect("closed");
    let layout = &ran.objects()[0];
    let count = |list: &serde_json::Value| list.as_array().expect("a list").len();
    let families = layout["families"].as_array().expect("a list");
    let tables: usize = families.iter().map(|family| count(&family["tables"])).sum();
    assert!(ran.stderr.contains("wrote"), "{ran:?}");
    let markup = std::fs::read_to_string(&page).expect("written");
    assert!(!markup.contains("<img") && !markup.contains("<script>alert"));
    let addresses = markup.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("://"), "a page asks no network");
    for width in [1200, 390] {
        let Some(seen) = browser::open(&page, width) else {
            return;
        };
        seen.expect_drawn();
        assert_eq!(seen.count_class("card family"), 3);
        let bars = seen.count_class("bar") + seen.count_class("bar ranges");
        assert_eq!(bars, tables);
        assert!(seen.count_class("bar ranges") >= 1);
        assert_eq!(
            seen.count_class("value-file"),
            count(&layout["value_files"])
        );
        assert_eq!(seen.count_class("segment"), count(&layout["segments"]));
        assert!(!seen.dom.contains("<img"), "a key became markup");
        assert!(seen.dom.contains("&lt;img src=x onerror=alert(1)&gt;"));
        assert!(seen.dom.contains("0xff0001"));
        assert!(seen.dom.contains("No tables yet"));
    }
}
