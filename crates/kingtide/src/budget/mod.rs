//! The memory budget of a database: what the limit comes to, how it is shared out, and who gives way first.
//!
//! Everything large counts in one [`MemoryBudget`]: memtables, kept arenas, cached blocks, filters and fences, what
//! transactions hold, and the buffers of flushes, merges and iterators. When a writer finds too little left, memory is given back in this
//! order:
//!
//! 1. arenas that are kept for later memtables;
//! 2. cached blocks, down to a floor; and tables that nobody uses are closed when filters and fences exceed their share;
//! 3. memtables: the largest is sealed and flushed before it is full;
//! 4. then writers are slowed down, and at the limit they wait, for a bounded time, and are told `Busy`.
//!
//! | module | what it is |
//! |---|---|
//! | `plan` | the limit and its shares, from the options and the machine |
//!
//! It deliberately does not count what is small or fixed: threads' stacks, lists of tables and families, the mapped
//! windows of the log (pages of a file, at most a few mebibytes), what the allocator itself needs.

mod plan;

use std::sync::Arc;

use kingtide_collections::{Account, BlockCache, MemoryBudget};
use kingtide_env::sync::Mutex;
use kingtide_table::{Block, TableCache};

pub(crate) use plan::Plan;

/// What is given back beyond what is asked for, as a part of the limit, so that the next writers need not ask again.
const SPARE_DIVISOR: usize = 64;
/// Caches grow again as long as less than this share of what writers may use is in use, in quarters.
const GROW_QUARTERS: usize = 3;

/// The budget in force, and the caches that give way.
pub(crate) struct MemoryRoom {
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) plan: Plan,
    /// `None` where there are none.
    caches: Option<Caches>,
    /// Held by the one who makes caches smaller or larger.
    adjusting: Mutex<()>,
}

/// Memory that can be filled again from files.
pub(crate) struct Caches {
    pub(crate) blocks: Arc<BlockCache<Block>>,
    pub(crate) tables: Arc<TableCache>,
}

impl MemoryRoom {
    pub(crate) fn new(plan: Plan, budget: Arc<MemoryBudget>, caches: Option<Caches>) -> Self {
        Self {
            budget,
            plan,
            caches,
            adjusting: Mutex::new(()),
        }
    }

    /// Room without end.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn unlimited() -> Self {
        let plan = Plan::of(usize::MAX, 0);
        Self::new(plan, MemoryBudget::unlimited(), None)
    }

    /// True when `bytes` more can be written without anybody giving way.
    #[inline]
    pub(crate) fn is_ample(&self, bytes: usize) -> bool {
        self.budget.used().saturating_add(bytes) <= self.plan.ample_bytes
    }

    /// True when a writer need not wait to add `bytes`.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.budget.used().saturating_add(bytes) <= self.plan.writable_bytes
    }

    /// The share of what writers may use that would be in use with `bytes` more, if caches gave up what they can.
    pub(crate) fn share_used(&self, bytes: usize) -> f64 {
        let fixed = self.budget.used().saturating_add(bytes);
        let fixed = fixed.saturating_sub(self.yieldable());
        fixed as f64 / self.plan.writable_bytes.max(1) as f64
    }

    /// Bytes that caches could give up.
    fn yieldable(&self) -> usize {
        let cached = self.budget.of(Account::Cache);
        self.budget.of(Account::Kept) + cached.saturating_sub(self.plan.cache_floor_bytes)
    }

    /// Makes the caches give way to `bytes` more, as far as they can. Answers whether there is ample room then.
    pub(crate) fn squeeze(&self, bytes: usize) -> bool {
        let Some(caches) = &self.caches else {
            return self.is_ample(bytes);
        };
        if let Some(_alone) = self.adjusting.try_lock() {
            let wanted = self.budget.used().saturating_add(bytes);
            let spare = self.plan.limit_bytes / SPARE_DIVISOR;
            let excess = (wanted.saturating_add(spare)).saturating_sub(self.plan.ample_bytes);
            if excess > 0 {
                let cached = caches.blocks.usage().bytes;
                let left = cached.saturating_sub(excess);
                caches
                    .blocks
                    .set_limit(left.max(self.plan.cache_floor_bytes));
                if self.budget.of(Account::Tables) > self.plan.tables_bytes_max {
                    caches.tables.shrink_to(self.plan.tables_bytes_max);
                }
            }
        }
        self.is_ample(bytes)
    }

    /// Lets the caches grow again when memory was given back.
    pub(crate) fn relax(&self) {
        let Some(caches) = &self.caches else { return };
        let comfortable = self.plan.ample_bytes / 4 * GROW_QUARTERS;
        let free = comfortable.saturating_sub(self.budget.used());
        let Some(_alone) = self.adjusting.try_lock() else {
            return;
        };
        let usage = caches.blocks.usage();
        let limit = usage.bytes.saturating_add(free);
        if limit > usage.limit_bytes {
            caches.blocks.set_limit(limit);
        }
    }

    /// Who holds what, for messages.
    pub(crate) fn describe(&self) -> String {
        let of = |account| self.budget.of(account) >> 10;
        format!(
            "of {} KiB, memtables hold {}, transactions {}, filters and fences of tables {}, cached blocks {}, buffers {}",
            self.plan.limit_bytes >> 10,
            of(Account::Memtables) + of(Account::Kept),
            of(Account::Transactions),
            of(Account::Tables),
            of(Account::Cache),
            of(Account::Buffers),
        )
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
