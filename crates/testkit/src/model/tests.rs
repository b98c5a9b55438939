use super::*;

const NOW: ClockSpan = ClockSpan {
    from_micros: 100_000_000,
    to_micros: 100_000_500,
};

fn put(family: FamilyNumber, key: &str, value: &str) -> Write {
    Write {
        family,
        key: key.into(),
        end: None,
        value: Some(value.into()),
        expires_at: 0,
    }
}

fn delete(family: FamilyNumber, key: &str) -> Write {
    Write {
        value: None,
        ..put(family, key, "")
    }
}

fn dump_of(model: &Model) -> Dump {
    let mut dump = Dump::new();
    for name in model.names() {
        let family = model.family(&name).unwrap();
        let entries = model.entries(family, u64::MAX, NOW, &[]);
        let pairs = entries
            .into_iter()
            .map(|entry| (entry.key.bytes, entry.value))
            .collect();
        dump.insert(name, pairs);
    }
    dump
}

#[test]
fn reads_see_the_version_of_their_commit() {
    let mut model = Model::default();
    let family = model.create("a", "memcmp");
    model.commit(&[put(family, "k", "1")]);
    model.commit(&[delete(family, "k"), put(family, "k", "2")]);
    model.commit(&[delete(family, "k")]);
    assert_eq!(model.get(family, b"k", 0, NOW), Expected::Absent);
    assert_eq!(model.get(family, b"k", 1, NOW), Expected::Present(b"1"));
    assert_eq!(model.get(family, b"k", 2, NOW), Expected::Present(b"2"));
    assert_eq!(model.get(family, b"k", 3, NOW), Expected::Absent);
    assert_eq!(model.written_at(family, b"k"), 3);
    assert_eq!(
        model.entries(family, 2, NOW, &[delete(family, "k")]).len(),
        0
    );
}

#[test]
fn expiry_is_uncertain_only_around_its_second() {
    let mut model = Model::default();
    let family = model.create("a", "memcmp");
    for (key, expires_at) in [("gone", 99), ("now", 100), ("later", 101), ("never", 0)] {
        model.commit(&[Write {
            expires_at,
            ..put(family, key, "v")
        }]);
    }
    assert_eq!(model.get(family, b"gone", 9, NOW), Expected::Absent);
    assert_eq!(model.get(family, b"now", 9, NOW), Expected::Either(b"v"));
    assert_eq!(model.get(family, b"later", 9, NOW), Expected::Present(b"v"));
    assert_eq!(model.get(family, b"never", 9, NOW), Expected::Present(b"v"));
}

#[test]
fn a_prefix_is_found_and_a_hole_is_not() {
    let mut model = Model::default();
    let left = model.create("a", "memcmp");
    let right = model.create("b", "case_insensitive");
    let mut dumps = vec![dump_of(&model)];
    for number in 0..10 {
        let key = format!("k{number}");
        model.commit(&[put(left, &key, "1"), put(right, &key.to_uppercase(), "1")]);
        dumps.push(dump_of(&model));
    }
    for (kept, dump) in dumps.iter().enumerate() {
        assert_eq!(
            model.clone().find_prefix(dump, 0, NOW).unwrap(),
            kept as u64
        );
        let with_floor = model.clone().find_prefix(dump, 5, NOW);
        assert_eq!(with_floor.is_ok(), kept >= 5, "{kept} survivors, floor 5");
    }
    let mut torn = dumps[7].clone();
    torn.get_mut("b").unwrap().pop();
    let violation = model.clone().find_prefix(&torn, 0, NOW).unwrap_err();
    assert!(violation.to_string().contains("no prefix"), "{violation}");
    let mut hole = dumps[9].clone();
    hole.get_mut("a").unwrap().remove(3);
    hole.get_mut("b").unwrap().remove(3);
    assert!(model.clone().find_prefix(&hole, 0, NOW).is_err());
    let mut stranger = dumps[9].clone();
    stranger
        .get_mut("a")
        .unwrap()
        .push((b"x".to_vec(), b"1".to_vec()));
    assert!(model.clone().find_prefix(&stranger, 0, NOW).is_err());
    dumps[9].remove("b");
    assert!(model.find_prefix(&dumps[9], 0, NOW).is_err());
}

#[test]
fn clones_live_apart() {
    let mut model = Model::default();
    let first = model.create("a", "memcmp");
    model.commit(&[put(first, "k", "1")]);
    let second = model.clone_family("a", "b").unwrap();
    model.commit(&[put(first, "k", "2")]);
    assert_eq!(model.get(second, b"k", 9, NOW), Expected::Present(b"1"));
    model.rename("b", "c");
    model.drop_family("a");
    assert_eq!(model.names(), ["c"]);
    assert_eq!(model.get(second, b"k", 9, NOW), Expected::Present(b"1"));
}
