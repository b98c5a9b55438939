//! What one thread has counted, and the sum over threads.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::timeline::Timeline;
use crate::{BenchError, LatencyNanos, OperationKind, OperationReport, Result};

// Three significant digits are kept, so a latency is off by 0.1 % at most.
const HISTOGRAM_DIGITS: u8 = 3;
// An hour; a slower call counts as this.
pub(super) const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

/// The calls of one kind.
struct KindTally {
    kind: OperationKind,
    histogram: Histogram<u64>,
    /// The fastest call; of none, the longest time there is.
    nanos_min: u64,
    nanos_max: u64,
    in_calls: Duration,
    operations: u64,
    /// Threads that made such calls.
    threads: u64,
}

impl KindTally {
    fn new(kind: OperationKind) -> Result<Self> {
        Ok(Self {
            kind,
            histogram: histogram()?,
            nanos_min: u64::MAX,
            nanos_max: 0,
            in_calls: Duration::ZERO,
            operations: 0,
            threads: 0,
        })
    }

    /// Enters `calls` calls of one thread, each of which took `nanos`.
    fn record(&mut self, nanos: u64, calls: u64) {
        self.threads = 1;
        self.histogram.saturating_record_n(nanos, calls);
        self.nanos_min = self.nanos_min.min(nanos);
        self.nanos_max = self.nanos_max.max(nanos);
    }

    fn add(&mut self, other: &Self) {
        // Adding fails only for a histogram with other bounds, and all have the same.
        let _ = self.histogram.add(&other.histogram);
        self.nanos_min = self.nanos_min.min(other.nanos_min);
        self.nanos_max = self.nanos_max.max(other.nanos_max);
        self.in_calls += other.in_calls;
        self.operations += other.operations;
        self.threads += other.threads;
    }
}

/// When a call was due and when it was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallStart {
    pub(super) due: Instant,
    pub(super) begun: Instant,
}

/// Counts, times and latencies.
#[derive(Default)]
pub(super) struct Tally {
    kinds: Vec<KindTally>,
    pub(super) bytes_written: u64,
    pub(super) bytes_read: u64,
    pub(super) missing: u64,
    pub(super) wrong: u64,
}

impl Tally {
    /// Enters a call of `operations` operations that has just ended; answers when that was and its latency.
    pub(super) fn record(
        &mut self,
        kind: OperationKind,
        operations: u64,
        start: CallStart,
    ) -> Result<(Instant, u64)> {
        let end = Instant::now();
        let nanos = self.record_until(end, kind, operations, start)?;
        Ok((end, nanos))
    }

    /// Enters a call that ended at `end`; answers its latency.
    fn record_until(
        &mut self,
        end: Instant,
        kind: OperationKind,
        operations: u64,
        start: CallStart,
    ) -> Result<u64> {
        let nanos = nanos(end.saturating_duration_since(start.due));
        let tally = self.kind(kind)?;
        tally.in_calls += end.saturating_duration_since(start.begun);
        tally.operations += operations;
        tally.record(nanos, 1);
        Ok(nanos)
    }

    /// Enters a call that visited `entries` entries, each of which counts as a call of its own.
    pub(super) fn record_each(
        &mut self,
        kind: OperationKind,
        entries: u64,
        elapsed: Duration,
    ) -> Result<()> {
        let tally = self.kind(kind)?;
        tally.in_calls += elapsed;
        tally.operations += entries;
        if let Some(each) = nanos(elapsed).checked_div(entries) {
            tally.record(each.max(1), entries);
        }
        Ok(())
    }

    fn kind(&mut self, kind: OperationKind) -> Result<&mut KindTally> {
        let place = match self.kinds.iter().position(|tally| tally.kind == kind) {
            Some(place) => place,
            None => {
                self.kinds.push(KindTally::new(kind)?);
                self.kinds.len() - 1
            }
        };
        Ok(&mut self.kinds[place])
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        for theirs in &other.kinds {
            self.kind(theirs.kind)?.add(theirs);
        }
        self.bytes_written += other.bytes_written;
        self.bytes_read += other.bytes_read;
        self.missing += other.missing;
        self.wrong += other.wrong;
        Ok(())
    }

    /// One report for each kind, and one for all when there are several. Times are averaged over the threads that made such calls:
    /// there may be fewer calls than threads.
    pub(super) fn reports(&self, timeline: &Timeline) -> Vec<OperationReport> {
        let report = |tally: &KindTally| OperationReport {
            kind: tally.kind,
            operations: tally.operations,
            calls: tally.histogram.len(),
            call_seconds: tally.in_calls.as_secs_f64() / tally.threads.max(1) as f64,
            latency: LatencyNanos::of(&tally.histogram, tally.nanos_min, tally.nanos_max),
            timeline: timeline.points(tally.kind),
        };
        let mut reports: Vec<OperationReport> = self.kinds.iter().map(report).collect();
        if self.kinds.len() > 1
            && let Ok(mut all) = KindTally::new(OperationKind::All)
        {
            for tally in &self.kinds {
                all.add(tally);
            }
            // They are the same ones.
            let threads = self.kinds.iter().map(|tally| tally.threads);
            all.threads = threads.max().unwrap_or(0);
            reports.push(report(&all));
        }
        reports
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, HISTOGRAM_DIGITS)
        .map_err(|source| BenchError::Settings(format!("histogram: {source}")))
}

fn nanos(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_added_up_over_threads() {
        let mut total = Tally::default();
        let begun = Instant::now();
        let start = CallStart { due: begun, begun };
        for _ in 0..2 {
            let mut tally = Tally::default();
            let end = begun + Duration::from_micros(100);
            let nanos = tally
                .record_until(end, OperationKind::Put, 10, start)
                .expect("bounds are good");
            assert_eq!(nanos, 100_000);
            let each = Duration::from_micros(100);
            tally
                .record_each(OperationKind::Iter, 100, each)
                .expect("bounds are good");
            tally
                .record_each(OperationKind::Iter, 0, each)
                .expect("bounds are good");
            tally.missing = 1;
            total.add(&tally).expect("bounds are good");
        }
        let reports = total.reports(&Timeline::new(None));
        let found: Vec<_> = reports
            .iter()
            .map(|report| (report.kind, report.operations, report.calls))
            .collect();
        assert_eq!(
            found,
            [
                (OperationKind::Put, 20, 2),
                (OperationKind::Iter, 200, 200),
                (OperationKind::All, 220, 202),
            ]
        );
        assert_eq!(total.missing, 2);
        assert_eq!(reports[1].latency.p50, 1000);
        // Exactly, though a histogram answers the bounds of its buckets.
        let latency = &reports[0].latency;
        assert_eq!(
            (latency.min, latency.p50, latency.max),
            (100_000, 100_000, 100_000)
        );
        let all = &reports[2].latency;
        assert_eq!((all.min, all.max), (1000, 100_000));
        assert!((reports[0].call_seconds - 100e-6).abs() < 1e-9);
        assert!((reports[1].call_seconds - 200e-6).abs() < 1e-9);
        // A third thread came too late for any.
        total.add(&Tally::default()).expect("bounds are good");
        let reports = total.reports(&Timeline::new(None));
        assert!((reports[0].call_seconds - 100e-6).abs() < 1e-9);
        assert!((reports[2].call_seconds - 300e-6).abs() < 1e-9);
    }

    #[test]
    fn a_late_call_is_slow_but_not_more_work() {
        let due = Instant::now();
        let begun = due + Duration::from_secs(5);
        let mut tally = Tally::default();
        tally
            .record_until(
                begun + Duration::from_secs(1),
                OperationKind::Get,
                1,
                CallStart { due, begun },
            )
            .expect("bounds are good");
        let reports = tally.reports(&Timeline::new(None));
        assert_eq!(reports[0].latency.max, 6_000_000_000);
        assert!((reports[0].call_seconds - 1.0).abs() < 1e-9);
    }
}
