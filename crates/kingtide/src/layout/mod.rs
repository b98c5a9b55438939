//! Which files a database has, what they hold and which keys they cover: as the manifest says, without a look into them.
//!
//! Only the manifest and the heads of log segments are read. So a layout costs little whatever the size of the database,
//! can be had beside a writer and of a database with damaged tables, and shows what is durable, not what is in memory.
//!
//! | file | what it is |
//! |---|---|
//! | `gather` | from the state of the manifest to a layout |

mod gather;

use std::{path::Path, sync::Arc};

use kingtide_base::{SeqNo, StorageError};
use kingtide_env::{Env, PosixEnv};

pub(crate) use gather::gather;

use crate::{
    error::{Error, ErrorKind, Result},
    manifest,
    options::Options,
};

/// Which files a database has; see [`Layout::read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The families in the order of their creation. Those that keep the commits of families whose comparator is missing
    /// are among them; their names begin with `pending/`.
    pub families: Vec<FamilyLayout>,
    /// The value files by name.
    pub value_files: Vec<ValueFileLayout>,
    /// The files of the log by name.
    pub segments: Vec<SegmentLayout>,
}

/// The tables of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyLayout {
    /// Its name.
    pub name: String,
    /// The name of its key order.
    pub comparator: String,
    /// False when the order is not known here: then the boundaries are in the order of their bytes.
    pub is_order_known: bool,
    /// All its commits up to this one are in its tables.
    pub flushed_through: SeqNo,
    /// The smallest and the largest keys of all tables, each once, in the order of the family.
    pub boundaries: Vec<Vec<u8>>,
    /// The tables, by level; on level 1 the newest first, below by their keys.
    pub tables: Vec<TableLayout>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// Its level, counted from 1.
    pub level: u8,
    /// Its file, below the database's directory.
    pub file: String,
    /// The length of the file.
    pub bytes: u64,
    /// Where in [`FamilyLayout::boundaries`] its smallest key stands: counted from 0.
    pub smallest: usize,
    /// Where in [`FamilyLayout::boundaries`] its largest key stands: counted from 0.
    pub largest: usize,
    /// True when the largest key is the end of a range delete, which does not belong to the table any more.
    pub is_largest_excluded: bool,
    /// The oldest commit in it.
    pub sequence_min: SeqNo,
    /// The newest commit in it.
    pub sequence_max: SeqNo,
    /// Entries, all versions and tombstones counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Since when it holds tombstones or range deletes, in Unix seconds; `None` without any, and where nobody recorded it.
    pub tombstones_since: Option<u64>,
    /// Range deletes, which are not among the entries.
    pub range_deletes: u64,
    /// Bytes of keys and values as they were written, separated values included.
    pub raw_bytes: u64,
    /// Bytes in value files that it points to.
    pub value_bytes: u64,
    /// The value files it points to.
    pub value_files: Vec<String>,
}

/// One value file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFileLayout {
    /// The file, below the database's directory.
    pub file: String,
    /// The length of the file.
    pub bytes: u64,
    /// Bytes in it that tables point to.
    pub live_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// Records that tables point to.
    pub live_records: u64,
    /// Tables that point to it.
    pub tables: u64,
}

impl ValueFileLayout {
    /// The share of the file that tables point to, 0 to 1. What several families share counts for each.
    #[must_use]
    pub fn live_share(&self) -> f64 {
        (self.live_bytes as f64 / self.bytes.max(1) as f64).min(1.0)
    }
}

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentLayout {
    /// The file, below the database's directory.
    pub file: String,
    /// The length of the file, which is secured ahead of need.
    pub bytes: u64,
    /// What it is for.
    pub state: SegmentState,
}

/// What a file of the log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// It holds records that the next open may need. The position is that of its first byte in the log.
    Live {
        /// Which use of the file this is, counted over all files of the log.
        life: u64,
        /// Bytes of log before it since the database was made.
        position: u64,
    },
    /// Everything in it is in tables; it waits for its next use.
    Retired,
    /// It was never used.
    Blank,
}

impl Layout {
    /// The layout of the database at `path`, which need not be open and may be open elsewhere. Nothing is written and no
    /// lock is taken. Of `options`, the comparators and the world are used.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let path = directory.path();
    /// use kingtide::{Db, FamilyOptions, Layout, Options};
    ///
    /// let db = Db::open(path, Options::default())?;
    /// let family = db.create_family("tides", FamilyOptions::default())?;
    /// db.put(&family, b"brest", b"high")?;
    /// db.flush(&family)?;
    ///
    /// let layout = Layout::read(path, &Options::default())?; // while it is open
    /// let tides = &layout.families[0];
    /// assert_eq!(tides.boundaries, [b"brest"]);
    /// assert_eq!(tides.tables[0].entries, 1);
    /// assert_eq!(layout, db.layout()?);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when there is no database, `Corruption` when its manifest is damaged, `Io`.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        let env: Arc<dyn Env> = options
            .env
            .clone()
            .unwrap_or_else(|| Arc::new(PosixEnv::new()));
        let missing = || {
            let text = format!("there is no database in {}: check the path", path.display());
            Error::new(ErrorKind::NotFound, text)
        };
        let root = match env.open_directory(path, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            root => root.map_err(|error| {
                StorageError::io(path.display().to_string(), "open the directory", error)
            })?,
        };
        if !manifest::is_present(root.as_ref())? {
            return Err(missing());
        }
        let state = manifest::read(root.as_ref())?;
        let log = root
            .open_directory("wal", false)
            .map_err(|error| StorageError::io("wal", "open", error))?;
        gather(&state, log.as_ref(), &options.comparators)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
