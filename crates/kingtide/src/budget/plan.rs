//! The limit and its shares.
//!
//! | share of the limit L | for |
//! |---|---|
//! | L/16 | flushes and merges: writers leave it free |
//! | L/8, or the size of the cache if that is less | the cache's floor |
//! | L/5 | the entries of one memtable, so that one fills while another is flushed |
//! | L/4 | filters and fences of open tables, before idle ones are closed |
//! | 3/8 L | one transaction, whose commit needs as much again in a memtable |
//! | 5/8 L | all transactions |
//!
//! A limit below [`LIMIT_BYTES_MIN`] counts as that: less cannot hold one memtable of each size that is needed.

use kingtide_env::Env;

use crate::options::Options;

/// The smallest budget.
pub(crate) const LIMIT_BYTES_MIN: usize = 8 << 20;
/// The automatic budget where nobody knows how much memory there is.
const LIMIT_BYTES_UNKNOWN: usize = 2 << 30;
/// The automatic budget is not smaller than this, if the machine has as much.
const LIMIT_BYTES_AUTOMATIC_MIN: usize = 128 << 20;
/// Memtables of one family that wait for their flush may take so much; one always may.
const SEALED_BYTES_MAX: usize = 24 << 20;
/// The buffers of an ended transaction are kept for a later one up to this size.
const RECYCLED_BYTES_MAX: usize = 16 << 20;

/// See the module. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The whole.
    pub(crate) limit_bytes: usize,
    /// What may be in use when a writer adds to it.
    pub(crate) writable_bytes: usize,
    /// With more than this in use, somebody gives way.
    pub(crate) ample_bytes: usize,
    /// What the cache of blocks may take when there is room.
    pub(crate) cache_bytes: usize,
    /// What it keeps when there is not.
    pub(crate) cache_floor_bytes: usize,
    /// Filters and fences of open tables.
    pub(crate) tables_bytes_max: usize,
    /// The entries of one memtable, whatever its family's write buffer.
    pub(crate) memtable_bytes_max: usize,
    /// Sealed memtables of one family.
    pub(crate) sealed_bytes_max: usize,
    /// One transaction.
    pub(crate) transaction_bytes_max: usize,
    /// All transactions.
    pub(crate) transactions_bytes_max: usize,
    /// The buffers of one ended transaction that are kept.
    pub(crate) recycled_bytes_max: usize,
}

impl Plan {
    /// What `options` come to in `env`. A limit that was asked for is one that the allocator is told of.
    pub(crate) fn fit(options: &Options, env: &dyn Env) -> Self {
        if options.memory_bytes_max > 0 {
            env.spare_memory();
        }
        Self::on(options, env.memory_bytes())
    }

    /// What `options` come to on a machine with so much memory for this process; `None` where nobody knows.
    fn on(options: &Options, machine_bytes: Option<u64>) -> Self {
        let limit = match options.memory_bytes_max {
            0 => automatic(machine_bytes),
            bytes => bytes.max(LIMIT_BYTES_MIN),
        };
        Self::of(limit, options.block_cache_bytes)
    }

    /// The shares of a limit, with a cache that should be of `cache_bytes`.
    pub(crate) fn of(limit: usize, cache_bytes: usize) -> Self {
        let cache_bytes = cache_bytes.min(limit / 4 * 3);
        let memtable = limit / 5;
        Self {
            limit_bytes: limit,
            writable_bytes: limit - limit / 16,
            ample_bytes: limit - limit / 8,
            cache_bytes,
            cache_floor_bytes: cache_bytes.min(limit / 8),
            tables_bytes_max: limit / 4,
            memtable_bytes_max: memtable,
            sealed_bytes_max: memtable.min(SEALED_BYTES_MAX),
            transaction_bytes_max: limit / 8 * 3,
            transactions_bytes_max: limit / 8 * 5,
            recycled_bytes_max: (limit / 64).min(RECYCLED_BYTES_MAX),
        }
    }
}

/// Half of the machine, at least 128 MiB, but no more than three quarters of it.
fn automatic(machine_bytes: Option<u64>) -> usize {
    let Some(bytes) = machine_bytes else {
        return LIMIT_BYTES_UNKNOWN;
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    (bytes / 2)
        .max(LIMIT_BYTES_AUTOMATIC_MIN)
        .min(bytes / 4 * 3)
        .max(LIMIT_BYTES_MIN)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: the rules of the options' documentation. Method: some options and machines.
    #[test]
    fn limits_follow_options_and_machine() {
        let limit = |bytes, machine| {
            let options = Options {
                memory_bytes_max: bytes,
                ..Options::default()
            };
            Plan::on(&options, machine).limit_bytes
        };
        assert_eq!(limit(0, None), 2 << 30);
        assert_eq!(limit(0, Some(24 << 30)), 12 << 30);
        assert_eq!(limit(0, Some(160 << 20)), 120 << 20);
        assert_eq!(limit(0, Some(1 << 20)), 8 << 20);
        assert_eq!(limit(100 << 20, Some(1 << 30)), 100 << 20);
        assert_eq!(limit(1, None), 8 << 20);
    }

    /// Goal: the shares that must be there at once fit together. Method: small, usual and endless limits.
    #[test]
    fn shares_fit_into_the_limit() {
        for limit in [LIMIT_BYTES_MIN, 64 << 20, 1 << 30, usize::MAX] {
            let plan = Plan::of(limit, 64 << 20);
            let reserve = plan.limit_bytes - plan.writable_bytes;
            // A transaction, the memtable that takes it, and what never gives way.
            let needed = 2 * (plan.transaction_bytes_max as u128)
                + plan.cache_floor_bytes as u128
                + reserve as u128;
            assert!(needed <= limit as u128, "{plan:?}");
            // Two memtables, their indexes, tables and the floor.
            let steady = 2 * (plan.memtable_bytes_max as u128) / 7 * 8
                + plan.cache_floor_bytes as u128
                + plan.tables_bytes_max as u128
                + reserve as u128;
            assert!(steady <= limit as u128, "{plan:?}");
            assert!(plan.cache_bytes <= 64 << 20 && plan.cache_floor_bytes <= plan.cache_bytes);
        }
        assert_eq!(Plan::of(64 << 20, 0).cache_floor_bytes, 0);
    }
}
