//! A step second by second.
//!
//! Each thread counts into a histogram of its own for each kind of operation and hands it over when its second is over, so
//! threads meet here once a second. A second is summed up for good when later ones have come in for a while, each kind and
//! all together; what comes in even later (from a thread whose next call hung for so long) adds to count and maximum only.
//! The latency of a call shows in the second in which it ended. A second in which none did has a point too, with 0
//! operations: every kind has points from the beginning to the end of the step.
//!
//! Memory: some 40 KiB for each histogram, which are those of the threads, and of each kind in the last [`OPEN_SECONDS`];
//! then some 60 bytes for each second and kind.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use hdrhistogram::Histogram;

use super::tally::LATENCY_NANOS_MAX;
use crate::{OperationKind, TimelinePoint};

/// Latencies of a second are off by 1 % at most.
const DIGITS: u8 = 2;
/// Seconds after which a second is summed up.
const OPEN_SECONDS: u64 = 30;

/// One second of one kind.
struct Second {
    histogram: Histogram<u64>,
    /// The slowest call: a histogram knows the bounds of its buckets only.
    nanos_max: u64,
    operations: u64,
}

impl Second {
    /// Nothing yet; `None` would need bounds that no histogram can have.
    fn new() -> Option<Self> {
        Some(Self {
            histogram: Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS).ok()?,
            nanos_max: 0,
            operations: 0,
        })
    }

    fn record(&mut self, operations: u64, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.nanos_max = self.nanos_max.max(nanos);
        self.operations += operations;
    }

    fn add(&mut self, other: &Self) {
        // Adding fails only for a histogram with other bounds, and all have the same.
        let _ = self.histogram.add(&other.histogram);
        self.nanos_max = self.nanos_max.max(other.nanos_max);
        self.operations += other.operations;
    }

    /// The second as it is told, which is that with this number from 0.
    fn point(&self, number: u64) -> TimelinePoint {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile| {
            let nanos = self.histogram.value_at_quantile(quantile);
            micros(nanos.min(self.nanos_max))
        };
        TimelinePoint {
            second: (number + 1) as f64,
            ops: self.operations,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            max_us: micros(self.nanos_max),
        }
    }
}

/// What came in, second by second; a second is in one of both.
#[derive(Default)]
struct Collected {
    /// When the last call ended.
    end: Option<Instant>,
    open: BTreeMap<u64, Vec<(OperationKind, Second)>>,
    /// Each kind, and [`OperationKind::All`].
    closed: BTreeMap<u64, Vec<(OperationKind, TimelinePoint)>>,
}

/// The time line of a step, or nothing when none is asked for.
pub(super) struct Timeline {
    start: Option<Instant>,
    collected: Mutex<Collected>,
}

/// What a thread has counted in the second that runs.
#[derive(Default)]
pub(super) struct CurrentSecond {
    number: u64,
    /// When its last call ended.
    end: Option<Instant>,
    kinds: Vec<(OperationKind, Second)>,
}

impl Timeline {
    /// A time line that begins at `start`.
    pub(super) fn new(start: Option<Instant>) -> Self {
        Self {
            start,
            collected: Mutex::default(),
        }
    }

    /// Enters a call that ended at `end`.
    pub(super) fn record(
        &self,
        current: &mut CurrentSecond,
        kind: OperationKind,
        operations: u64,
        (end, nanos): (Instant, u64),
    ) {
        let Some(start) = self.start else {
            return;
        };
        let number = end.saturating_duration_since(start).as_secs();
        current.end = current.end.max(Some(end));
        if number != current.number {
            self.hand_over(current);
            current.number = number;
        }
        if let Some(second) = of_kind(&mut current.kinds, kind) {
            second.record(operations, nanos);
            return;
        }
        if let Some(mut second) = Second::new() {
            second.record(operations, nanos);
            current.kinds.push((kind, second));
        }
    }

    /// Hands over what the thread has counted.
    pub(super) fn hand_over(&self, current: &mut CurrentSecond) {
        if current.kinds.is_empty() {
            return;
        }
        let mut collected = self.lock();
        collected.end = collected.end.max(current.end);
        for (kind, second) in current.kinds.drain(..) {
            collected.add(current.number, kind, second);
        }
        collected.close_before(current.number.saturating_sub(OPEN_SECONDS));
    }

    /// The seconds of `kind`, in order, those without operations among them; of [`OperationKind::All`], of all kinds
    /// together. The last one ends with the last call, so that its operations divided by its length are a rate.
    pub(super) fn points(&self, kind: OperationKind) -> Vec<TimelinePoint> {
        let mut collected = self.lock();
        collected.close_before(u64::MAX);
        let (Some(start), Some(end)) = (self.start, collected.end) else {
            return Vec::new();
        };
        let end = end.saturating_duration_since(start);
        let point = |number: u64| {
            let second = (number + 1) as f64;
            let points = collected.closed.get(&number);
            let found = points.and_then(|points| points.iter().find(|(other, _)| *other == kind));
            TimelinePoint {
                second: second.min(end.as_secs_f64()),
                ..found.map(|(_, point)| point.clone()).unwrap_or_default()
            }
        };
        (0..=end.as_secs()).map(point).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        // A thread that panicked while it had the lock left at worst a second uncounted.
        self.collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_kind<T>(kinds: &mut [(OperationKind, T)], kind: OperationKind) -> Option<&mut T> {
    let found = kinds.iter_mut().find(|(other, _)| *other == kind);
    found.map(|(_, of_kind)| of_kind)
}

impl Collected {
    fn add(&mut self, number: u64, kind: OperationKind, second: Second) {
        if let Some(points) = self.closed.get_mut(&number) {
            for kind in [kind, OperationKind::All] {
                match of_kind(points, kind) {
                    Some(point) => {
                        point.ops += second.operations;
                        point.max_us = point.max_us.max(second.nanos_max as f64 / 1000.0);
                    }
                    None => points.push((kind, second.point(number))),
                }
            }
            return;
        }
        let kinds = self.open.entry(number).or_default();
        match of_kind(kinds, kind) {
            Some(open) => open.add(&second),
            None => kinds.push((kind, second)),
        }
    }

    fn close_before(&mut self, number: u64) {
        while let Some(entry) = self.open.first_entry() {
            if *entry.key() >= number {
                break;
            }
            let (number, kinds) = entry.remove_entry();
            let mut points: Vec<_> = kinds
                .iter()
                .map(|(kind, second)| (*kind, second.point(number)))
                .collect();
            let all = kinds.into_iter().map(|(_, second)| second);
            let all = all.reduce(|mut all, second| {
                all.add(&second);
                all
            });
            points.extend(all.map(|all| (OperationKind::All, all.point(number))));
            self.closed.insert(number, points);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn calls_are_counted_in_the_second_in_which_they_end() {
        let start = Instant::now();
        let timeline = Timeline::new(Some(start));
        let mut threads = [CurrentSecond::default(), CurrentSecond::default()];
        for tenth in 0..1000 {
            let end = start + Duration::from_millis(tenth * 100);
            for thread in &mut threads {
                timeline.record(thread, OperationKind::Put, 10, (end, 1000 * (tenth + 1)));
            }
        }
        // One that was due long ago.
        timeline.record(&mut threads[0], OperationKind::Put, 1, (start, 50_000_000));
        for thread in &mut threads {
            timeline.hand_over(thread);
        }
        let points = timeline.points(OperationKind::Put);
        assert_eq!(points.len(), 100);
        assert_eq!(points[0].ops, 201);
        assert!(points[1..].iter().all(|point| point.ops == 200));
        assert!((points[98].second - 99.0).abs() < 1e-9);
        assert!((points[99].second - 99.9).abs() < 1e-9, "{:?}", points[99]);
        assert!(points[50].p50_us > points[49].p50_us);
        assert_eq!(points[0].max_us.to_string(), "50000");
        let others = timeline.points(OperationKind::Get);
        assert!(others.iter().all(|point| point.ops == 0), "{others:?}");
    }

    /// Goal: a stall is no gap in the time line, and its call is as slow as it was. Method: a call in the first second, and
    /// one that ends 41 s later, when the first is closed.
    #[test]
    fn seconds_in_which_nothing_ended_have_points() {
        let start = Instant::now();
        let timeline = Timeline::new(Some(start));
        let mut thread = CurrentSecond::default();
        let at = |thread: &mut CurrentSecond, millis, nanos| {
            let end = start + Duration::from_millis(millis);
            timeline.record(thread, OperationKind::Put, 10, (end, nanos));
        };
        at(&mut thread, 100, 1_234_567);
        let mut late = CurrentSecond::default();
        at(&mut late, 200, 7_654_321);
        at(&mut thread, 41_500, 41_400_000_001);
        timeline.hand_over(&mut thread);
        timeline.hand_over(&mut late);
        let points = timeline.points(OperationKind::Put);
        let told = |point: &TimelinePoint| (point.second, point.ops, point.max_us);
        assert_eq!(points.len(), 42);
        assert_eq!(told(&points[0]), (1.0, 20, 7654.321));
        for (number, point) in points.iter().enumerate().take(41).skip(1) {
            let expected = TimelinePoint {
                second: (number + 1) as f64,
                ..TimelinePoint::default()
            };
            assert_eq!(*point, expected);
        }
        assert_eq!(told(&points[41]), (41.5, 10, 41_400_000.001));
        assert_eq!(points[41].p50_us.to_string(), "41400000.001");
    }

    #[test]
    fn all_kinds_together_have_a_time_line_of_their_own() {
        let start = Instant::now();
        let timeline = Timeline::new(Some(start));
        let mut threads = [CurrentSecond::default(), CurrentSecond::default()];
        let end = |millis| start + Duration::from_millis(millis);
        for call in 0..100 {
            for thread in &mut threads {
                let fast = (end(call), 1000);
                timeline.record(thread, OperationKind::Get, 1, fast);
            }
        }
        // Of 300 calls a third is slow: the median is that of reads, not the mean of both medians.
        for call in 0..100 {
            let slow = (end(100 + call), 5_000_000);
            timeline.record(&mut threads[0], OperationKind::Put, 7, slow);
        }
        timeline.record(&mut threads[1], OperationKind::Get, 1, (end(1500), 2000));
        for thread in &mut threads {
            timeline.hand_over(thread);
        }
        let points = timeline.points(OperationKind::All);
        assert_eq!(points.len(), 2);
        assert_eq!((points[0].ops, points[1].ops), (900, 1));
        assert!((points[0].p50_us - 1.0).abs() < 0.02, "{points:?}");
        assert_eq!(points[0].p99_us.to_string(), "5000");
        assert_eq!(points[1].max_us.to_string(), "2");
        let puts = timeline.points(OperationKind::Put);
        assert_eq!((puts[0].ops, puts[1].ops), (700, 0));
    }

    #[test]
    fn nobody_asked_nothing_is_kept() {
        let timeline = Timeline::new(None);
        let mut current = CurrentSecond::default();
        timeline.record(&mut current, OperationKind::Put, 1, (Instant::now(), 1));
        timeline.hand_over(&mut current);
        assert!(timeline.points(OperationKind::Put).is_empty());
    }
}
