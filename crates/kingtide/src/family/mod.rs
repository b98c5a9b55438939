//! Column families: what one is, its settings, and the registry of all of them.
//!
//! | module | what it is |
//! |---|---|
//! | `hook` | commit hooks: tickets, turns, calls |
//! | `busy` | what running merges and installations hold |
//! | `config` | settings: validation, and the text pairs in which they are stored |
//! | `counters` | what was done to a family, for statistics |
//! | `registry` | families by name and by id |
//! | `dropped` | what flushes and merges left out, for statistics |
//! | `settings` | the settings in force, which change while the family is in use |
//! | `super_version` | what readers of a family see: memtables and tables, swapped as a whole |
//! | `value_room` | what value files take, for writers that must not outrun the emptying of them |
//! | `testing` | families without a database, for tests |

mod busy;
mod config;
mod counters;
mod deferred;
mod dropped;
pub(crate) mod hook;
mod lately;
mod registry;
mod settings;
mod super_version;
mod value_room;

use std::{collections::BTreeSet, fmt, sync::Arc};

use arc_swap::ArcSwap;
use kingtide_base::{FamilyId, FileId, KeyOrder, SeqNo};
use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

pub(crate) use busy::{Busy, HoldId};
pub(crate) use config::{decode_options, encode_options, validate_name, validate_options};
pub(crate) use counters::{CommitSizes, FamilyCounters, FamilyTotals};
pub use dropped::DroppedVersions;

pub(crate) use deferred::{Deferred, DeferredOrder, is_pending_name, pending_name};
pub(crate) use lately::Lately;
pub(crate) use registry::{Registry, already_exists};
pub(crate) use super_version::SuperVersion;

use self::{settings::Settings, value_room::ValueRoomCell};
use crate::options::{FamilyOptions, SyncMode};

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod testing;

/// Names one opening of a database in this process: handles that share it belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening(Arc<u8>);

impl PartialEq for Opening {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What readers of a family see, borrowed without a contended counter: for use within one call.
pub(crate) type Loaded = arc_swap::Guard<Arc<SuperVersion>>;

/// One open family. Shared by handles, transactions and background work.
pub(crate) struct Family {
    pub(crate) id: FamilyId,
    pub(crate) order: KeyOrder,
    /// Which opening it belongs to, to refuse handles of another database.
    pub(crate) opening: Opening,
    settings: Settings,
    pub(crate) counters: FamilyCounters,
    name: Mutex<String>,
    current: ArcSwap<SuperVersion>,
    /// Serialises changes of `current`; held for the swap only.
    edit: Mutex<()>,
    dropped: AtomicBool,
    /// Set while its comparator is missing.
    is_deferred: AtomicBool,
    /// What it waits with meanwhile.
    deferred: Mutex<Option<Deferred>>,
    /// What running merges and installations hold.
    pub(crate) busy: Mutex<Busy>,
    /// Value files that are being emptied, see `vlog`.
    emptied: ArcSwap<BTreeSet<FileId>>,
    /// What value files take while something is to be done about them.
    pub(crate) value_room: ValueRoomCell,
    /// Set while merges are so far behind that writers are held back although nothing waits for a flush.
    pub(crate) is_behind: AtomicBool,
    /// That somebody read it, until the third flush from then ends: level 1 is merged later without.
    pub(crate) read: Lately<3>,
    /// Set while a flush still holds the memtable that it has put in place as tables: its memory is about to be free.
    pub(crate) is_giving_back: AtomicBool,
    /// Held by whoever puts another memtable in the place of a full one.
    pub(crate) rotating: Mutex<()>,
    /// How the family stood when it was settled last; see `background/settle`.
    pub(crate) settled: Mutex<Option<Settled>>,
    /// Tables with smaller ids were brought into the cache; see `background/warm`.
    warmed: AtomicU64,
    /// Nobody wrote to it for long when this was set; taken back by what is done then.
    rests: AtomicBool,
    /// Bytes that were flushed since level 1 was emptied at rest last, less what that has cost so far.
    rest_credit: AtomicU64,
    /// Of tables with smaller ids it was seen to that their values lie in order; see `vlog/order`.
    ordered: AtomicU64,
    /// Held by the one flush of this family that runs.
    pub(crate) flushing: Mutex<()>,
    /// Who is told of commits.
    pub(crate) hooks: Arc<hook::HookQueue>,
}

/// What settling a family goes by: as long as neither changes, doing it again is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The newest commit in it.
    pub(crate) newest: SeqNo,
    /// The oldest live snapshot.
    pub(crate) oldest_snapshot: Option<SeqNo>,
}

/// How a family is made.
pub(crate) struct FamilyParts {
    pub(crate) id: FamilyId,
    pub(crate) name: String,
    pub(crate) order: KeyOrder,
    pub(crate) options: FamilyOptions,
    pub(crate) opening: Opening,
    pub(crate) first: SuperVersion,
}

impl Family {
    pub(crate) fn new(parts: FamilyParts) -> Self {
        Self {
            id: parts.id,
            order: parts.order,
            opening: parts.opening,
            settings: Settings::new(parts.options),
            counters: FamilyCounters::default(),
            name: Mutex::new(parts.name),
            current: ArcSwap::from_pointee(parts.first),
            edit: Mutex::new(()),
            dropped: AtomicBool::new(false),
            is_deferred: AtomicBool::new(false),
            deferred: Mutex::new(None),
            busy: Mutex::default(),
            emptied: ArcSwap::default(),
            value_room: ValueRoomCell::default(),
            is_behind: AtomicBool::new(false),
            read: Lately::default(),
            is_giving_back: AtomicBool::new(false),
            rotating: Mutex::new(()),
            settled: Mutex::new(None),
            warmed: AtomicU64::new(0),
            rests: AtomicBool::new(false),
            rest_credit: AtomicU64::new(0),
            ordered: AtomicU64::new(0),
            flushing: Mutex::new(()),
            hooks: hook::HookQueue::new(),
        }
    }

    /// Tables with smaller ids were brought into the cache when the database was idle.
    pub(crate) fn warmed(&self) -> FileId {
        // Relaxed, here and below: what is warmed twice is in the cache already.
        FileId(self.warmed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_warmed(&self, below: FileId) {
        self.warmed.store(below.0, Ordering::Relaxed);
    }

    /// The database is idle.
    pub(crate) fn set_rests(&self) {
        // Relaxed, here and below: a hint.
        self.rests.store(true, Ordering::Relaxed);
    }

    /// Whether it was since this was asked last.
    pub(crate) fn take_rests(&self) -> bool {
        self.rests.swap(false, Ordering::Relaxed)
    }

    /// What emptying level 1 at rest may cost, in bytes that are merged below it, where it holds little.
    pub(crate) fn rest_credit(&self) -> u64 {
        // Relaxed, here and below: a measure of work, which nothing is read through.
        self.rest_credit.load(Ordering::Relaxed)
    }

    /// So many bytes were flushed.
    pub(crate) fn add_rest_credit(&self, bytes: u64) {
        self.rest_credit.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes below level 1 were merged at rest.
    pub(crate) fn use_rest_credit(&self, bytes: u64) {
        let less = |credit: u64| Some(credit.saturating_sub(bytes));
        // Never refused: the closure answers always.
        let _ = self
            .rest_credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The values of tables with smaller ids lie in order, as far as can be.
    pub(crate) fn ordered(&self) -> FileId {
        // Relaxed, here and below: what is looked at twice is in order already.
        FileId(self.ordered.load(Ordering::Relaxed))
    }

    pub(crate) fn set_ordered(&self, below: FileId) {
        self.ordered.store(below.0, Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    pub(crate) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.lock());
    }

    /// The settings as they are now; for use within one call.
    pub(crate) fn options(&self) -> arc_swap::Guard<Arc<FamilyOptions>> {
        self.settings.load()
    }

    /// When commits that touch the family are made durable.
    #[inline]
    pub(crate) fn sync_mode(&self) -> SyncMode {
        self.settings.sync_mode()
    }

    /// Bytes that writes leave free on the device.
    #[inline]
    pub(crate) fn disk_free_bytes_min(&self) -> u64 {
        self.settings.disk_free_bytes_min()
    }

    /// Puts `options` in force. The caller holds the manifest lock.
    pub(crate) fn set_options(&self, options: FamilyOptions) {
        self.settings.store(options);
    }

    /// What readers see now. Cheap; for use within one call.
    pub(crate) fn load(&self) -> Loaded {
        self.current.load()
    }

    /// What readers see now, to be kept.
    pub(crate) fn load_full(&self) -> Arc<SuperVersion> {
        self.current.load_full()
    }

    /// Replaces what readers see by what `change` makes of it.
    pub(crate) fn update(&self, change: impl FnOnce(&SuperVersion) -> SuperVersion) {
        let _serialised = self.edit.lock();
        let next = change(&self.current.load());
        self.current.store(Arc::new(next));
    }

    /// The value files that are being emptied: whoever writes tables copies the values that lie in them.
    pub(crate) fn emptied(&self) -> Arc<BTreeSet<FileId>> {
        self.emptied.load_full()
    }

    /// Says which value files are being emptied from now on.
    pub(crate) fn set_emptied(&self, files: BTreeSet<FileId>) {
        if *self.emptied() != files {
            self.emptied.store(Arc::new(files));
        }
    }

    /// True once the family was dropped; nothing is written to it any more.
    pub(crate) fn is_dropped(&self) -> bool {
        // Acquire: pairs with `set_dropped`.
        self.dropped.load(Ordering::Acquire)
    }

    /// True while its comparator is missing: nothing in it can be read or written.
    pub(crate) fn is_deferred(&self) -> bool {
        // Acquire: pairs with `undefer`, so that the tables are there.
        self.is_deferred.load(Ordering::Acquire)
    }

    /// What it waits with, while it is deferred.
    pub(crate) fn deferred(&self) -> Option<Deferred> {
        self.deferred.lock().clone()
    }

    pub(crate) fn defer(&self, deferred: Deferred) {
        *self.deferred.lock() = Some(deferred);
        self.is_deferred.store(true, Ordering::Release);
    }

    /// It can be used from now on.
    pub(crate) fn undefer(&self) {
        // Release: pairs with `is_deferred`.
        self.is_deferred.store(false, Ordering::Release);
        *self.deferred.lock() = None;
    }

    pub(crate) fn set_dropped(&self) {
        // Release: pairs with `is_dropped`.
        self.dropped.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("id", &self.id)
            .field("name", &self.name())
            .finish()
    }
}

/// A handle to a column family: cheap to clone, shared freely between threads. It stays valid until the family is
/// dropped or the database is closed; calls then answer [`NotFound`](crate::ErrorKind::NotFound) or
/// [`Closed`](crate::ErrorKind::Closed).
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, ErrorKind, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let drafts = db.create_family("drafts", FamilyOptions::default())?;
/// db.rename_family("drafts", "letters")?;
/// assert_eq!(drafts.name(), "letters");
/// db.drop_family("letters")?;
/// let error = db.put(&drafts, b"key", b"value").expect_err("it is gone");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ColumnFamily {
    pub(crate) family: Arc<Family>,
}

impl ColumnFamily {
    /// The family's name now; a rename changes it for all handles.
    #[must_use]
    pub fn name(&self) -> String {
        self.family.name()
    }

    /// The family's settings now; [`Db::update_family_options`](crate::Db::update_family_options) changes them for all
    /// handles.
    #[must_use]
    pub fn options(&self) -> FamilyOptions {
        (**self.family.options()).clone()
    }
}
