//! Is resident memory what the budget says? Runs workloads under several budgets, each in a process of its own, and prints
//! the peak of resident memory beside its bound: the budget x 1.15 + 16 MiB.
//!
//! ```text
//! cargo run --release -p kingtide --example memory_bound -- [--budgets 64,128,256] [--workloads fill,read,...] [--scale 1.0]
//! ```
//!
//! Ends with 1 when a bound is exceeded. Linux only: the peak is read from `/proc/self/status`. The program itself needs
//! about 4 MiB; keys are computed, not stored.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IterOptions, MemoryStats, Options, SyncMode,
};

const WORKLOADS: [&str; 8] = [
    "fill", "small", "read", "scan", "values", "families", "large", "mixed",
];
const THREADS: u64 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let scale: f64 =
        option("--scale").map_or(1.0, |text| text.parse().expect("--scale takes a number"));
    if let Some(workload) = option("--child") {
        let budget = option("--budget").expect("given by the parent");
        return child(
            &workload,
            budget.parse().expect("the parent gives mebibytes"),
            scale,
        );
    }
    let budgets = option("--budgets").unwrap_or_else(|| "64,128,256".to_owned());
    let workloads = option("--workloads").unwrap_or_else(|| WORKLOADS.join(","));
    println!(
        "{:<10} {:>7} {:>9} {:>9} {:>9} {:>9}  {:>8}",
        "workload", "budget", "peak RSS", "bound", "counted", "seconds", "verdict"
    );
    let mut is_bounded = true;
    for workload in workloads.split(',') {
        for budget in budgets.split(',') {
            let scale = scale.to_string();
            let program = std::env::current_exe().expect("it runs");
            let status = Command::new(program)
                .args(["--child", workload, "--budget", budget, "--scale", &scale])
                .status()
                .expect("a process can be started");
            is_bounded &= status.success();
        }
    }
    if !is_bounded {
        std::process::exit(1);
    }
}

/// Runs one workload under a budget of so many MiB and prints a line.
fn child(workload: &str, budget: usize, scale: f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options {
        memory_bytes_max: budget << 20,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).expect("it opens");
    let most = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let world = World {
        db,
        scale,
        counted: Arc::clone(&most),
    };
    world.run(workload);
    let seconds = begun.elapsed().as_secs_f64();
    let stats = world.db.stats().expect("the database is open");
    world.db.close().expect("it closes");
    let peak = peak_kibibytes() as f64 / 1024.0;
    let bound = budget as f64 * 1.15 + 16.0;
    println!(
        "{workload:<10} {budget:>7} {peak:>9.1} {bound:>9.1} {:>9.1} {seconds:>9.1}  {:>8}",
        most.load(Ordering::Relaxed) as f64 / f64::from(1 << 20),
        if peak <= bound { "ok" } else { "EXCEEDED" },
    );
    if std::env::var_os("VERBOSE").is_some() {
        println!("  {:?}", stats.memory);
        let (stalls, delay) = (stats.write_stalls, stats.write_delay);
        println!(
            "  {stalls} waits, {delay:?} of delays, {} flushes",
            stats.flushes
        );
        for line in status_lines() {
            println!("  {line}");
        }
    }
    if peak > bound {
        std::process::exit(1);
    }
}

struct World {
    db: Db,
    scale: f64,
    /// The most that the budget counted.
    counted: Arc<AtomicU64>,
}

impl World {
    fn run(&self, workload: &str) {
        match workload {
            "fill" => self.fill(&self.families(1), 4_000_000, (100, 1000)),
            "small" => self.fill(&self.families(1), 2_000_000, (64, 1)),
            "read" => {
                let families = self.families(1);
                self.fill(&families, 3_000_000, (100, 1000));
                self.read(&families[0], 3_000_000, 2_000_000);
            }
            "scan" => {
                let families = self.families(1);
                self.fill(&families, 3_000_000, (100, 1000));
                self.scan(&families[0]);
            }
            "values" => {
                let families = self.families(1);
                self.fill(&families, 150_000, (4096, 100));
                self.read(&families[0], 150_000, 200_000);
                self.scan(&families[0]);
            }
            "families" => self.fill(&self.families(32), 4_000_000, (100, 100)),
            "large" => self.large(&self.families(1)[0]),
            "mixed" => {
                let families = self.families(4);
                self.fill(&families, 2_000_000, (100, 1000));
                thread::scope(|scope| {
                    scope.spawn(|| self.fill(&families, 2_000_000, (100, 1000)));
                    scope.spawn(|| self.read(&families[0], 500_000, 1_000_000));
                    scope.spawn(|| self.scan(&families[1]));
                });
            }
            other => panic!("no workload {other:?}: there are {WORKLOADS:?}"),
        }
    }

    fn families(&self, count: usize) -> Vec<ColumnFamily> {
        let options = || FamilyOptions {
            sync: SyncMode::None,
            ..FamilyOptions::default()
        };
        (0..count)
            .map(|index| self.db.open_family(&format!("f{index}"), options()))
            .collect::<kingtide::Result<_>>()
            .expect("they can be made")
    }

    fn scaled(&self, count: u64) -> u64 {
        (count as f64 * self.scale) as u64
    }

    /// Notes how much the budget counts at this moment.
    fn note(&self) {
        let memory: MemoryStats = self.db.stats().expect("the database is open").memory;
        self.counted
            .fetch_max(memory.total_bytes(), Ordering::Relaxed);
    }

    /// Writes `count` entries with scattered keys, by eight threads, spread over the families.
    fn fill(&self, families: &[ColumnFamily], count: u64, (value_bytes, batch): (usize, u64)) {
        let commits = self.scaled(count) / batch;
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let next = &next;
                scope.spawn(move || {
                    let mut value = vec![0; value_bytes];
                    loop {
                        let commit = next.fetch_add(1, Ordering::Relaxed);
                        if commit >= commits {
                            return;
                        }
                        let family = &families[commit as usize % families.len()];
                        self.commit(family, commit * batch..(commit + 1) * batch, &mut value);
                        if thread == 0 {
                            self.note();
                        }
                    }
                });
            }
        });
    }

    fn commit(&self, family: &ColumnFamily, keys: std::ops::Range<u64>, value: &mut [u8]) {
        loop {
            let outcome = self.db.begin().and_then(|mut transaction| {
                for key in keys.clone() {
                    fill_value(value, key);
                    transaction.put(family, &key_of(key), value)?;
                }
                transaction.commit()
            });
            match outcome {
                Ok(_) => return,
                Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::MemoryLimit) => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn read(&self, family: &ColumnFamily, keys: u64, count: u64) {
        let (keys, count) = (self.scaled(keys), self.scaled(count));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut state = thread + 1;
                    for index in 0..count / THREADS {
                        state = scatter(state);
                        let found = self.db.get(family, &key_of(state % keys));
                        drop(found.expect("it can be read"));
                        if thread == 0 && index % 1024 == 0 {
                            self.note();
                        }
                    }
                });
            }
        });
    }

    fn scan(&self, family: &ColumnFamily) {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut iter = self
                        .db
                        .iter(family, IterOptions::default())
                        .expect("it can be made");
                    let mut is_there = iter.seek_to_first().expect("it can be read");
                    let (mut bytes, mut seen) = (0, 0_u64);
                    while is_there {
                        bytes += iter.value().expect("it can be read").len();
                        seen += 1;
                        if seen % 65_536 == 0 {
                            self.note();
                        }
                        is_there = iter.next().expect("it can be read");
                    }
                    std::hint::black_box(bytes);
                });
            }
        });
    }

    /// Transactions of a quarter of the budget, two at a time.
    fn large(&self, family: &ColumnFamily) {
        let limit = self
            .db
            .stats()
            .expect("the database is open")
            .memory
            .limit_bytes;
        let count = limit / 4 / 1100;
        thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut value = vec![0; 1000];
                    for round in 0..5 {
                        let first = (thread * 100 + round) * count;
                        self.commit(family, first..first + count, &mut value);
                        self.note();
                    }
                });
            }
        });
    }
}

/// A bijection of numbers that leaves no order.
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scatter(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Half of it does not compress.
fn fill_value(value: &mut [u8], seed: u64) {
    let mut state = seed;
    for (index, chunk) in value.chunks_mut(8).enumerate() {
        if index % 2 == 0 {
            state = scatter(state);
        }
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

fn status_lines() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = ["VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem"];
    let is_wanted = |line: &&str| wanted.iter().any(|name| line.starts_with(name));
    text.lines().filter(is_wanted).map(str::to_owned).collect()
}

fn peak_kibibytes() -> u64 {
    let lines = status_lines();
    let line = lines.iter().find(|line| line.starts_with("VmHWM"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.expect("Linux tells the peak of resident memory")
}
