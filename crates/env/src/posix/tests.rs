use std::{
    ffi::OsStr,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, PermissionsExt, symlink},
        },
    },
};

use super::{file::PosixFile, window::Window, *};
use crate::{File, OpenMode, WINDOWS_KEPT};

#[test]
fn the_fallback_fills_every_byte() {
    // Each byte of 19 stays zero in 16 independent draws with probability 2^-128.
    let mut seen = [0_u8; 19];
    for _ in 0..16 {
        let mut bytes = [0_u8; 19];
        fill_from_hasher(&mut bytes);
        for (seen, byte) in seen.iter_mut().zip(bytes) {
            *seen |= byte;
        }
    }
    assert!(seen.iter().all(|byte| *byte != 0));
}

fn open_temporary() -> (tempfile::TempDir, Arc<dyn Directory>) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = PosixEnv::new()
        .open_directory(temporary.path(), false)
        .unwrap();
    (temporary, directory)
}

#[test]
fn links_are_not_followed() {
    let (temporary, directory) = open_temporary();
    let path = temporary.path();
    fs::write(path.join("file"), b"content").unwrap();
    fs::create_dir(path.join("directory")).unwrap();
    symlink("file", path.join("link")).unwrap();
    symlink("directory", path.join("directory-link")).unwrap();
    symlink("nowhere", path.join("broken-link")).unwrap();
    for name in ["link", "broken-link"] {
        assert!(directory.open(name, OpenMode::Read).is_err());
        assert!(directory.open(name, OpenMode::ReadWrite).is_err());
        assert!(directory.open(name, OpenMode::CreateNew).is_err());
        assert!(directory.lock(name).is_err());
    }
    for create in [false, true] {
        assert!(directory.open_directory("directory-link", create).is_err());
        assert!(directory.open_directory("broken-link", create).is_err());
    }
    assert!(!path.join("nowhere").exists());
    // A link is listed as what it is, linked as what it is, and removing it leaves its target.
    directory.link("link", directory.as_ref(), "copy").unwrap();
    assert!(path.join("copy").is_symlink());
    directory.remove("link").unwrap();
    assert_eq!(fs::read(path.join("file")).unwrap(), b"content");
    // The top directory may be reached through one.
    let top = path.join("directory-link");
    PosixEnv::new().open_directory(&top, true).unwrap();
}

#[test]
fn pipes_and_sockets_are_refused_without_waiting() {
    let (temporary, directory) = open_temporary();
    let _socket = std::os::unix::net::UnixListener::bind(temporary.path().join("socket")).unwrap();
    assert!(directory.open("socket", OpenMode::ReadWrite).is_err());
    assert!(directory.lock("socket").is_err());
    let made = std::process::Command::new("mkfifo")
        .arg(temporary.path().join("pipe"))
        .status();
    if made.is_ok_and(|status| status.success()) {
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = directory.open("pipe", mode).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}

#[test]
fn modes_keep_others_out() {
    let (temporary, directory) = open_temporary();
    directory.open("file", OpenMode::CreateNew).unwrap();
    directory.open_directory("below", true).unwrap();
    drop(directory.lock("LOCK").unwrap());
    let top = temporary.path().join("top");
    PosixEnv::new().open_directory(&top, true).unwrap();
    let mode = |name: &str| {
        let metadata = fs::metadata(temporary.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    // The umask of the test may take more away, never less.
    assert_eq!(mode("file") & 0o177, 0);
    assert_eq!(mode("LOCK") & 0o177, 0);
    assert_eq!(mode("below") & 0o077, 0);
    assert_eq!(mode("top") & 0o022, 0);
}

#[test]
fn names_that_are_not_text_are_listed() {
    let (temporary, directory) = open_temporary();
    let name = OsStr::from_bytes(b"not-\xFF-text");
    fs::write(temporary.path().join(name), b"x").unwrap();
    let entries = directory.list().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].name, "not-\u{FFFD}-text");
    assert_eq!(entries[0].bytes, 1);
}

#[test]
fn a_moved_directory_keeps_working() {
    let (temporary, directory) = open_temporary();
    let below = directory.open_directory("below", true).unwrap();
    fs::rename(
        temporary.path().join("below"),
        temporary.path().join("moved"),
    )
    .unwrap();
    below.open("file", OpenMode::CreateNew).unwrap();
    assert!(temporary.path().join("moved/file").exists());
}

#[test]
fn windows_are_opened_where_they_are_safe_and_wanted() {
    let temporary = tempfile::tempfile().unwrap();
    temporary.set_len(1 << 20).unwrap();
    let file =
        |is_writable, mapping| PosixFile::new(temporary.try_clone().unwrap(), is_writable, mapping);
    let is_safe = window::is_safe_on(temporary.as_fd()).unwrap();
    assert_eq!(
        file(true, true).prepare_window(1_000, 10_000).unwrap(),
        is_safe
    );
    assert!(!file(true, false).prepare_window(1_000, 10_000).unwrap());
    assert!(!file(false, true).prepare_window(1_000, 10_000).unwrap());
}

/// Goal: a window stays in use while those ahead of it are prepared; of more than a file keeps, the oldest goes; those behind are
/// given back to the system when nothing new is prepared, too. Method: the mappings of the file, as the system lists them.
#[cfg(target_os = "linux")]
#[test]
fn the_last_windows_are_kept_until_they_are_released() {
    use std::os::unix::fs::MetadataExt;
    let temporary = tempfile::tempfile().unwrap();
    temporary.set_len(1 << 20).unwrap();
    let inode = temporary.metadata().unwrap().ino().to_string();
    let mappings = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let inodes = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(4));
        inodes.filter(|other| *other == inode).count()
    };
    let file = PosixFile::new(temporary.try_clone().unwrap(), true, true);
    if !file.prepare_window(0, 8_192).unwrap() {
        return;
    }
    for window in 1..=WINDOWS_KEPT as u64 {
        assert!(file.prepare_window(window * 8_192, 8_192).unwrap());
        assert!(
            file.write_to_window(b"record", (window - 1) * 8_192),
            "the window before is still in use"
        );
    }
    assert_eq!(mappings(), WINDOWS_KEPT);
    assert!(!file.write_to_window(b"record", 0), "the oldest went");
    assert!(!file.prepare_window(16_383, 0).unwrap());
    assert_eq!(mappings(), WINDOWS_KEPT);
    assert!(!file.prepare_window(16_384, 0).unwrap());
    assert_eq!(mappings(), WINDOWS_KEPT - 1);
    assert!(!file.prepare_window(1 << 20, 0).unwrap());
    assert_eq!(mappings(), 0);
}

#[test]
fn a_window_takes_exactly_its_range() {
    let file = tempfile::tempfile().unwrap();
    if !window::is_safe_on(file.as_fd()).unwrap() {
        return;
    }
    file.set_len(64 << 10).unwrap();
    let mut window = Window::map(file.as_fd(), 5_000, 10_000).unwrap().unwrap();
    assert_eq!(window.end(), 15_000);
    for (offset, bytes) in [
        (4_999, 1),
        (4_999, 2),
        (14_999, 2),
        (15_000, 1),
        (15_001, 0),
        (0, 20_000),
        (u64::MAX, 1),
    ] {
        assert!(!window.write(&vec![1; bytes], offset), "{offset} {bytes}");
    }
    assert!(window.write(&[2; 10_000], 5_000));
    assert!(window.write(&[3], 14_999));
    assert!(window.write(&[], 15_000));
    let mut content = vec![0; 64 << 10];
    file.read_exact_at(&mut content, 0).unwrap();
    assert!(content[..5_000].iter().all(|byte| *byte == 0));
    assert!(content[5_000..14_999].iter().all(|byte| *byte == 2));
    assert_eq!(content[14_999], 3);
    assert!(content[15_000..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_lock_is_refused_to_another_process() {
    let (temporary, directory) = open_temporary();
    let lock = directory.lock("LOCK").unwrap();
    // Another open file stands for another process: flock does not tell them apart.
    let other = fs::File::open(temporary.path().join("LOCK")).unwrap();
    assert!(system::lock_exclusive(other.as_fd()).is_err());
    drop(lock);
    system::lock_exclusive(other.as_fd()).unwrap();
    let error = directory.lock("LOCK").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    // A refused attempt leaves nothing behind in this process.
    drop(other);
    directory.lock("LOCK").unwrap();
}
