use kingtide_env::MemoryEnv;

use super::*;
use crate::{Db, FamilyOptions};

fn options(env: &MemoryEnv) -> Options {
    Options {
        env: Some(Arc::new(env.clone())),
        ..Options::default()
    }
}

/// Goal: the layout names every file with what is in it, and ranks keys in the order of the family. Method: a family in
/// descending order with long values and a delete, flushed twice and then merged.
#[test]
fn a_layout_tells_files_and_ranks_keys() {
    let env = MemoryEnv::new(1);
    let db = Db::open("/db", options(&env)).unwrap();
    let settings = FamilyOptions {
        comparator: "reverse_memcmp".to_owned(),
        ..FamilyOptions::default()
    };
    let family = db.create_family("down", settings).unwrap();
    db.put(&family, b"a", &[7; 100_000]).unwrap();
    db.put(&family, b"c", b"short").unwrap();
    db.flush(&family).unwrap();
    db.delete(&family, b"a").unwrap();
    db.put(&family, b"b", b"short").unwrap();
    db.flush(&family).unwrap();
    let layout = Layout::read("/db", &options(&env)).unwrap();
    assert_eq!(layout, db.layout().unwrap());
    let down = &layout.families[0];
    assert_eq!(
        (down.comparator.as_str(), down.is_order_known),
        ("reverse_memcmp", true)
    );
    assert_eq!(down.boundaries, [b"c", b"b", b"a"]);
    let shapes: Vec<_> = down
        .tables
        .iter()
        .map(|table| {
            (
                table.smallest,
                table.largest,
                table.entries,
                table.tombstones,
            )
        })
        .collect();
    assert_eq!(shapes, [(1, 2, 2, 1), (0, 2, 2, 0)], "the newest first");
    let values = &layout.value_files[0];
    assert_eq!(
        (values.records, values.live_records, values.tables),
        (1, 1, 1)
    );
    assert!(values.live_share() > 0.5, "{values:?}");
    assert_eq!(
        down.tables[1].value_files[..],
        *std::slice::from_ref(&values.file)
    );
    assert!(env.read_file(format!("/db/{}", values.file)).is_some());
    for table in &down.tables {
        let file = env.read_file(format!("/db/{}", table.file)).unwrap();
        assert_eq!(file.len() as u64, table.bytes);
    }
    let live = |segment: &&SegmentLayout| matches!(segment.state, SegmentState::Live { .. });
    assert!(layout.segments.iter().any(|segment| live(&segment)));
    db.compact(&family).unwrap();
    let merged = db.layout().unwrap();
    let table = &merged.families[0].tables[0];
    assert!(merged.families[0].tables.len() == 1 && table.level > 1);
    assert_eq!((table.entries, table.tombstones), (2, 0));
    db.close().unwrap();
}

#[test]
fn an_unknown_order_is_no_obstacle_and_no_database_is_an_error() {
    struct Length;
    impl crate::Comparator for Length {
        fn name(&self) -> &str {
            "length"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        }
    }
    let env = MemoryEnv::new(2);
    let with_order = Options {
        comparators: vec![Arc::new(Length)],
        ..options(&env)
    };
    let db = Db::open("/db", with_order.clone()).unwrap();
    let settings = FamilyOptions {
        comparator: "length".to_owned(),
        ..FamilyOptions::default()
    };
    let family = db.create_family("f", settings).unwrap();
    for key in ["b", "aa"] {
        db.put(&family, key.as_bytes(), b"").unwrap();
    }
    db.close().unwrap();
    db_reopened_has_tables(&with_order);
    let known = &Layout::read("/db", &with_order).unwrap().families[0];
    assert!(known.is_order_known);
    assert_eq!(known.boundaries, [b"b".to_vec(), b"aa".to_vec()]);
    let unknown = &Layout::read("/db", &options(&env)).unwrap().families[0];
    assert!(!unknown.is_order_known);
    assert_eq!(unknown.boundaries, [b"aa".to_vec(), b"b".to_vec()]);
    for path in ["/nowhere", "/"] {
        let error = Layout::read(path, &options(&env)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{path}");
    }
}

/// What was in the log at a close is in tables after the next open.
fn db_reopened_has_tables(options: &Options) {
    Db::open("/db", options.clone()).unwrap().close().unwrap();
}
