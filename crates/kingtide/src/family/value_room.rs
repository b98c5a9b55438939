//! What the value files of a family take and may take, for writers that must not outrun the emptying of them.

use kingtide_env::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use kingtide_policy::{LastPass, ValueRoom};

/// See the module. `taken` and `most` are numbers that decide on delays: nothing is read on their strength, so they are
/// relaxed.
#[derive(Default)]
pub(crate) struct ValueRoomCell {
    taken: AtomicU64,
    /// 0 while there is nothing to be done about the files.
    most: AtomicU64,
    last_pass: Mutex<LastPass>,
}

impl ValueRoomCell {
    /// The files are to be emptied, or their values looked through, and stand like this.
    pub(crate) fn note(&self, room: ValueRoom) {
        self.taken.store(room.taken, Ordering::Relaxed);
        self.most.store(room.most, Ordering::Relaxed);
    }

    /// There is nothing to be done about the files, or nobody will do it.
    pub(crate) fn clear(&self) {
        self.most.store(0, Ordering::Relaxed);
    }

    /// What is taken when `waiting` bytes more are flushed, as a share of what may be; 0 when there is nothing to be done.
    pub(crate) fn share(&self, waiting: usize) -> f64 {
        match self.most.load(Ordering::Relaxed) {
            0 => 0.0,
            most => (self.taken.load(Ordering::Relaxed) as f64 + waiting as f64) / most as f64,
        }
    }

    /// What was found when all tables were looked through last.
    pub(crate) fn last_pass(&self) -> LastPass {
        *self.last_pass.lock()
    }

    /// All tables were looked through.
    pub(crate) fn set_last_pass(&self, pass: LastPass) {
        *self.last_pass.lock() = pass;
    }
}
