use super::*;

const CALM: Standing = Standing {
    backlog: None,
    room: 2.0,
    level1: 0.0,
    values: 0.0,
    memory: 0.0,
};

/// Goal: nobody is held back without a reason, and each reason alone holds back, the more the stronger it is. Method:
/// walk along each.
#[test]
fn writers_are_slower_the_more_there_is_a_reason() {
    assert_eq!(admission(&CALM), None);
    let walks: [fn(f64) -> Standing; 4] = [
        |x| Standing {
            backlog: Some(2.0 * x),
            ..CALM
        },
        |x| Standing {
            level1: 5.1 + 20.0 * x,
            ..CALM
        },
        |x| Standing {
            values: 0.76 + x,
            ..CALM
        },
        |x| Standing {
            memory: 0.91 + x,
            ..CALM
        },
    ];
    for (index, walk) in walks.into_iter().enumerate() {
        let speeds: Vec<f64> = (0..=100)
            .filter_map(|x| admission(&walk(f64::from(x) / 100.0)))
            .collect();
        assert_eq!(speeds.len(), 101, "walk {index}");
        assert!(
            speeds.is_sorted_by(|a, b| a >= b),
            "walk {index}: {speeds:?}"
        );
        assert!(speeds[0] > 0.8 && speeds[100] == SLOWEST, "walk {index}");
    }
}

/// Goal: turns come in their order and at the speed of the moment, what nobody used is not saved, and waits are bounded.
#[test]
fn turns_come_in_order_and_what_is_not_used_is_lost() {
    let ms = Duration::from_millis;
    let mut turns = Turns::default();
    let [a, b, c] = [100_000; 3].map(|bytes| turns.take(bytes));
    assert_eq!(
        [a, b, c].map(|turn| turns.left(turn, 100e6)),
        [ms(0), ms(1), ms(2)]
    );
    turns.run(500_000, 100e6);
    turns.run(400_000, 100e6);
    assert_eq!(turns.left(b, 50e6), ms(1));
    assert_eq!(turns.left(c, 1.0), TURN_MAX);
    turns.run(1_500_000, 100e6);
    assert_eq!([a, b].map(|turn| turns.left(turn, 100e6)), [ms(0); 2]);
    turns.run(3_600_000_000_000, 100e6);
    let [d, e] = [100_000; 2].map(|bytes| turns.take(bytes));
    assert_eq!(
        [c, d, e].map(|turn| turns.left(turn, 100e6)),
        [ms(0), ms(0), ms(1)]
    );
    turns.forget();
    assert_eq!(turns.left(e, 100e6), ms(0));
}

/// Goal: nonsense holds nobody back.
#[test]
fn nonsense_is_harmless() {
    for speed in [0.0, f64::NAN, f64::INFINITY, -1.0] {
        let mut turns = Turns::default();
        let [_, second] = [usize::MAX; 2].map(|bytes| turns.take(bytes));
        assert_eq!(turns.left(second, speed), Duration::ZERO);
        turns.run(1, speed);
        assert_eq!(turns.left(second, 1.0), Duration::ZERO);
    }
    let nonsense = Standing {
        backlog: Some(f64::NAN),
        room: f64::NAN,
        level1: f64::NAN,
        values: f64::NAN,
        memory: f64::NAN,
    };
    assert_eq!(admission(&nonsense), None);
}

/// A machine for [`play`]: bytes and microseconds.
#[derive(Clone, Copy, Debug)]
struct Machine {
    writers: usize,
    commit_bytes: f64,
    /// What one commit takes when nothing holds it back.
    commit_micros: f64,
    memtable_bytes: f64,
    flush_bytes_per_micro: f64,
    /// What a flush takes besides, before and after.
    flush_pause_micros: f64,
    /// Every so many flushes the pause is ten times as long.
    hiccup_period: usize,
    /// Memtables that may wait.
    sealed_max: usize,
}

struct Outcome {
    /// Sorted; of commits.
    latencies: Vec<f64>,
    bytes_per_micro: f64,
}

impl Outcome {
    fn quantile(&self, q: f64) -> f64 {
        self.latencies[((self.latencies.len() - 1) as f64 * q) as usize]
    }
}

/// The flush thread of a machine.
#[derive(Default)]
struct Flusher {
    /// Bytes of the memtables that wait, the oldest first.
    sealed: std::collections::VecDeque<f64>,
    /// Of the oldest.
    written: f64,
    pause: f64,
    begun: f64,
    flushes: usize,
    speed: Option<f64>,
}

impl Flusher {
    fn step(&mut self, machine: &Machine, (now, step): (f64, f64)) {
        let Some(bytes) = self.sealed.front().copied() else {
            return;
        };
        if self.written == 0.0 && self.pause == 0.0 {
            self.begun = now;
        }
        if self.written < bytes {
            self.written = (self.written + machine.flush_bytes_per_micro * step).min(bytes);
            return;
        }
        let is_hiccup = self.flushes % machine.hiccup_period == machine.hiccup_period - 1;
        let pause = machine.flush_pause_micros * if is_hiccup { 10.0 } else { 1.0 };
        self.pause += step;
        if self.pause < pause {
            return;
        }
        let speed = bytes / (now - self.begun);
        self.speed = Some(
            self.speed
                .map_or(speed, |before| before + (speed - before) / 4.0),
        );
        self.sealed.pop_front();
        (self.written, self.pause) = (0.0, 0.0);
        self.flushes += 1;
    }

    /// Of the flushes before, or of the first one as far as it is.
    fn speed(&self, now: f64) -> Option<f64> {
        let of_first = || self.written / (now - self.begun);
        self.speed.or((self.written > 0.0).then(of_first))
    }

    fn backlog(&self, machine: &Machine, active: f64) -> Option<f64> {
        let waiting: f64 = self.sealed.iter().sum();
        let left = waiting - 0.9 * self.written + active;
        (!self.sealed.is_empty()).then_some(left / machine.memtable_bytes)
    }
}

/// Plays writers against one flush thread in steps of 20 microseconds. A writer whose memtable is full while as many wait
/// as may stands still, as in the engine.
fn play(machine: Machine, is_paced: bool) -> Outcome {
    const STEP: f64 = 20.0;
    let mut flusher = Flusher::default();
    let mut active = 0.0_f64;
    let mut turns = Turns::default();
    // When each writer's commit began, how long it still works, and its turn once it has asked.
    let mut writers: Vec<(f64, f64, Option<Turn>)> = (0..machine.writers)
        .map(|writer| {
            let share = writer as f64 / machine.writers as f64;
            (0.0, machine.commit_micros * share, None)
        })
        .collect();
    let mut latencies = Vec::new();
    let (mut total, mut now) = (0.0, 0.0);
    while now < 10e6 {
        now += STEP;
        flusher.step(&machine, (now, STEP));
        for (begun, working, turn) in &mut writers {
            *working -= STEP;
            if *working > 0.0 {
                continue;
            }
            let standing = Standing {
                backlog: flusher.backlog(&machine, active),
                room: machine.sealed_max as f64 + 1.0,
                ..CALM
            };
            let admitted = admission(&standing).filter(|_| is_paced);
            if let (Some(admitted), Some(speed)) = (admitted, flusher.speed(now)) {
                let speed = speed * 1e6 * admitted;
                turns.run((now * 1e3) as u64, speed);
                let turn = *turn.get_or_insert_with(|| turns.take(machine.commit_bytes as usize));
                let is_late = now - *begun >= TURN_MAX.as_micros() as f64;
                if !is_late && turns.left(turn, speed) > Duration::ZERO {
                    continue;
                }
            }
            if active + machine.commit_bytes > machine.memtable_bytes {
                if flusher.sealed.len() >= machine.sealed_max {
                    continue;
                }
                flusher.sealed.push_back(active);
                active = 0.0;
            }
            active += machine.commit_bytes;
            total += machine.commit_bytes;
            latencies.push(now - *begun);
            (*begun, *working, *turn) = (now, machine.commit_micros, None);
        }
    }
    latencies.sort_by(f64::total_cmp);
    Outcome {
        latencies,
        bytes_per_micro: total / now,
    }
}

const MACHINE: Machine = Machine {
    writers: 8,
    commit_bytes: 150e3,
    commit_micros: 120.0,
    memtable_bytes: 28e6,
    flush_bytes_per_micro: 250.0,
    flush_pause_micros: 20_000.0,
    hiccup_period: 1000,
    sealed_max: 1,
};

/// Goal: with writers that outrun flushing, pacing turns standstills into short delays, and costs hardly any throughput.
/// Method: machines of several kinds, with and without; without, some commits must stand still, or nothing is shown.
#[test]
fn paced_writers_do_not_stand_still() {
    let machines = [
        MACHINE,
        Machine {
            commit_micros: 2_800.0,
            ..MACHINE
        },
        Machine {
            writers: 1,
            ..MACHINE
        },
        Machine {
            writers: 32,
            flush_bytes_per_micro: 100.0,
            ..MACHINE
        },
        Machine {
            commit_bytes: 15e3,
            ..MACHINE
        },
        Machine {
            hiccup_period: 20,
            sealed_max: 2,
            ..MACHINE
        },
    ];
    for machine in machines {
        let (free, paced) = (play(machine, false), play(machine, true));
        let standstill = machine.memtable_bytes / machine.flush_bytes_per_micro / 4.0;
        assert!(free.quantile(1.0) > standstill, "{machine:?}");
        let quantiles = [0.01, 0.5, 0.999, 1.0].map(|q| paced.quantile(q));
        let kept = paced.bytes_per_micro / free.bytes_per_micro;
        println!("{quantiles:?} us, throughput {kept:.3}: {machine:?}");
        let [_, median, tail, most] = quantiles;
        assert!(
            tail < 10.0 * median,
            "{machine:?}: p99.9 {tail} us, median {median} us"
        );
        assert!(
            most < standstill.max(20.0 * median),
            "{machine:?}: {most} us"
        );
        assert!(
            kept > 0.9,
            "{machine:?}: throughput {kept} of the one without"
        );
    }
}

/// Goal: writers that flushing keeps up with are not slowed down at all.
#[test]
fn slow_writers_are_left_alone() {
    let machine = Machine {
        writers: 4,
        commit_bytes: 15e3,
        commit_micros: 1_000.0,
        ..MACHINE
    };
    let (free, paced) = (play(machine, false), play(machine, true));
    let (all, kept) = (free.latencies.len(), paced.latencies.len());
    assert!(kept * 100 >= all * 99, "{kept} of {all} commits");
    assert!(paced.quantile(0.99) <= 2.0 * free.quantile(0.99));
}
