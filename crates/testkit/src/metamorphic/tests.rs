use super::*;

// Promise: levels, expiry.
#[test]
fn the_same_operations_give_the_same_answers_under_all_settings() {
    let mut tally = Tally::default();
    for seed in 1..=12 {
        tally += run(seed, 500).unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("{tally}");
    assert!(tally.operations > 20_000);
    assert!(tally.refused > 0 && tally.left_out > 0);
}

#[test]
fn a_prefix_of_a_list_is_a_list() {
    for seed in 0..5 {
        let long = list(seed, 300);
        let short = list(seed, 100);
        assert_eq!(format!("{:?}", &long[..100]), format!("{short:?}"));
    }
}

#[test]
fn an_answer_that_differs_is_found() {
    let is_read = |operation: &Operation| matches!(operation, Operation::Get(..));
    let seed = (1..).find(|seed| list(*seed, 200).iter().filter(|one| is_read(one)).count() > 20);
    let seed = seed.expect("some list reads");
    let list = list(seed, 200);
    let numbered: Vec<(usize, &Operation)> = list.iter().enumerate().collect();
    let mut expected = expect(&list);
    let changed = expected
        .iter()
        .rposition(|answer| matches!(answer, Some(Answer::Values(_))))
        .expect("some operation reads");
    expected[changed] = Some(Answer::Values(vec![Some(b"never written".to_vec())]));
    for setting in SETTINGS {
        let failure = run_setting(seed, setting, &numbered, &expected).expect_err("must differ");
        assert_eq!(failure.at, changed);
    }
}
