//! Events: lines on standard error, and a function of the user.

use std::{
    ffi::{CString, c_char, c_int},
    io::Write as _,
    mem, ptr,
};

use kingtide::{Event, Listener, LogLevel};

use crate::{border::InHook, log::level_number, pointer::Context};

/// `kt_event_t`. Handed out by this library alone; it begins with its size so that it can grow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventRecord {
    size: usize,
    kind: c_int,
    level: c_int,
    unix_micros: u64,
    text: *const c_char,
    family: *const c_char,
    tables: u64,
    bytes: u64,
    micros: u64,
}

/// Is told of events.
pub type EventFn = Option<EventFunction>;

type EventFunction = unsafe extern "C" fn(*const EventRecord, Context);

/// Who is told what happens in a database.
pub(crate) struct Teller {
    /// Lines of this level and above go to standard error; none when `None`.
    pub(crate) standard_error: Option<LogLevel>,
    pub(crate) function: EventFn,
    pub(crate) context: Context,
}

impl Teller {
    /// True when anybody is told.
    pub(crate) fn is_needed(&self) -> bool {
        self.function.is_some()
            || self
                .standard_error
                .is_some_and(|level| level < LogLevel::None)
    }
}

impl Listener for Teller {
    fn event(&self, unix_micros: u64, event: &Event) {
        if self
            .standard_error
            .is_some_and(|level| event.level() >= level)
        {
            // Nobody is told when standard error is closed: there is nowhere to tell it.
            let _ = writeln!(
                std::io::stderr().lock(),
                "[{}] kingtide: {event}",
                event.level()
            );
        }
        let Some(function) = self.function else {
            return;
        };
        let text = c_text(&event.to_string());
        let facts = Facts::of(event);
        let family = facts.family.map(c_text);
        let record = EventRecord {
            size: mem::size_of::<EventRecord>(),
            kind: facts.kind,
            level: level_number(event.level()),
            unix_micros,
            text: text.as_ptr(),
            family: family
                .as_ref()
                .map_or(ptr::null(), |family| family.as_ptr()),
            tables: facts.tables as u64,
            bytes: facts.bytes,
            micros: facts.micros,
        };
        let _inside = InHook::enter();
        // SAFETY: the user gave a function of this signature; the record and its texts live for the call.
        unsafe { function(&raw const record, self.context) };
    }
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// What C is told of an event besides its text.
#[derive(Default)]
struct Facts<'a> {
    kind: c_int,
    family: Option<&'a str>,
    tables: usize,
    bytes: u64,
    micros: u64,
}

impl<'a> Facts<'a> {
    /// The numbers of kinds are those of `kt_event_kind_t`, and stay.
    fn of(event: &'a Event) -> Self {
        let kind = |kind| Self {
            kind,
            ..Self::default()
        };
        let about = |number, family: &'a String| Self {
            family: Some(family),
            ..kind(number)
        };
        match event {
            Event::Opened { tables, .. } => Self {
                tables: *tables,
                ..kind(1)
            },
            Event::Closed { .. } => kind(2),
            Event::MemtableSealed { family, bytes } => about(3, family).of_bytes(*bytes),
            Event::FlushBegin { family, bytes } => about(4, family).of_bytes(*bytes),
            Event::FlushEnd {
                family,
                tables,
                bytes,
                micros,
            } => about(5, family).of_work(*tables, *bytes, *micros),
            Event::FlushGivenUp { family } => about(6, family),
            Event::MergeBegin {
                family,
                tables,
                bytes,
                ..
            } => about(7, family).of_work(*tables, *bytes, 0),
            Event::MergeEnd {
                family,
                tables,
                bytes,
                micros,
                ..
            } => about(8, family).of_work(*tables, *bytes, *micros),
            Event::MergeGivenUp { family } => about(9, family),
            Event::StallBegin { family } => about(10, family),
            Event::StallEnd { family, micros } => about(11, family).of_work(0, 0, *micros),
            Event::LogSyncSlow { micros } => kind(12).of_work(0, 0, *micros),
            Event::LogSyncFailed { .. } => kind(13),
            Event::BackgroundError { family, .. } => about(14, family),
            Event::FileRemoved { .. } => kind(15),
            Event::CopyMade { micros, .. } => kind(16).of_work(0, 0, *micros),
            Event::ComparatorRegistered { .. } => kind(17),
            Event::Message { .. } => kind(18),
            Event::Lost { .. } => kind(19),
            Event::LogSynced { micros } => kind(20).of_work(0, 0, *micros),
            Event::MemoryWaited { micros } => kind(21).of_work(0, 0, *micros),
            Event::WriterDelayed { micros } => kind(22).of_work(0, 0, *micros),
            _ => kind(0),
        }
    }

    fn of_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    fn of_work(self, tables: usize, bytes: u64, micros: u64) -> Self {
        Self {
            tables,
            bytes,
            micros,
            ..self
        }
    }
}
