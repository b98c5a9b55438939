//! Who holds how much memory: one limit for a database, and an account for each kind of use.
//!
//! A [`MemoryBudget`] only counts. Whoever allocates in large pieces (arenas, indexes, blocks, filters, buffers) adds what
//! the allocation takes when it is made, or as its pages are touched, and subtracts it when it is given back; a [`Charge`]
//! does the second by itself. What to do when much is in use is for others to decide.
//!
//! Counting must not cost what is counted: pieces are kilobytes, and what grows in small pieces is told in steps
//! ([`Charge::follow`]).
//!
//! Invariant: the total is the sum of the accounts whenever nobody is between the two additions of one change.

use std::sync::Arc;

use kingtide_env::sync::atomic::{AtomicUsize, Ordering};

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Memtables, sealed ones included: touched pages of arenas, and indexes.
    Memtables,
    /// Memory of earlier memtables that is kept for later ones.
    Kept,
    /// Blocks of tables in the cache.
    Cache,
    /// Filters and fences of open tables.
    Tables,
    /// Writes and reads that transactions hold, prepared ones included.
    Transactions,
    /// What flushes, merges and iterators read and write through.
    Buffers,
}

impl Account {
    /// Every account.
    pub const ALL: [Self; 6] = [
        Self::Memtables,
        Self::Kept,
        Self::Cache,
        Self::Tables,
        Self::Transactions,
        Self::Buffers,
    ];

    const fn index(self) -> usize {
        self as usize
    }
}

/// One counter, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicUsize);

/// See the module. May be used by any number of threads.
///
/// ```
/// use kingtide_collections::{Account, MemoryBudget};
///
/// let budget = MemoryBudget::new(1000);
/// let charge = budget.charge(Account::Cache, 300);
/// assert_eq!((budget.used(), budget.of(Account::Cache)), (300, 300));
/// assert_eq!(budget.available(), 700);
/// drop(charge);
/// assert_eq!(budget.used(), 0);
/// ```
#[derive(Debug)]
pub struct MemoryBudget {
    limit_bytes: usize,
    total: Counter,
    accounts: [Counter; Account::ALL.len()],
}

impl MemoryBudget {
    /// A budget of `limit_bytes`, nothing of it used.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            total: Counter::default(),
            accounts: Default::default(),
        })
    }

    /// A budget that is never used up, for structures outside a database.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Bytes in use, all accounts together.
    #[inline]
    #[must_use]
    pub fn used(&self) -> usize {
        // Relaxed, here and below: numbers; nothing else is read on their strength.
        self.total.0.load(Ordering::Relaxed)
    }

    /// Bytes that are not in use; 0 when more is in use than the limit.
    #[inline]
    #[must_use]
    pub fn available(&self) -> usize {
        self.limit_bytes.saturating_sub(self.used())
    }

    /// Bytes in use by one account.
    #[must_use]
    pub fn of(&self, account: Account) -> usize {
        self.accounts[account.index()].0.load(Ordering::Relaxed)
    }

    /// Adds `bytes` to an account, whether there is room or not.
    pub fn add(&self, account: Account, bytes: usize) {
        if bytes != 0 {
            let counter = &self.accounts[account.index()];
            counter.0.fetch_add(bytes, Ordering::Relaxed);
            self.total.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Takes `bytes` off an account to which they were added.
    pub fn subtract(&self, account: Account, bytes: usize) {
        if bytes != 0 {
            let counter = &self.accounts[account.index()];
            let before = counter.0.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "{account:?} gives back more than it took");
            self.total.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Changes what one holder of an account has from `before` to `now` bytes.
    pub fn change(&self, account: Account, before: usize, now: usize) {
        if now >= before {
            self.add(account, now - before);
        } else {
            self.subtract(account, before - now);
        }
    }

    /// Adds `bytes` to an account for as long as the answer lives.
    #[must_use]
    pub fn charge(self: &Arc<Self>, account: Account, bytes: usize) -> Charge {
        self.add(account, bytes);
        Charge {
            budget: Arc::clone(self),
            account,
            bytes,
        }
    }
}

/// Bytes of an account that go back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    account: Account,
    bytes: usize,
}

impl Charge {
    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budget that it is part of.
    #[must_use]
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Makes it `bytes`.
    pub fn set(&mut self, bytes: usize) {
        self.budget.change(self.account, self.bytes, bytes);
        self.bytes = bytes;
    }

    /// Makes it `bytes` when that differs by `step_bytes` or more from what it is.
    #[inline]
    pub fn follow(&mut self, bytes: usize, step_bytes: usize) {
        if bytes.abs_diff(self.bytes) >= step_bytes {
            self.set(bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.subtract(self.account, self.bytes);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(all(test, loom))]
mod models;
