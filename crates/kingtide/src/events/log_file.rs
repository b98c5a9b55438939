//! The file `LOG`: one line an event, in UTC. When it has grown to its limit it becomes `LOG.old`. It is for people, so
//! nothing depends on it: a line that cannot be written is lost, and nothing is synced.

use std::{io, sync::Arc};

use kingtide_env::{Directory, File, OpenMode};

use super::{Event, LogOptions, text::Utc};

const NAME: &str = "LOG";
const OLD_NAME: &str = "LOG.old";

/// See the module.
pub(crate) struct LogFile {
    directory: Arc<dyn Directory>,
    options: LogOptions,
    file: Option<Arc<dyn File>>,
    bytes: u64,
}

impl LogFile {
    /// The log in `directory`, which goes on where the last opening ended.
    pub(crate) fn open(directory: Arc<dyn Directory>, options: LogOptions) -> Self {
        let mut log = Self {
            directory,
            options,
            file: None,
            bytes: 0,
        };
        // What cannot be opened now is tried again with the first line.
        let _ = log.reopen();
        log
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = match self.directory.open(NAME, OpenMode::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.directory.open(NAME, OpenMode::CreateNew)?
            }
            found => found?,
        };
        self.bytes = file.len()?;
        self.file = Some(file);
        Ok(())
    }

    /// Adds a line, if the event matters enough.
    pub(super) fn write(&mut self, unix_micros: u64, event: &Event) {
        if event.level() < self.options.level {
            return;
        }
        let text = event.to_string();
        // One event is one line, whatever a message contains.
        let text = text.replace(|c: char| c.is_control(), " ");
        let line = format!("{} {:5} {text}\n", Utc(unix_micros), event.level());
        let _ = self.append(line.as_bytes());
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let limit = self.options.truncate_bytes;
        if limit > 0 && self.bytes > 0 && self.bytes + line.len() as u64 > limit {
            self.file = None;
            self.directory.rename(NAME, OLD_NAME)?;
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        if let Some(file) = &self.file {
            file.write_at(line, self.bytes)?;
            self.bytes += line.len() as u64;
        }
        Ok(())
    }
}
