//! The machine, and whether something else kept it busy, from `/proc`. Linux only; elsewhere empty texts and zeros.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::MachineInfo;

/// How long [`MachineWatch::start`] looks at the idle machine.
const LOOK: Duration = Duration::from_millis(300);
/// Load from others, in processors, from which on a run is not to be trusted.
const BUSY_LOAD: f64 = 0.3;
/// The same for the time that the hypervisor gave to others, in percent.
const BUSY_STEAL_PERCENT: f64 = 2.0;

/// Ticks of all processors together, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    total: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
        // user nice system idle iowait irq softirq steal; guest times, which follow, are part of user and nice.
        let numbers: Vec<u64> = line
            .unwrap_or_default()
            .split_ascii_whitespace()
            .take(8)
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
        Self {
            total: numbers.iter().sum(),
            idle: at(3) + at(4),
            steal: at(7),
        }
    }

    /// Shares of the time since `earlier`: busy, stolen.
    fn shares_since(self, earlier: Self) -> (f64, f64) {
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let steal = self.steal.saturating_sub(earlier.steal) as f64;
        ((total - idle) / total, steal / total)
    }
}

/// Watches a machine from before a run to its end.
#[derive(Clone, Debug)]
pub struct MachineWatch {
    info: MachineInfo,
    start: Ticks,
    busy_processors: f64,
}

impl MachineWatch {
    /// Looks at the machine, which should be idle, for a moment. `directory` is where databases will be.
    #[must_use]
    pub fn start(directory: &Path) -> Self {
        let before = Ticks::read();
        thread::sleep(LOOK);
        let start = Ticks::read();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (busy, _) = start.shares_since(before);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let kernel = ["ostype", "osrelease"]
            .map(|name| read_line(Path::new("/proc/sys/kernel").join(name).as_path()));
        Self {
            info: MachineInfo {
                cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
                cores: cores as u64,
                memory_bytes: memory_bytes(
                    &fs::read_to_string("/proc/meminfo").unwrap_or_default(),
                ),
                kernel: kernel.join(" ").trim().to_owned(),
                file_system: file_system(directory),
                load_at_start: first_number(&load),
                steal_percent: 0.0,
            },
            start,
            busy_processors: busy * cores as f64,
        }
    }

    /// The machine as known now: time stolen since the start included.
    #[must_use]
    pub fn info(&self) -> MachineInfo {
        let (_, steal) = Ticks::read().shares_since(self.start);
        MachineInfo {
            steal_percent: steal * 100.0,
            ..self.info.clone()
        }
    }

    /// Processors that others kept busy at the start.
    #[must_use]
    pub fn busy_processors(&self) -> f64 {
        self.busy_processors
    }
}

/// Sentences for the report when the machine was not the run's alone.
#[must_use]
pub fn busy_warnings(info: &MachineInfo, busy_processors: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    if busy_processors > BUSY_LOAD {
        warnings.push(format!(
            "warning: other programs kept {busy_processors:.1} of {} processors busy when the run began (load {:.2}); \
             the numbers are not to be trusted",
            info.cores, info.load_at_start
        ));
    }
    if info.steal_percent > BUSY_STEAL_PERCENT {
        warnings.push(format!(
            "warning: the hypervisor gave {:.1} % of the processors' time to others; the numbers are not to be trusted",
            info.steal_percent
        ));
    }
    warnings
}

fn read_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn first_number(text: &str) -> f64 {
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    word.parse().unwrap_or(0.0)
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':'));
    model.map_or_else(String::new, |(_, model)| model.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    line.map_or(0, |rest| first_number(rest) as u64 * 1024)
}

/// The type of the file system that holds `directory`: the longest mount point that is above it.
fn file_system(directory: &Path) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut best = (0, String::new());
    for line in mounts.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        if let (Some(point), Some(kind)) = (words.next(), words.next())
            && directory.starts_with(point)
            && point.len() >= best.0
        {
            best = (point.len(), kind.to_owned());
        }
    }
    best.1
}

/// Now, as RFC 3339 in UTC with whole seconds.
pub(crate) fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Days to a date as in Howard Hinnant's "chrono-compatible low-level date algorithms": years begin in March, so that
/// the leap day is the last of its year.
fn utc(unix_seconds: u64) -> String {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_767_225_600), "2026-01-01T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn what_the_system_shows_is_understood() {
        let before = Ticks::parse("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
        let after = Ticks::parse("cpu  40 0 20 120 10 0 0 10 5 5\n");
        assert_eq!(after.total - before.total, 100);
        let (busy, steal) = after.shares_since(before);
        assert!((busy - 0.5).abs() < 1e-9 && (steal - 0.1).abs() < 1e-9);
        assert_eq!(Ticks::parse(""), Ticks::default());
        assert_eq!(cpu_model("a : b\nmodel name\t: AMD EPYC 1\n"), "AMD EPYC 1");
        assert_eq!(
            memory_bytes("MemFree: 1 kB\nMemTotal:   24 kB\n"),
            24 * 1024
        );
        assert!(cfg!(not(target_os = "linux")) || !file_system(Path::new("/")).is_empty());
    }

    #[test]
    fn a_busy_machine_is_told() {
        let quiet = MachineInfo::default();
        assert!(busy_warnings(&quiet, 0.1).is_empty());
        let stolen = MachineInfo {
            steal_percent: 9.0,
            ..quiet
        };
        assert_eq!(busy_warnings(&stolen, 1.5).len(), 2);
    }
}
