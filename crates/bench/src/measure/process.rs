//! What a process used: processor time from `getrusage`, in microseconds, the rest from `/proc/self`. Where the system
//! does not tell something, it is 0.

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Instant};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};

use crate::Usage;

/// Directories below a database directory that are descended into; no engine nests deeper.
const DEPTH_MAX: usize = 8;

/// A reading of the counters that only grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    at: Instant,
    user_micros: u64,
    system_micros: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Counters {
    /// Now.
    pub(crate) fn read() -> Self {
        let mut counters = Self {
            at: Instant::now(),
            user_micros: 0,
            system_micros: 0,
            read_bytes: 0,
            written_bytes: 0,
        };
        // Of all threads, those that have ended included.
        if let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) {
            counters.user_micros = micros(used.user_time());
            counters.system_micros = micros(used.system_time());
        }
        if let Ok(text) = fs::read_to_string("/proc/self/io") {
            counters.read_bytes = field(&text, "read_bytes:");
            counters.written_bytes = field(&text, "write_bytes:");
        }
        counters
    }

    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Usage {
        // From whole microseconds, so that no digits come from the subtraction of fractions.
        let seconds = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e6;
        Usage {
            counted_seconds: self.at.saturating_duration_since(earlier.at).as_secs_f64(),
            user_seconds: seconds(self.user_micros, earlier.user_micros),
            system_seconds: seconds(self.system_micros, earlier.system_micros),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            ..Usage::default()
        }
    }
}

/// Watches the highest memory use.
#[derive(Debug)]
pub(crate) struct PeakWatch {
    address_bytes_before: u64,
    address_bytes_seen: u64,
}

impl PeakWatch {
    /// Forgets the highest resident memory so far, which needs no rights; where the system refuses, the peak is that of
    /// the whole process. The highest address space cannot be forgotten: it counts when it grows, and else the highest
    /// that [`PeakWatch::look`] saw.
    pub(crate) fn start() -> Self {
        let _ = fs::write("/proc/self/clear_refs", "5");
        let text = status();
        Self {
            address_bytes_before: field(&text, "VmPeak:") * 1024,
            address_bytes_seen: field(&text, "VmSize:") * 1024,
        }
    }

    /// To be called now and then.
    pub(crate) fn look(&mut self) {
        let now = field(&status(), "VmSize:") * 1024;
        self.address_bytes_seen = self.address_bytes_seen.max(now);
    }

    /// Enters the peaks since the start.
    pub(crate) fn finish(mut self, usage: &mut Usage) {
        self.look();
        let text = status();
        let peak = field(&text, "VmPeak:") * 1024;
        usage.peak_memory_bytes = field(&text, "VmHWM:") * 1024;
        usage.peak_address_bytes = if peak > self.address_bytes_before {
            peak
        } else {
            self.address_bytes_seen
        };
    }
}

fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Bytes that the files below `directory` occupy on the device (allocated blocks, so a preallocated log counts and a
/// hole does not). Files that vanish while it looks count as nothing.
#[must_use]
pub fn disk_bytes(directory: &Path) -> u64 {
    disk_bytes_to_depth(directory, DEPTH_MAX)
}

fn disk_bytes_to_depth(directory: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let mut total = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            if depth > 0 {
                total += disk_bytes_to_depth(&entry.path(), depth - 1);
            }
        } else {
            total += metadata.blocks() * 512;
        }
    }
    total
}

fn micros(time: TimeVal) -> u64 {
    u64::try_from(time.num_microseconds()).unwrap_or(0)
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let io = "rchar: 1\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 9\n";
        assert_eq!(field(io, "write_bytes:"), 4096);
        assert_eq!(field(io, "missing:"), 0);
    }

    /// Goal: a step of some milliseconds has a figure of its own. Method: readings while this thread works, which whole
    /// ticks of 10 ms would all be multiples of.
    #[test]
    fn processor_time_has_no_steps_of_ten_milliseconds() {
        let before = Counters::read();
        let is_between = (0..1_000_000).any(|_| {
            let now = Counters::read();
            let used = now.user_micros + now.system_micros;
            used > before.user_micros + before.system_micros && !used.is_multiple_of(10_000)
        });
        assert!(is_between, "{before:?}");
    }

    #[test]
    fn percent_is_of_the_time_that_was_counted_over() {
        let before = Counters::read();
        let after = Counters {
            at: before.at + Duration::from_millis(10),
            user_micros: before.user_micros + 14_999,
            system_micros: before.system_micros + 5_000,
            ..before
        };
        let usage = after.since(&before);
        assert_eq!(usage.user_seconds.to_string(), "0.014999");
        assert_eq!(usage.processor_percent().to_string(), "199.99");
        assert_eq!(Usage::default().processor_percent().to_string(), "0");
    }

    #[test]
    fn memory_peaks_are_at_least_what_was_used() {
        let watch = PeakWatch::start();
        let block = vec![1_u8; 32 << 20];
        let mut usage = Usage::default();
        watch.finish(&mut usage);
        assert!(block.iter().all(|byte| *byte == 1));
        assert!(usage.peak_memory_bytes >= 32 << 20, "{usage:?}");
        assert!(
            usage.peak_address_bytes >= usage.peak_memory_bytes,
            "{usage:?}"
        );
    }

    #[test]
    fn disk_use_counts_files_in_folders() {
        let directory = tempfile::tempdir().expect("temporary directory");
        fs::create_dir(directory.path().join("sub")).expect("folder");
        fs::write(directory.path().join("sub/file"), vec![1; 100_000]).expect("file");
        assert!(disk_bytes(directory.path()) >= 100_000 / 2);
        assert_eq!(disk_bytes(Path::new("/nowhere/at/all")), 0);
    }
}
