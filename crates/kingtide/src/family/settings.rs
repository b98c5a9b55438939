//! The settings of an open family, which change while it is in use.
//!
//! Flushes, merges and seals read them as a whole, once for each piece of work, so that none sees half of a change. A
//! commit reads two of them, the sync mode and the room to leave on the device, which therefore stand beside the whole as
//! numbers of their own: commits pay for one load each, as if settings could not change.

use std::{sync::Arc, time::Duration};

use arc_swap::{ArcSwap, Guard};
use kingtide_env::sync::atomic::{AtomicU64, Ordering};

use crate::options::{FamilyOptions, SyncMode};

/// The number of [`SyncMode::None`].
const NONE: u64 = 0;
/// The number of [`SyncMode::Full`]; all between are intervals in nanoseconds.
const FULL: u64 = u64::MAX;

/// See the module.
pub(crate) struct Settings {
    whole: ArcSwap<FamilyOptions>,
    sync: AtomicU64,
    disk_free_bytes_min: AtomicU64,
}

impl Settings {
    pub(super) fn new(options: FamilyOptions) -> Self {
        Self {
            sync: AtomicU64::new(number_of(options.sync)),
            disk_free_bytes_min: AtomicU64::new(options.disk_free_bytes_min),
            whole: ArcSwap::from_pointee(options),
        }
    }

    /// All settings as they are now; for use within one call.
    pub(super) fn load(&self) -> Guard<Arc<FamilyOptions>> {
        self.whole.load()
    }

    /// When commits are made durable.
    pub(super) fn sync_mode(&self) -> SyncMode {
        // Relaxed: a commit that runs beside the change may follow either mode.
        match self.sync.load(Ordering::Relaxed) {
            NONE => SyncMode::None,
            FULL => SyncMode::Full,
            nanos => SyncMode::Interval(Duration::from_nanos(nanos)),
        }
    }

    /// Bytes that writes leave free on the device.
    #[inline]
    pub(super) fn disk_free_bytes_min(&self) -> u64 {
        // Relaxed: as in `sync_mode`.
        self.disk_free_bytes_min.load(Ordering::Relaxed)
    }

    /// Puts `options` in the place of all settings. The caller sees to it that two changes do not run at the same time.
    pub(super) fn store(&self, options: FamilyOptions) {
        // Relaxed: as in `sync_mode`.
        self.sync.store(number_of(options.sync), Ordering::Relaxed);
        self.disk_free_bytes_min
            .store(options.disk_free_bytes_min, Ordering::Relaxed);
        self.whole.store(Arc::new(options));
    }
}

fn number_of(mode: SyncMode) -> u64 {
    match mode {
        SyncMode::None => NONE,
        SyncMode::Interval(interval) => {
            u64::try_from(interval.as_nanos()).map_or(FULL - 1, |nanos| nanos.clamp(1, FULL - 1))
        }
        SyncMode::Full => FULL,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn the_sync_mode_is_that_of_the_settings() {
        let modes = [
            SyncMode::None,
            SyncMode::Interval(Duration::from_micros(1)),
            SyncMode::Interval(Duration::from_secs(3600)),
            SyncMode::Full,
        ];
        let settings = Settings::new(FamilyOptions::default());
        for mode in modes {
            settings.store(FamilyOptions {
                sync: mode,
                ..FamilyOptions::default()
            });
            assert_eq!(settings.sync_mode(), mode);
            assert_eq!(settings.load().sync, mode);
        }
        settings.store(FamilyOptions {
            sync: SyncMode::Interval(Duration::MAX),
            ..FamilyOptions::default()
        });
        assert!(matches!(settings.sync_mode(), SyncMode::Interval(_)));
    }
}
