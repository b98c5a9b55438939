//! What a process used, from `/proc/self`. Linux only; elsewhere, or where the system does not show it, zeros.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use crate::Usage;

// The unit of the times in /proc/self/stat as the kernel shows it to programs, on every architecture Linux supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Directories below a database directory that are descended into; no engine nests deeper.
const DEPTH_MAX: usize = 8;

/// A reading of the counters that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    user_seconds: f64,
    system_seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Counters {
    /// Now.
    pub(crate) fn read() -> Self {
        let mut counters = Self::default();
        if let Ok(text) = fs::read_to_string("/proc/self/stat") {
            let mut fields = cpu_ticks(&text);
            counters.user_seconds = fields.next().unwrap_or(0) as f64 / TICKS_PER_SECOND;
            counters.system_seconds = fields.next().unwrap_or(0) as f64 / TICKS_PER_SECOND;
        }
        if let Ok(text) = fs::read_to_string("/proc/self/io") {
            counters.read_bytes = field(&text, "read_bytes:");
            counters.written_bytes = field(&text, "write_bytes:");
        }
        counters
    }

    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Usage {
        Usage {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
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

/// User and system ticks: fields 14 and 15. Counted from behind the command, which may hold blanks and brackets.
fn cpu_ticks(stat: &str) -> impl Iterator<Item = u64> {
    let after_command = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_command
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(|word| word.parse().unwrap_or(0))
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
    use super::*;

    #[test]
    fn fields_are_found_behind_awkward_command_names() {
        let stat = "12 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 77 88 0 0";
        assert_eq!(cpu_ticks(stat).collect::<Vec<_>>(), [77, 88]);
        assert_eq!(cpu_ticks("").count(), 0);
        let io = "rchar: 1\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 9\n";
        assert_eq!(field(io, "write_bytes:"), 4096);
        assert_eq!(field(io, "missing:"), 0);
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
