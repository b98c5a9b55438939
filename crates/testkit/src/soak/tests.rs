use super::*;

fn sample(round: usize, resident_bytes: u64, disk_bytes: u64) -> Sample {
    Sample {
        elapsed: Duration::from_secs(round as u64 * 100),
        round,
        resident_bytes,
        descriptors: 5,
        threads: 3,
        disk_bytes,
        stalls: 0,
    }
}

fn judged(samples: Vec<Sample>) -> Checked {
    summarize(1, samples.len(), samples)?.judge()
}

/// 100 seconds a round: 100 kB per round are 3.6 MB per hour.
fn growing(rounds: u64, bytes_per_round: u64) -> Checked {
    let noise = |round: u64| (round * 7919) % 5 * 1000;
    let resident = |round: u64| (50 << 20) + round * bytes_per_round + noise(round);
    judged(
        (0..rounds)
            .map(|round| sample(round as usize, resident(round), 1 << 20))
            .collect(),
    )
}

#[test]
fn memory_that_grows_beyond_noise_fails() {
    growing(72, 0).unwrap();
    growing(72, 20_000).unwrap();
    let violation = growing(72, 100_000).unwrap_err();
    assert!(
        violation.to_string().contains("beyond noise"),
        "{violation}"
    );
}

#[test]
fn a_short_run_grants_some_mebibytes_and_no_more() {
    growing(30, 100_000).unwrap();
    let violation = growing(30, 1_000_000).unwrap_err();
    assert!(
        violation.to_string().contains("beyond noise"),
        "{violation}"
    );
}

#[test]
fn memory_above_the_budget_fails() {
    let mut samples: Vec<Sample> = (0..9)
        .map(|round| sample(round, 50 << 20, 1 << 20))
        .collect();
    samples[4].resident_bytes = 127 << 20;
    assert!(
        judged(samples)
            .unwrap_err()
            .to_string()
            .contains("are allowed")
    );
}

#[test]
fn a_disk_that_grows_fails() {
    let of = |round: usize| sample(round, 50 << 20, round as u64 * (100 << 20));
    assert!(
        judged((0..9).map(of).collect())
            .unwrap_err()
            .to_string()
            .contains("the disk grows")
    );
}

#[test]
fn a_descriptor_or_thread_that_stays_fails() {
    let first = sample(0, 0, 0);
    let mut now = sample(1, 0, 0);
    check_closed(&first, &now).unwrap();
    now.descriptors += 1;
    assert!(
        check_closed(&first, &now)
            .unwrap_err()
            .to_string()
            .contains("descriptors")
    );
    now.descriptors -= 1;
    now.threads += 1;
    assert!(
        check_closed(&first, &now)
            .unwrap_err()
            .to_string()
            .contains("threads")
    );
}

#[test]
fn the_slope_of_a_line_is_its_slope() {
    let exact: Vec<(f64, f64)> = (0..10)
        .map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x)))
        .collect();
    let slope = Slope::of(&exact).unwrap();
    assert!((slope.slope - 2.0).abs() < 1e-9 && slope.standard_error < 1e-6);
    assert!(slope.is_at_most(2.1) && !slope.is_at_most(1.9));
    assert_eq!(Slope::of(&exact[..4]), None);
    assert_eq!(Slope::of(&[(1.0, 2.0); 6]), None);
}
