//! Bugs that are planted on purpose: the tests are tested by them. Under `--cfg simulated` one of them can be switched
//! on at a time, for the whole process; in every other build [`is`] is the constant `false` and nothing is left of them.
//!
//! `kingtide-sim zoo` plants one after the other and shows which part of the proofs catches it.

/// Declares the bugs, in the order of their numbers.
macro_rules! bugs {
    ($($bug:ident, $text:literal;)*) => {
        /// A bug of a class that storage engines are known for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Bug {
            $(#[doc = $text] $bug,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$bug => stringify!($bug),)* }
            }

            /// What goes wrong, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$bug => $text,)* }
            }
        }
    };
}

bugs! {
    AcknowledgedWithoutSync, "a commit in mode full is acknowledged without a sync";
    AcknowledgedInvisible, "a commit is acknowledged as durable before readers see it";
    OldSegmentNotSynced, "a sync covers the newest segment of the log alone";
    ReplayAcrossHole, "replay goes on behind a damaged frame";
    ReplayStopsAtSegment, "replay does not go on in the next segment";
    RecordPartLost, "the first part of a long record is lost in replay";
    SegmentRetiredEarly, "a segment of the log is given up one too early";
    FlushedTooFar, "a flush notes newer commits as flushed than it wrote";
    LogStartTooFar, "the log is taken to begin behind what other memtables need";
    SequenceReused, "a sequence number is given twice after recovery";
    LogNotSyncedBeforeFlush, "a table outlives the other half of its transaction";
    TableNotSynced, "a table is installed without being synced";
    DirectoryNotSynced, "the directory of the tables is not synced";
    FlushFailureForgotten, "a failed flush counts as done";
    EntryLost, "one in fifty entries is not written by flushes and merges";
    ManifestNotSynced, "an edit of the manifest is not synced";
    ManifestRenameNotSynced, "a new manifest takes over without a sync of the directory";
    RemovedBeforeInstalled, "the inputs of a merge are removed before the manifest knows";
    InputLeft, "a merge leaves the deepest of its inputs in place";
    TombstoneDroppedEarly, "a tombstone is dropped although older versions lie below";
    SnapshotForgotten, "a merge drops versions that a snapshot sees";
    SingleDeleteTrusted, "a single delete is dropped with no look at what lies below";
    RangeDeleteForgotten, "a merge forgets range deletes";
    RangeDeleteHidesNewer, "a range delete hides what was written after it";
    ExpiredUncovers, "an expired entry is dropped and uncovers an older one";
    FilterForgetsKey, "a filter denies keys that are there";
    CacheMixesFiles, "the cache hands out blocks of another table";
    SealedNotRead, "reads pass over sealed memtables";
    IteratorSkips, "an iterator skips an entry where it changes direction";
    SnapshotSeesUnfinished, "a snapshot includes a commit that is under way";
    FirstCommitterIgnored, "two transactions that write one key both commit";
    ReadNotChecked, "what a transaction read is not checked at its commit";
    RangeNotChecked, "a phantom appears in a range that a serializable transaction read";
    MissNotChecked, "a key that was not found is not checked at the commit";
    CheckedTooEarly, "commits between the check and the commit are not looked at";
    PreparedLocksForgotten, "the locks of a prepared transaction are lost in recovery";
    PreparedLost, "the log gives up the record of a prepared transaction";
}

#[cfg(simulated)]
static PLANTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(u32::MAX);

/// True when `bug` is planted.
#[inline(always)]
#[must_use]
pub fn is(bug: Bug) -> bool {
    #[cfg(simulated)]
    {
        // Relaxed: set before the threads that look at it are started.
        PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u32
    }
    #[cfg(not(simulated))]
    {
        let _ = bug;
        false
    }
}

/// Plants `bug` in the place of the one before; `None` takes it out.
#[cfg(simulated)]
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(u32::MAX, |bug| bug as u32);
    PLANTED.store(number, std::sync::atomic::Ordering::Relaxed);
}
