//! Work whose begin and end are events: what is dropped before its end was given up.

use super::Engine;
use crate::events::Event;

/// Nanoseconds in a microsecond.
const NANOS_PER_MICRO: u64 = 1_000;

/// See the module.
pub(crate) struct Watch<'a> {
    engine: &'a Engine,
    begun_nanos: u64,
    given_up: Option<Event>,
}

impl<'a> Watch<'a> {
    /// The work begins. `given_up` is told if it does not come to its end.
    pub(crate) fn begin(
        engine: &'a Engine,
        begin: impl FnOnce() -> Event,
        given_up: impl FnOnce() -> Event,
    ) -> Self {
        if !engine.events.is_on() {
            return Self {
                engine,
                begun_nanos: 0,
                given_up: None,
            };
        }
        engine.events.emit(begin);
        Self {
            engine,
            begun_nanos: engine.env.monotonic_nanos(),
            given_up: Some(given_up()),
        }
    }

    /// The work is done; `end` gets the time that it took, in microseconds.
    pub(crate) fn end(mut self, end: impl FnOnce(u64) -> Event) {
        if self.given_up.take().is_some() {
            let nanos = self.engine.env.monotonic_nanos();
            let micros = nanos.saturating_sub(self.begun_nanos) / NANOS_PER_MICRO;
            self.engine.events.emit(|| end(micros));
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.given_up.take() {
            self.engine.events.emit(|| event);
        }
    }
}
