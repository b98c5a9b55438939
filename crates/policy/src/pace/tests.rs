use super::*;

const CALM: Standing = Standing {
    fill: 0.0,
    flushed: None,
    level1: 0.0,
    memory: 0.0,
};

/// Goal: nobody is held back without a reason, and each reason alone holds back, the more the stronger it is. Method:
/// walk along each.
#[test]
fn pressure_grows_with_each_reason() {
    assert_eq!(pressure(&CALM), 0.0);
    assert_eq!(pressure(&Standing { fill: 1.0, ..CALM }), 0.0);
    let walks: [fn(f64) -> Standing; 4] = [
        |x| Standing {
            fill: x,
            flushed: Some(0.5),
            ..CALM
        },
        |x| Standing {
            fill: 0.5,
            flushed: Some(1.0 - x),
            ..CALM
        },
        |x| Standing {
            level1: 20.0 * x,
            ..CALM
        },
        |x| Standing { memory: x, ..CALM },
    ];
    for (index, walk) in walks.into_iter().enumerate() {
        let pressures: Vec<f64> = (0..=100)
            .map(|x| pressure(&walk(f64::from(x) / 100.0)))
            .collect();
        assert!(pressures.is_sorted(), "walk {index}: {pressures:?}");
        assert!(pressures[0] < 0.4 && pressures[100] == 1.0, "walk {index}");
    }
}

/// Goal: a memtable that is filled no faster than the one before it is written is never held back.
#[test]
fn filling_behind_flushing_is_free() {
    for flushed in 0..=100 {
        let flushed = f64::from(flushed) / 100.0;
        let standing = Standing {
            fill: flushed / 2.0,
            flushed: Some(flushed),
            ..CALM
        };
        assert_eq!(pressure(&standing), 0.0, "{flushed}");
    }
}

/// Goal: delays are bounded by the bytes of a commit, and nonsense is harmless.
#[test]
fn delays_are_bounded() {
    assert_eq!(delay(1.0, BYTES_PER_STEP), DELAY_STEP_MAX);
    assert!(delay(1.0, 100) <= DELAY_STEP_MAX / 40);
    assert_eq!(delay(0.0, usize::MAX), Duration::ZERO);
    assert_eq!(delay(f64::NAN, 4096), Duration::ZERO);
    assert_eq!(delay(-1.0, 4096), Duration::ZERO);
    assert!(delay(f64::INFINITY, usize::MAX) <= Duration::from_secs(1000));
    let nonsense = Standing {
        fill: f64::NAN,
        flushed: Some(-7.0),
        level1: f64::NAN,
        memory: f64::NAN,
    };
    assert_eq!(pressure(&nonsense), 0.0);
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

/// Plays writers against one flush thread in steps of 20 microseconds. A writer whose memtable is full while the one
/// before it is not in tables yet stands still, as in the engine.
fn play(machine: Machine, is_paced: bool) -> Outcome {
    const STEP: f64 = 20.0;
    let (mut active, mut sealed, mut written) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut pause = 0.0_f64;
    // When each writer's commit began, and how long it still works or sleeps.
    let mut writers: Vec<(f64, f64, f64)> = (0..machine.writers)
        .map(|writer| {
            (
                0.0,
                machine.commit_micros * writer as f64 / machine.writers as f64,
                0.0,
            )
        })
        .collect();
    let mut latencies = Vec::new();
    let (mut total, mut now) = (0.0, 0.0);
    while now < 10e6 {
        now += STEP;
        if sealed > 0.0 {
            if pause > 0.0 {
                pause -= STEP;
            } else if written < sealed {
                written += machine.flush_bytes_per_micro * STEP;
                if written >= sealed {
                    pause = machine.flush_pause_micros / 2.0;
                }
            } else {
                (sealed, written) = (0.0, 0.0);
            }
        }
        for (begun, working, slept) in &mut writers {
            *working -= STEP;
            if *working > 0.0 {
                continue;
            }
            let standing = Standing {
                fill: active / machine.memtable_bytes,
                flushed: (sealed > 0.0).then(|| written.min(sealed) / sealed * 0.9),
                ..CALM
            };
            let wanted = match is_paced {
                true => {
                    delay(pressure(&standing), machine.commit_bytes as usize).as_micros() as f64
                }
                false => 0.0,
            };
            if *slept + STEP < wanted {
                *slept += STEP;
                continue;
            }
            if active + machine.commit_bytes > machine.memtable_bytes {
                if sealed > 0.0 {
                    continue;
                }
                (sealed, active) = (active, 0.0);
                pause = machine.flush_pause_micros / 2.0;
            }
            active += machine.commit_bytes;
            total += machine.commit_bytes;
            latencies.push(now - *begun);
            (*begun, *working, *slept) = (now, machine.commit_micros, 0.0);
        }
    }
    latencies.sort_by(f64::total_cmp);
    Outcome {
        latencies,
        bytes_per_micro: total / now,
    }
}

/// Goal: with writers that outrun flushing, pacing turns standstills into short delays, and costs hardly any throughput.
/// Method: machines of several kinds, with and without; without, some commits must stand still, or nothing is shown.
#[test]
fn paced_writers_do_not_stand_still() {
    let machine = Machine {
        writers: 8,
        commit_bytes: 150e3,
        commit_micros: 2_800.0,
        memtable_bytes: 28e6,
        flush_bytes_per_micro: 200.0,
        flush_pause_micros: 20_000.0,
    };
    let machines = [
        machine,
        Machine {
            writers: 1,
            commit_micros: 400.0,
            ..machine
        },
        Machine {
            writers: 32,
            flush_bytes_per_micro: 100.0,
            ..machine
        },
        Machine {
            commit_bytes: 15e3,
            commit_micros: 280.0,
            ..machine
        },
    ];
    for machine in machines {
        let (free, paced) = (play(machine, false), play(machine, true));
        let standstill = machine.memtable_bytes / machine.flush_bytes_per_micro / 4.0;
        assert!(free.quantile(1.0) > standstill, "{machine:?}");
        let (median, tail, most) = (
            paced.quantile(0.5),
            paced.quantile(0.999),
            paced.quantile(1.0),
        );
        assert!(
            tail < 10.0 * median,
            "{machine:?}: p99.9 {tail} us, median {median} us"
        );
        assert!(
            most < standstill.max(10.0 * median),
            "{machine:?}: {most} us"
        );
        let kept = paced.bytes_per_micro / free.bytes_per_micro;
        assert!(
            kept > 0.85,
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
        memtable_bytes: 28e6,
        flush_bytes_per_micro: 200.0,
        flush_pause_micros: 20_000.0,
    };
    let (free, paced) = (play(machine, false), play(machine, true));
    assert_eq!(paced.latencies.len(), free.latencies.len());
    assert_eq!(paced.quantile(1.0), free.quantile(1.0));
}
