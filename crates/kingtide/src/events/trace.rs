//! A trace: events as spans on the lanes of threads, for <https://ui.perfetto.dev> and other viewers.
//!
//! The file is in the trace event format of Chrome (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>),
//! a JSON array with one event on a line:
//!
//! - Flushes, merges and waits of writers are spans of their thread, from a line `"ph":"B"` to the next `"ph":"E"` of the
//!   thread that is not another span's. What is given up ends too, and says so.
//! - Syncs of the log, delays, waits for memory, and copies are known when they end: one line `"ph":"X"` with a duration.
//! - Everything else is a moment, `"ph":"i"`.
//!
//! Each line is written with the separator in front of it and as a whole with others, so that a file that ends early, by
//! a crash, lacks nothing but its last bracket, which viewers do not ask for. An end whose begin was lost is left out;
//! when events were lost, or the database closes, spans that are open end there.
//!
//! It is for people, so nothing depends on it: after the first write that fails the trace ends.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    io,
    path::Path,
    sync::Arc,
};

use kingtide_env::{Env, File, OpenMode, ThreadLabel};

use super::{Event, queue::Told};

/// Nanoseconds in a microsecond, the unit of the format.
const NANOS_PER_MICRO: u64 = 1_000;
/// The lane of what belongs to no thread: the process, in the words of the format.
const PROCESS: u64 = 1;

/// See the module.
pub(crate) struct TraceFile {
    /// `None` after a failure.
    file: Option<Arc<dyn File>>,
    bytes: u64,
    /// Lines that are not written yet.
    lines: String,
    begun_nanos: u64,
    named: HashSet<u64>,
    /// Spans that are open, by thread: their categories, the innermost last.
    open: HashMap<u64, Vec<&'static str>>,
}

impl TraceFile {
    /// Begins a trace at `path`, in place of a file that is there.
    ///
    /// # Errors
    /// What the system answers; `InvalidInput` for a path without a file name.
    pub(crate) fn create(env: &Arc<dyn Env>, path: &Path) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(no_name)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let directory = env.open_directory(folder, false)?;
        let file = match directory.open(name, OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = directory.open(name, OpenMode::ReadWrite)?;
                file.set_len(0)?;
                file
            }
            created => created?,
        };
        let mut trace = Self {
            file: Some(file),
            bytes: 0,
            lines: "[\n".to_owned(),
            begun_nanos: env.monotonic_nanos(),
            named: HashSet::new(),
            open: HashMap::new(),
        };
        let _ = write!(
            trace.lines,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{PROCESS},\"tid\":0,\"args\":{{\"name\":\"kingtide\"}}}}"
        );
        Ok(trace)
    }

    /// Takes an event in.
    pub(super) fn add(&mut self, told: &Told) {
        if self.file.is_none() {
            return;
        }
        self.name_thread(&told.thread);
        let thread = told.thread.number;
        let at = told.nanos.saturating_sub(self.begun_nanos);
        match &told.event {
            Event::FlushBegin { .. } => self.begin("flush", thread, at, &told.event),
            Event::MergeBegin { .. } => self.begin("merge", thread, at, &told.event),
            Event::StallBegin { .. } => self.begin("stall", thread, at, &told.event),
            Event::FlushEnd { .. } | Event::FlushGivenUp { .. } => {
                self.end("flush", thread, at, Some(&told.event));
            }
            Event::MergeEnd { .. } | Event::MergeGivenUp { .. } => {
                self.end("merge", thread, at, Some(&told.event));
            }
            Event::StallEnd { .. } => self.end("stall", thread, at, Some(&told.event)),
            Event::LogSynced { micros } | Event::LogSyncSlow { micros } => {
                self.whole("sync", thread, (at, *micros), &told.event);
            }
            Event::MemoryWaited { micros } => {
                self.whole("stall", thread, (at, *micros), &told.event);
            }
            Event::WriterDelayed { micros } => {
                self.whole("delay", thread, (at, *micros), &told.event);
            }
            Event::CopyMade { micros, .. } => {
                self.whole("copy", thread, (at, *micros), &told.event);
            }
            Event::Lost { .. } | Event::Closed { .. } => {
                self.end_all(at);
                self.moment(thread, at, &told.event);
            }
            _ => self.moment(thread, at, &told.event),
        }
    }

    /// Hands the lines to the system.
    pub(super) fn flush(&mut self) {
        if let Some(file) = &self.file {
            match file.write_at(self.lines.as_bytes(), self.bytes) {
                Ok(()) => self.bytes += self.lines.len() as u64,
                Err(_) => {
                    // Half a line would make the rest unreadable.
                    let _ = file.set_len(self.bytes);
                    self.file = None;
                }
            }
        }
        self.lines.clear();
    }

    /// Ends the array.
    pub(super) fn finish(&mut self) {
        self.lines.push_str("\n]\n");
        self.flush();
        self.file = None;
    }

    fn name_thread(&mut self, thread: &ThreadLabel) {
        if self.named.insert(thread.number) {
            let name = match thread.name.as_str() {
                "" => format!("thread {}", thread.number),
                name => name.to_owned(),
            };
            self.line("M", "thread_name", thread.number, None);
            self.lines.push_str(",\"args\":{");
            self.text("name", &name);
            self.lines.push_str("}}");
        }
    }

    fn begin(&mut self, category: &'static str, thread: u64, at: u64, event: &Event) {
        self.open.entry(thread).or_default().push(category);
        self.line("B", category, thread, Some(at));
        self.facts(event);
    }

    /// Ends the innermost span of the thread if it is of this category.
    fn end(&mut self, category: &'static str, thread: u64, at: u64, event: Option<&Event>) {
        let open = self.open.entry(thread).or_default();
        if open.last() != Some(&category) {
            return;
        }
        open.pop();
        self.line("E", category, thread, Some(at));
        match event {
            Some(event) => self.facts(event),
            None => self.lines.push('}'),
        }
    }

    fn end_all(&mut self, at: u64) {
        let mut threads: Vec<u64> = self.open.keys().copied().collect();
        threads.sort_unstable();
        for thread in threads {
            while let Some(category) = self.open.get(&thread).and_then(|open| open.last().copied())
            {
                self.end(category, thread, at, None);
            }
        }
    }

    fn whole(&mut self, category: &str, thread: u64, (end, micros): (u64, u64), event: &Event) {
        let begun = end.saturating_sub(micros.saturating_mul(NANOS_PER_MICRO));
        self.line("X", category, thread, Some(begun));
        let _ = write!(self.lines, ",\"dur\":{micros}");
        self.facts(event);
    }

    fn moment(&mut self, thread: u64, at: u64, event: &Event) {
        let category = match event {
            Event::BackgroundError { .. } | Event::LogSyncFailed { .. } => "error",
            Event::MemtableSealed { .. } => "sealed",
            Event::FileRemoved { .. } => "removed",
            Event::Opened { .. } => "opened",
            Event::Closed { .. } => "closed",
            Event::Message { .. } => "message",
            Event::Lost { .. } => "events lost",
            _ => "event",
        };
        self.line("i", category, thread, Some(at));
        self.lines.push_str(",\"s\":\"t\"");
        self.facts(event);
    }

    /// Everything of a line that all have; open for more.
    fn line(&mut self, phase: &str, name: &str, thread: u64, at: Option<u64>) {
        let _ = write!(
            self.lines,
            ",\n{{\"ph\":\"{phase}\",\"name\":\"{name}\",\"pid\":{PROCESS},\"tid\":{thread}"
        );
        if let Some(nanos) = at {
            let (micros, rest) = (nanos / NANOS_PER_MICRO, nanos % NANOS_PER_MICRO);
            let _ = write!(self.lines, ",\"cat\":\"{name}\",\"ts\":{micros}.{rest:03}");
        }
    }

    /// The event as arguments, and the end of the line.
    fn facts(&mut self, event: &Event) {
        self.lines.push_str(",\"args\":{");
        self.text("event", &event.to_string());
        let (family, numbers) = numbers_of(event);
        if let Some(family) = family {
            self.lines.push(',');
            self.text("family", family);
        }
        for (name, number) in numbers.into_iter().flatten() {
            let _ = write!(self.lines, ",\"{name}\":{number}");
        }
        self.lines.push_str("}}");
    }

    /// A member whose value is text.
    fn text(&mut self, name: &str, value: &str) {
        let _ = write!(self.lines, "\"{name}\":\"");
        for character in value.chars() {
            match character {
                '"' => self.lines.push_str("\\\""),
                '\\' => self.lines.push_str("\\\\"),
                _ if character.is_control() => {
                    // Control characters are below U+00A0, so four digits hold them.
                    let _ = write!(self.lines, "\\u{:04x}", u32::from(character));
                }
                _ => self.lines.push(character),
            }
        }
        self.lines.push('"');
    }
}

type Numbers = [Option<(&'static str, u64)>; 3];

/// The family that an event is about, and its numbers.
fn numbers_of(event: &Event) -> (Option<&str>, Numbers) {
    match event {
        Event::MemtableSealed { family, bytes } | Event::FlushBegin { family, bytes } => {
            (Some(family), [Some(("bytes", *bytes)), None, None])
        }
        Event::FlushEnd {
            family,
            tables,
            bytes,
            ..
        } => (
            Some(family),
            [
                Some(("tables", *tables as u64)),
                Some(("bytes", *bytes)),
                None,
            ],
        ),
        Event::MergeBegin {
            family,
            tables,
            bytes,
            target_level,
        }
        | Event::MergeEnd {
            family,
            tables,
            bytes,
            target_level,
            ..
        } => (
            Some(family),
            [
                Some(("tables", *tables as u64)),
                Some(("bytes", *bytes)),
                Some(("target_level", u64::from(*target_level))),
            ],
        ),
        Event::FlushGivenUp { family }
        | Event::MergeGivenUp { family }
        | Event::StallBegin { family }
        | Event::StallEnd { family, .. }
        | Event::BackgroundError { family, .. } => (Some(family), [None; 3]),
        _ => (None, [None; 3]),
    }
}
