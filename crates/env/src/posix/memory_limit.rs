//! How much memory this process may use: that of the machine, or what its control groups leave it.

use std::fs;

/// The least of the machine's memory and the limits of the process's control groups; `None` when `/proc` does not tell.
pub(super) fn memory_bytes() -> Option<u64> {
    let of_machine = total_of(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter();
    let limits = limits.filter_map(|path| limit_of(&fs::read_to_string(path).ok()?));
    limits.chain([of_machine]).min()
}

/// What `/proc` says that this process occupies.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes_of(&status, "VmRSS:")
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    kibibytes_of(meminfo, "MemTotal:")
}

/// The number behind `name` in a text of lines, in bytes.
fn kibibytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The files that may hold a limit, by what `/proc/self/cgroup` says: of each group and all above it. Where the groups
/// are seen from inside a container, the path is not there, but the root is.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
        let (root, name) = match controllers {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some(list) if list.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.unwrap_or_default().trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    files
}

/// A limit in bytes; `None` for no limit.
fn limit_of(content: &str) -> Option<u64> {
    content.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the machine's memory is found, and a group's limit where there is one. Method: texts as kernels print them.
    #[test]
    fn limits_are_read() {
        assert_eq!(
            total_of("MemTotal:       24680 kB\nMemFree: 1 kB\n"),
            Some(24680 * 1024)
        );
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert_eq!(total_of("MemTotal: much\n"), None);
        assert_eq!(limit_of("max\n"), None);
        assert_eq!(limit_of("1048576\n"), Some(1 << 20));
        let files = limit_files("0::/user/one\n4:cpu,memory:/two\n5:cpu:/three\nnonsense\n");
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/user/one/memory.max",
                "/sys/fs/cgroup/user/memory.max",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/memory/two/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
    }

    /// Goal: on a Linux machine there is an answer, and a sensible one.
    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        let (all, resident) = (memory_bytes(), resident_bytes());
        assert!(all.is_some_and(|bytes| bytes > 1 << 20));
        assert!(resident.is_some_and(|bytes| bytes > 1 << 16));
    }
}
