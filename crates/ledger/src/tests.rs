use super::*;

fn stretch(part: &str, (first, last): (u64, u64), reached: u64, violations: u64) -> Stretch {
    Stretch {
        part: part.to_owned(),
        first,
        last,
        reached,
        unit: "kills".to_owned(),
        violations,
        build: "abc".to_owned(),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_run_goes_on_behind_what_was_clean() {
    let folder = folder();
    let path = folder.path().join("resumed.csv");
    let mut ledger = Ledger::open(&path).expect("no file is an empty ledger");
    assert_eq!(ledger.next("kill-loop", 1), 1);
    for (stretch, next) in [
        (stretch("kill-loop", (1, 10), 500, 0), 11),
        (stretch("model", (1, 70), 9, 0), 11),
        (stretch("kill-loop", (11, 20), 40, 1), 11),
        (stretch("kill-loop", (11, 20), 500, 0), 21),
    ] {
        ledger.add(stretch).expect("it is written");
        let read = Ledger::open(&path).expect("it is read");
        assert_eq!(read.stretches(), ledger.stretches());
        assert_eq!(read.next("kill-loop", 1), next);
    }
    let sum = ledger.sum("kill-loop");
    let wanted = Sum {
        seeds: 20,
        reached: 1000,
        violations: 1,
    };
    assert_eq!(sum, wanted);
    assert_eq!(ledger.sum("corrupt"), Sum::default());
}

#[test]
fn what_is_no_ledger_is_refused_with_its_line() {
    let folder = folder();
    let path = folder.path().join("broken.csv");
    for (text, line) in [
        ("part\n".to_owned(), 1),
        (format!("{HEAD}\na,1,2,3,kills,0\n"), 2),
        (format!("{HEAD}\na,1,2,3,kills,0,b\na,2,1,3,kills,0,b\n"), 3),
        (format!("{HEAD}\na,1,2,x,kills,0,b\n"), 2),
    ] {
        fs::write(&path, &text).expect("a temporary file");
        let error = Ledger::open(&path).expect_err("it is no ledger");
        assert!(
            error.to_string().contains(&format!(":{line}:")),
            "{text}: {error}"
        );
    }
    fs::remove_file(&path).expect("it is there");
    let mut ledger = Ledger::open(&path).expect("no file is an empty ledger");
    for part in ["a,b", "a\nb"] {
        let error = ledger
            .add(stretch(part, (1, 1), 1, 0))
            .expect_err("no line holds it");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    assert!(!path.exists());
}
