//! Whole files and directories, with damages drawn from the bytes.

use std::sync::OnceLock;

use kingtide::{Db, FamilyOptions, Options, SyncMode};
use kingtide_env::MemoryEnv;

use super::Target;
use crate::{
    dump::dump,
    world::{self, DATABASE},
};

/// A small database as it lies on the disk: paths and contents.
struct Specimen {
    files: Vec<(std::path::PathBuf, Vec<u8>)>,
}

impl Specimen {
    fn get() -> &'static Self {
        static SPECIMEN: OnceLock<Specimen> = OnceLock::new();
        SPECIMEN.get_or_init(Self::build)
    }

    fn build() -> Self {
        let env = MemoryEnv::new(5);
        let make = || -> kingtide::Result<()> {
            let db = Db::open(DATABASE, world::options(&env))?;
            for (name, values) in [("small", 20), ("large", 900)] {
                let family = db.create_family(
                    name,
                    FamilyOptions {
                        write_buffer_bytes: 16 << 10,
                        sync: SyncMode::Full,
                        disk_free_bytes_min: 0,
                        ..FamilyOptions::default()
                    },
                )?;
                for number in 0..60_u8 {
                    db.put(&family, &[b'k', number], &vec![number; values])?;
                    if number == 30 {
                        db.flush(&family)?;
                    }
                }
            }
            // As a kill leaves it: some of it is in the log alone.
            drop(db);
            Ok(())
        };
        make().expect("a database in memory can be made");
        let found = env.kill();
        let read = |path: std::path::PathBuf| {
            let bytes = found.read_file(&path)?;
            Some((path, bytes))
        };
        Self {
            files: found.paths().into_iter().filter_map(read).collect(),
        }
    }
}

/// What to change: four bytes each say the file, the place (two) and the change.
fn damaged(bytes: &[u8], is_wanted: impl Fn(&std::path::Path) -> bool) -> MemoryEnv {
    let env = MemoryEnv::new(6);
    let mut files: Vec<(std::path::PathBuf, Vec<u8>)> = Specimen::get().files.clone();
    let wanted: Vec<usize> = (0..files.len())
        .filter(|index| is_wanted(&files[*index].0))
        .collect();
    for change in bytes.chunks_exact(4).take(8) {
        let Some(index) = wanted.get(usize::from(change[0]) % wanted.len().max(1)) else {
            continue;
        };
        let content = &mut files[*index].1;
        let place = usize::from(u16::from_le_bytes([change[1], change[2]])) % content.len().max(1);
        match change[3] {
            0 => content.truncate(place),
            1 => content.truncate(0),
            flip => {
                if let Some(byte) = content.get_mut(place) {
                    *byte ^= flip;
                }
            }
        }
    }
    for (path, content) in files {
        env.write_file(path, &content)
            .expect("a file in memory can be written");
    }
    env
}

fn open_and_read(env: &MemoryEnv, options: Options) {
    if let Ok(db) = Db::open(DATABASE, options) {
        let _ = dump(&db);
        let _ = db.close();
    }
    drop(env.paths());
}

/// Tables and value files: opening and reading them is an error or harmless.
pub(super) const TABLE_FILE: Target = Target {
    name: "table_file",
    run: |bytes| {
        let is_table = |path: &std::path::Path| {
            path.extension()
                .is_some_and(|extension| extension == "klog" || extension == "vlog")
        };
        let env = damaged(bytes, is_table);
        open_and_read(
            &env,
            Options {
                read_only: true,
                ..world::options(&env)
            },
        );
    },
    seeds: || {
        vec![
            vec![0, 10, 0, 1],
            vec![0; 4],
            vec![1, 0, 0, 7, 0, 255, 0, 9],
        ]
    },
};

/// A whole directory.
pub(super) const DIRECTORY: Target = Target {
    name: "directory",
    run: |bytes| {
        let env = damaged(bytes, |_| true);
        open_and_read(&env, world::options(&env));
    },
    seeds: || {
        vec![
            vec![0, 10, 0, 1],
            vec![2; 4],
            vec![3, 0, 0, 7, 4, 255, 0, 9],
        ]
    },
};
