//! An event as a line for people.

use std::fmt;

use super::Event;

/// Microseconds in a millisecond, and in a second.
const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { .. } | Self::Closed { .. } => self.write_opening(f),
            Self::MemtableSealed { family, bytes } => {
                write!(f, "memtable of {family:?} sealed: {bytes} bytes")
            }
            Self::FlushBegin { family, bytes } => {
                write!(f, "flush of {family:?} begins: {bytes} bytes in memory")
            }
            Self::FlushEnd {
                family,
                tables,
                bytes,
                micros,
            } => write!(
                f,
                "flush of {family:?} ends: {tables} tables, {bytes} bytes, {}",
                Took(*micros)
            ),
            Self::FlushGivenUp { family } => write!(f, "flush of {family:?} given up"),
            Self::MergeBegin { .. } | Self::MergeEnd { .. } | Self::MergeGivenUp { .. } => {
                self.write_merge(f)
            }
            Self::StallBegin { .. }
            | Self::StallEnd { .. }
            | Self::MemoryWaited { .. }
            | Self::WriterDelayed { .. } => self.write_wait(f),
            Self::LogSynced { micros } => write!(f, "log synced in {}", Took(*micros)),
            Self::LogSyncSlow { micros } => write!(f, "a sync of the log took {}", Took(*micros)),
            Self::LogSyncFailed { message } => {
                write!(
                    f,
                    "a sync of the log failed, writing has stopped: {message}"
                )
            }
            Self::BackgroundError {
                work,
                family,
                message,
            } => write!(
                f,
                "{work} of {family:?} failed and is tried again: {message}"
            ),
            Self::FileRemoved { file } => write!(f, "removed {file}"),
            Self::CopyMade {
                sequence,
                files_linked,
                files_written,
                micros,
            } => write!(
                f,
                "copy as of commit {sequence} made: {files_linked} files linked, {files_written} written, {}",
                Took(*micros)
            ),
            Self::ComparatorRegistered { name, families } => {
                write!(
                    f,
                    "comparator {name:?} registered, {families} families opened"
                )
            }
            Self::Message { text, .. } => f.write_str(text),
            Self::Lost { count } => write!(f, "{count} events were not told"),
        }
    }
}

impl Event {
    fn write_wait(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StallBegin { family } => write!(f, "a writer to {family:?} waits for a flush"),
            Self::StallEnd { family, micros } => {
                write!(f, "a writer to {family:?} waited {}", Took(*micros))
            }
            Self::MemoryWaited { micros } => {
                write!(f, "a writer waited {} for memory", Took(*micros))
            }
            Self::WriterDelayed { micros } => {
                write!(f, "a writer was held back for {}", Took(*micros))
            }
            _ => Ok(()),
        }
    }

    fn write_opening(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened {
                families,
                tables,
                recovered_tables,
                sequence,
                is_read_only,
            } => {
                let how = if *is_read_only { " for reading" } else { "" };
                write!(
                    f,
                    "opened{how} at commit {sequence}: {families} families, {tables} tables, \
                     {recovered_tables} of them recovered"
                )
            }
            Self::Closed {
                failure: Some(failure),
            } => write!(f, "closed with a failure: {failure}"),
            _ => f.write_str("closed"),
        }
    }

    fn write_merge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MergeBegin {
                family,
                tables,
                bytes,
                target_level,
            } => write!(
                f,
                "merge of {family:?} to level {target_level} begins: {tables} tables, {bytes} bytes"
            ),
            Self::MergeEnd {
                family,
                tables,
                bytes,
                target_level,
                micros,
            } => write!(
                f,
                "merge of {family:?} to level {target_level} ends: {tables} tables, {bytes} bytes, {}",
                Took(*micros)
            ),
            Self::MergeGivenUp { family } => write!(f, "merge of {family:?} given up"),
            _ => Ok(()),
        }
    }
}

/// A duration in microseconds.
struct Took(u64);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            micros if micros < MILLI => write!(f, "{micros} us"),
            micros if micros < SECOND => {
                write!(f, "{}.{} ms", micros / MILLI, micros % MILLI / 100)
            }
            micros => write!(f, "{}.{} s", micros / SECOND, micros % SECOND / 100_000),
        }
    }
}

/// A moment in microseconds since 1970, in UTC, as RFC 3339 writes it.
pub(super) struct Utc(pub(super) u64);

impl fmt::Display for Utc {
    /// The date by counting in eras of 400 years that begin in March, so that the leap day is the last of its year.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS_PER_ERA: u64 = 146_097;
        const DAYS_TO_1970: u64 = 719_468;
        let seconds = self.0 / SECOND;
        let days = seconds / 86_400 + DAYS_TO_1970;
        let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let of_day = seconds % 86_400;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let micros = self.0 % SECOND;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        )
    }
}
