//! The named limits of Kingtide. Every queue, length and name is bounded by one of these; the manual lists them.

/// The longest key, in bytes. A key has at least one byte.
pub const KEY_BYTES_MAX: usize = 1 << 20;
/// The longest value, in bytes. A value may be empty.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// The most bytes that the operations of one transaction may hold in log format.
pub const TRANSACTION_BYTES_MAX: usize = 3 << 30;
/// The longest name of a column family, in bytes (the C ABI counts a closing zero as the 128th).
pub const FAMILY_NAME_BYTES_MAX: usize = 127;
/// The longest name of a comparator, in bytes (the C ABI counts a closing zero as the 64th).
pub const COMPARATOR_NAME_BYTES_MAX: usize = 63;
/// The most column families of one database, dropped ones not counted.
pub const FAMILIES_MAX: usize = 10_000;
/// The most levels of one family.
pub const LEVELS_MAX: usize = 16;
/// The smallest log segment, in bytes. In simulations, whose runs are short, the log goes on in its next segment as often as
/// it does in long ones.
pub const SEGMENT_BYTES_MIN: u64 = if cfg!(simulated) { 64 << 10 } else { 1 << 20 };
/// The largest log segment, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// The largest payload of one log frame, in bytes; longer records are split into parts.
pub const FRAME_PAYLOAD_BYTES_MAX: usize = 32 << 20;
/// Entries after which the ordered structure for small commits is frozen.
pub const SKIP_LIST_ENTRIES_MAX: usize = 4096;
/// Operations from which on a commit publishes a sorted run of its own; those of shorter ones are sorted together later.
pub const RUN_ENTRIES_MIN: usize = 256;

const _: () = assert!(FRAME_PAYLOAD_BYTES_MAX < SEGMENT_BYTES_MAX as usize);
const _: () = assert!(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_MAX);
const _: () = assert!(KEY_BYTES_MAX < (1 << 24));
const _: () = assert!(VALUE_BYTES_MAX < u32::MAX as usize);
