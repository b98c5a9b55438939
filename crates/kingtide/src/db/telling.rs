//! What an opening tells of itself, and lines of the program among them.

use kingtide_env::sync::atomic::Ordering;

use super::{Db, Shared};
use crate::events::{Event, LogLevel};

impl Db {
    /// Tells the listener and the file `LOG` a line of the program, if there are such. Whatever `text` holds, it becomes
    /// one line of the file; it must not hold what should not be there. A line of level [`LogLevel::None`] is written
    /// whatever the limit. After the close nothing is told.
    pub fn log(&self, level: LogLevel, text: &str) {
        self.engine().events.emit(|| Event::Message {
            level,
            text: text.to_owned(),
        });
    }
}

impl Shared {
    /// The opening has succeeded.
    pub(super) fn tell_opened(&self) {
        let engine = &self.engine;
        if !engine.events.is_on() {
            return;
        }
        let families = engine.families.all();
        let tables = families
            .iter()
            .map(|family| family.load().version.tables().count())
            .sum();
        engine.events.emit(|| Event::Opened {
            families: families.len(),
            tables,
            recovered_tables: engine.recovered_tables.load(Ordering::Relaxed) as usize,
            sequence: engine.visible().0,
            is_read_only: engine.options.read_only,
        });
    }
}
