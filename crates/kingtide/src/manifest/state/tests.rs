use kingtide_format::ValueFileUse;

use super::*;

const FAMILY: FamilyId = FamilyId(1);

fn table(file: u64, value_files: &[u64]) -> TableMeta {
    TableMeta {
        file: FileId(file),
        file_bytes: 100,
        footer_checksum: file,
        smallest: b"a".to_vec(),
        largest: b"z".to_vec(),
        sequence_min: SeqNo(1),
        sequence_max: SeqNo(2),
        sequence_base: SeqNo::ZERO,
        entries: 10,
        tombstones: 1,
        oldest_tombstone: kingtide_format::OldestTombstone::default(),
        range_deletes: 0,
        is_largest_excluded: false,
        raw_bytes: 200,
        value_files: value_files
            .iter()
            .map(|file| ValueFileUse {
                file: FileId(*file),
                records: 2,
                bytes: 50,
            })
            .collect(),
    }
}

fn value_file(file: u64) -> Edit {
    Edit::AddValueFile(ValueFileMeta {
        file: FileId(file),
        file_bytes: 1000,
        footer_checksum: 1,
        records: 20,
    })
}

fn add_family(id: FamilyId, name: &str) -> Edit {
    Edit::AddFamily {
        id,
        name: name.to_owned(),
        options: vec![("sync".to_owned(), "full".to_owned())],
    }
}

fn add_table(level: u8, meta: TableMeta) -> Edit {
    Edit::AddTable {
        family: FAMILY,
        level,
        meta,
    }
}

fn log_start(segment: u64, sequence: u64, position: u64) -> Edit {
    Edit::LogStart {
        segment: SegmentId(segment),
        sequence: SeqNo(sequence),
        position: Lsn(position),
    }
}

fn state(edits: &[Edit]) -> ManifestState {
    let mut state = ManifestState::default();
    for edit in edits {
        state.apply(edit).expect("fits");
    }
    state
}

/// Two families that share table 8 (as a clone does), and a value file.
fn two_families() -> ManifestState {
    state(&[
        add_family(FAMILY, "tides"),
        add_family(FamilyId(4), "currents"),
        value_file(7),
        add_table(1, table(8, &[7])),
        Edit::AddTable {
            family: FamilyId(4),
            level: 2,
            meta: table(8, &[7]),
        },
        Edit::FlushedThrough {
            family: FAMILY,
            sequence: SeqNo(9),
        },
        log_start(2, 9, 4096),
        Edit::LogDurable(Lsn(8192)),
        Edit::Identity(DatabaseId(77)),
        Edit::NextFileId(FileId(20)),
        Edit::NextFamilyId(FamilyId(6)),
    ])
}

#[test]
fn a_state_can_be_made_again_from_its_edits() {
    for original in [ManifestState::default(), two_families()] {
        let edits: Vec<Edit> = original.to_edits().collect();
        assert_eq!(state(&edits), original);
    }
}

#[test]
fn a_state_answers_what_was_put_into_it() {
    let state = two_families();
    let ids: Vec<FamilyId> = state.families().map(|(id, _)| id).collect();
    assert_eq!(ids, [FAMILY, FamilyId(4)]);
    assert_eq!(state.names.get("currents"), Some(&FamilyId(4)));
    assert_eq!(state.names.get("nothing"), None);
    let family = state.family(FAMILY).expect("there");
    assert_eq!(family.flushed_through, SeqNo(9));
    assert_eq!(family.tables[&FileId(8)].0, 1);
    assert!(state.is_file_used(FileId(8)) && state.is_file_used(FileId(7)));
    assert!(!state.is_file_used(FileId(9)));
    assert_eq!(state.next_file_id(), FileId(20));
    assert_eq!(state.next_family_id(), FamilyId(6));
    assert_eq!(state.log_durable(), Lsn(8192));
    let start = LogStart {
        segment: SegmentId(2),
        sequence: SeqNo(9),
        position: Lsn(4096),
    };
    assert_eq!(state.log_start(), start);
    assert_eq!(state.identity(), Some(DatabaseId(77)));
}

#[test]
fn a_database_never_becomes_another_one() {
    let mut state = two_families();
    let before = state.clone();
    assert_eq!(state.apply(&Edit::Identity(DatabaseId(77))), Ok(()));
    let fault = state.apply(&Edit::Identity(DatabaseId(78)));
    assert_eq!(fault, Err(StateFault::IdentityPresent(DatabaseId(77))));
    assert_eq!(state, before);
}

#[test]
fn value_files_are_counted_by_the_tables_that_use_them() {
    let mut state = two_families();
    let used = |state: &ManifestState| {
        let file = state.value_files()[&FileId(7)];
        (file.tables, file.live_records, file.live_bytes)
    };
    assert_eq!(used(&state), (2, 4, 100));
    let remove = Edit::RemoveValueFile(FileId(7));
    let in_use = Err(StateFault::ValueFileUsed(FileId(7)));
    state
        .apply(&Edit::DropFamily { id: FamilyId(4) })
        .expect("there");
    assert_eq!(used(&state), (1, 2, 50));
    assert_eq!(state.apply(&remove), in_use);
    let edit = Edit::RemoveTable {
        family: FAMILY,
        level: 1,
        file: FileId(8),
    };
    state.apply(&edit).expect("there");
    assert_eq!(used(&state), (0, 0, 0));
    assert_eq!(state.apply(&remove), Ok(()));
    assert_eq!(
        state.apply(&remove),
        Err(StateFault::ValueFileMissing(FileId(7)))
    );
}

#[test]
fn counters_and_marks_never_go_back() {
    let mut state = two_families();
    let before = state.clone();
    for edit in [
        Edit::NextFileId(FileId(1)),
        Edit::NextFamilyId(FamilyId(1)),
        Edit::LogDurable(Lsn(1)),
        Edit::FlushedThrough {
            family: FAMILY,
            sequence: SeqNo(1),
        },
    ] {
        assert_eq!(state.apply(&edit), Ok(()));
        assert_eq!(state, before);
    }
    state.apply(&add_table(3, table(30, &[]))).expect("new");
    state.apply(&value_file(31)).expect("new");
    assert_eq!(state.next_file_id(), FileId(32));
    state.apply(&add_family(FamilyId(9), "later")).expect("new");
    assert_eq!(state.next_family_id(), FamilyId(10));
}

#[test]
fn families_are_renamed_and_their_names_are_free_again() {
    let mut state = two_families();
    let rename = |name: &str| Edit::RenameFamily {
        id: FAMILY,
        name: name.to_owned(),
    };
    state.apply(&rename("tides")).expect("its own name");
    state.apply(&rename("ebb")).expect("free");
    assert_eq!(state.names.get("ebb"), Some(&FAMILY));
    assert_eq!(state.names.get("tides"), None);
    state
        .apply(&add_family(FamilyId(9), "tides"))
        .expect("free again");
    let options = Edit::SetFamilyOptions {
        id: FAMILY,
        options: Vec::new(),
    };
    state.apply(&options).expect("there");
    assert!(state.family(FAMILY).expect("there").options.is_empty());
    let move_table = Edit::MoveTable {
        family: FAMILY,
        from: 1,
        to: 16,
        file: FileId(8),
    };
    state.apply(&move_table).expect("there");
    assert_eq!(
        state.family(FAMILY).expect("there").tables[&FileId(8)].0,
        16
    );
}

#[test]
fn each_rule_has_its_fault_and_changes_nothing() {
    let missing = FamilyId(3);
    let name = |name: &str| StateFault::Name(name.to_owned());
    let family = FAMILY;
    let file = FileId(8);
    let move_table = |from, to| Edit::MoveTable {
        family,
        from,
        to,
        file,
    };
    let long = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    let cases = [
        (add_family(FAMILY, "new"), StateFault::FamilyPresent(FAMILY)),
        (add_family(missing, "tides"), name("tides")),
        (add_family(missing, ""), name("")),
        (add_family(missing, &long), name(&long)),
        (
            Edit::DropFamily { id: missing },
            StateFault::FamilyMissing(missing),
        ),
        (
            Edit::RenameFamily {
                id: FAMILY,
                name: "currents".to_owned(),
            },
            name("currents"),
        ),
        (
            add_table(1, table(8, &[7])),
            StateFault::TablePresent { family, file },
        ),
        (
            add_table(1, table(9, &[7, 6])),
            StateFault::ValueFileMissing(FileId(6)),
        ),
        (add_table(0, table(9, &[])), StateFault::Level(0)),
        (add_table(17, table(9, &[])), StateFault::Level(17)),
        (move_table(2, 3), StateFault::TableMissing { family, file }),
        (move_table(1, 17), StateFault::Level(17)),
        (value_file(7), StateFault::ValueFilePresent(FileId(7))),
        (
            log_start(1, 9, 4096),
            StateFault::LogStartBack(SegmentId(1)),
        ),
        (
            log_start(2, 8, 4096),
            StateFault::LogStartBack(SegmentId(2)),
        ),
        (
            log_start(2, 9, 4095),
            StateFault::LogStartBack(SegmentId(2)),
        ),
    ];
    let before = two_families();
    for (edit, fault) in cases {
        let mut state = before.clone();
        assert_eq!(state.apply(&edit), Err(fault));
        assert_eq!(state, before, "{edit:?}");
    }
}

#[test]
fn families_are_bounded() {
    let mut state = ManifestState::default();
    for id in 0..FAMILIES_MAX as u32 {
        state
            .apply(&add_family(FamilyId(id), &format!("family {id}")))
            .expect("fits");
    }
    let one_more = add_family(FamilyId::MAX, "one more");
    assert_eq!(state.apply(&one_more), Err(StateFault::FamiliesMax));
}

/// Goal: dates that a manifest does not record, and those that a wrong clock left, become those of the opening; others
/// stay. Method: tables of each kind in two families that share one.
#[test]
fn unknown_and_future_dates_of_tombstones_become_now() {
    let dated = |file, tombstones, (sequence, since)| TableMeta {
        tombstones,
        oldest_tombstone: kingtide_format::OldestTombstone {
            sequence: SeqNo(sequence),
            since,
        },
        ..table(file, &[])
    };
    let mut state = ManifestState::default();
    let edits = [
        add_family(FAMILY, "f"),
        add_table(1, dated(1, 1, (0, 0))),
        add_table(2, dated(2, 1, (2, 500))),
        add_table(2, dated(3, 1, (2, 5000))),
        add_table(2, dated(4, 0, (0, 0))),
    ];
    for edit in &edits {
        state.apply(edit).expect("legal");
    }
    let before = state.clone();
    state.date_tombstones(1000);
    let dates = |state: &ManifestState| -> Vec<_> {
        let tables = state.family(FAMILY).expect("there").tables.values();
        tables
            .map(|(_, table)| table.oldest_tombstone)
            .map(|oldest| (oldest.sequence.0, oldest.since))
            .collect()
    };
    assert_eq!(dates(&state), [(1, 1000), (2, 500), (2, 1000), (0, 0)]);
    assert_eq!(
        dates(&before),
        [(0, 0), (2, 500), (2, 5000), (0, 0)],
        "a clone shares nothing that changed"
    );
    let dated = state.clone();
    state.date_tombstones(2000);
    assert_eq!(state, dated, "all have one now");
}
