fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let count: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let ops: u64 = std::env::args().nth(3).unwrap().parse().unwrap();
    for seed in seed..seed + count {
        let mut last = None;
        for _ in 0..2 {
            let outcome = kingtide_env::baton::simulate(seed, Default::default(), move || {
                kingtide_testkit::history::run(seed, ops)
                    .map_err(|v| v.to_string())
                    .map(|t| t.to_string())
            });
            println!(
                "{seed} {:x} pauses {} switches {} {:?}",
                outcome.trace, outcome.pauses, outcome.switches, outcome.answer
            );
            if last.is_some_and(|last| last != outcome.trace) {
                println!("NOT THE SAME");
            }
            last = Some(outcome.trace);
        }
    }
}
