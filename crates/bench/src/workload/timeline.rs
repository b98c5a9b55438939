//! A step second by second.
//!
//! Each thread counts into a histogram of its own and hands it over when its second is over, so threads meet here once
//! a second. A second is summed up for good when later ones have come in for a while; what comes in even later (a call
//! that hung for so long) adds to its count and its maximum only, and its latency shows where it belongs: in the second
//! in which it ended.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
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
    operations: u64,
}

#[derive(Default)]
struct Collected {
    /// When the last call ended.
    end: Option<Instant>,
    open: BTreeMap<(u64, OperationKind), Second>,
    closed: BTreeMap<(u64, OperationKind), TimelinePoint>,
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
        let place = match current.kinds.iter().position(|(other, _)| *other == kind) {
            Some(place) => place,
            None => {
                let Ok(histogram) = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS) else {
                    return;
                };
                let second = Second {
                    histogram,
                    operations: 0,
                };
                current.kinds.push((kind, second));
                current.kinds.len() - 1
            }
        };
        let second = &mut current.kinds[place].1;
        second.operations += operations;
        second.histogram.saturating_record(nanos);
    }

    /// Hands over what the thread has counted.
    pub(super) fn hand_over(&self, current: &mut CurrentSecond) {
        if current.kinds.is_empty() {
            return;
        }
        // A thread that panicked in here left at worst a second uncounted.
        let mut collected = self
            .collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        collected.end = collected.end.max(current.end);
        for (kind, second) in current.kinds.drain(..) {
            collected.add((current.number, kind), second);
        }
        collected.close_before(current.number.saturating_sub(OPEN_SECONDS));
    }

    /// The seconds of `kind`, in order. The last one is as long as there were calls, so that its rate is one.
    pub(super) fn points(&self, kind: OperationKind) -> Vec<TimelinePoint> {
        let mut collected = self
            .collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        collected.close_before(u64::MAX);
        let end = match (self.start, collected.end) {
            (Some(start), Some(end)) => end.saturating_duration_since(start).as_secs_f64(),
            _ => f64::INFINITY,
        };
        let points = collected.closed.iter();
        points
            .filter(|((_, other), _)| *other == kind)
            .map(|(_, point)| TimelinePoint {
                second: point.second.min(end),
                ..point.clone()
            })
            .collect()
    }
}

impl Collected {
    fn add(&mut self, at: (u64, OperationKind), second: Second) {
        if let Some(point) = self.closed.get_mut(&at) {
            point.ops += second.operations;
            point.max_us = point.max_us.max(second.histogram.max() as f64 / 1000.0);
            return;
        }
        match self.open.get_mut(&at) {
            Some(open) => {
                // Adding fails only for a histogram with other bounds, and all have the same.
                let _ = open.histogram.add(&second.histogram);
                open.operations += second.operations;
            }
            None => {
                self.open.insert(at, second);
            }
        }
    }

    fn close_before(&mut self, number: u64) {
        while let Some(entry) = self.open.first_entry() {
            if entry.key().0 >= number {
                break;
            }
            let (at, second) = entry.remove_entry();
            let micros = |quantile| second.histogram.value_at_quantile(quantile) as f64 / 1000.0;
            let point = TimelinePoint {
                second: (at.0 + 1) as f64,
                ops: second.operations,
                p50_us: micros(0.5),
                p99_us: micros(0.99),
                p99_9_us: micros(0.999),
                max_us: second.histogram.max() as f64 / 1000.0,
            };
            self.closed.insert(at, point);
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
        assert!(points[0].max_us >= 49_000.0, "{:?}", points[0]);
        assert!(timeline.points(OperationKind::Get).is_empty());
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
