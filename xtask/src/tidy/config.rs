//! What the rules know about this repository, as data: edit here when a crate, module or exception is agreed.

/// The crates of the workspace and what each may depend on, lowest first; see ARCHITECTURE.md.
pub const CRATE_LAYERS: &[(&str, &[&str])] = &[
    ("kingtide-base", &[]),
    ("kingtide-env", &["kingtide-base"]),
    ("kingtide-policy", &["kingtide-base"]),
    ("kingtide-collections", &["kingtide-base", "kingtide-env"]),
    (
        "kingtide-format",
        &["kingtide-base", "kingtide-collections"],
    ),
    (
        "kingtide-table",
        &[
            "kingtide-base",
            "kingtide-format",
            "kingtide-env",
            "kingtide-collections",
        ],
    ),
    ("kingtide", BELOW_KINGTIDE),
    ("kingtide-bench", KINGTIDE_AND_BELOW),
    (
        "kingtide-bench-peers",
        &[
            "kingtide",
            "kingtide-base",
            "kingtide-format",
            "kingtide-env",
            "kingtide-policy",
            "kingtide-collections",
            "kingtide-table",
            "kingtide-bench",
        ],
    ),
    ("kingtide-testkit", KINGTIDE_AND_BELOW),
    (
        "kingtide-sim",
        &[
            "kingtide",
            "kingtide-base",
            "kingtide-env",
            "kingtide-ledger",
            "kingtide-testkit",
        ],
    ),
    ("kingtide-ledger", &[]),
    ("kingtide-mutants", &["kingtide-base"]),
    ("kingtide-capi", KINGTIDE_AND_BELOW),
    (
        "kingtide-cli",
        &[
            "kingtide",
            "kingtide-base",
            "kingtide-format",
            "kingtide-env",
            "kingtide-policy",
            "kingtide-collections",
            "kingtide-table",
            "kingtide-bench",
        ],
    ),
    ("xtask", &["kingtide-ledger"]),
];

const BELOW_KINGTIDE: &[&str] = &[
    "kingtide-base",
    "kingtide-format",
    "kingtide-env",
    "kingtide-policy",
    "kingtide-collections",
    "kingtide-table",
];

const KINGTIDE_AND_BELOW: &[&str] = &[
    "kingtide",
    "kingtide-base",
    "kingtide-format",
    "kingtide-env",
    "kingtide-policy",
    "kingtide-collections",
    "kingtide-table",
];

/// Dev-dependencies that point up, crate and dependency: only for integration tests, which link one copy of the crate.
pub const DEV_CYCLES: &[(&str, &str)] = &[
    ("kingtide", "kingtide-testkit"),
    // Built beside the tests of `migrate`, which load it.
    ("kingtide-cli", "kingtide-capi"),
];

/// Where the layered modules live.
pub const MODULE_ROOT: &str = "crates/kingtide/src/";

/// The modules of the engine, one line per layer, top to bottom: a module names modules of its own line or above.
pub const MODULE_LAYERS: &[&[&str]] = &[
    &["error", "events", "options", "budget", "spill"],
    &["wal", "memtable", "version", "manifest"],
    &["family"],
    &["snapshot", "read", "files"],
    &["write"],
    &[
        "engine",
        "output",
        "flush",
        "compaction",
        "vlog",
        "backup",
        "bulk",
    ],
    &["txn", "background"],
    &["db", "stats", "layout"],
    &["repair"],
];

/// The crates whose code runs inside the simulator: everything they ask of the world goes through `kingtide_env`.
pub const ENGINE_ROOTS: &[&str] = &[
    "crates/base/src/",
    "crates/format/src/",
    "crates/collections/src/",
    "crates/policy/src/",
    "crates/table/src/",
    "crates/kingtide/src/",
    "crates/env/src/",
];

/// Paths that engine code must not name, and what to use instead. A path covers all below it.
pub const BANNED_PATHS: &[(&str, &str)] = &[
    ("std::fs", "go through kingtide_env::Env"),
    ("std::time::Instant", "use Env::monotonic_nanos"),
    ("std::time::SystemTime", "use Env::unix_micros"),
    ("std::time::UNIX_EPOCH", "use Env::unix_micros"),
    ("std::thread", "use Env::spawn and Env::sleep"),
    ("std::sync::Mutex", "use kingtide_env::sync::Mutex"),
    (
        "std::sync::MutexGuard",
        "use kingtide_env::sync::MutexGuard",
    ),
    ("std::sync::RwLock", "use kingtide_env::sync::Mutex"),
    ("std::sync::Condvar", "use kingtide_env::sync::Condvar"),
    ("std::sync::Barrier", "use kingtide_env::sync::Condvar"),
    (
        "std::sync::mpsc",
        "use kingtide_env::sync::{Mutex, Condvar} around a queue",
    ),
    ("std::sync::atomic", "use kingtide_env::sync::atomic"),
    (
        "std::process::exit",
        "return an error: the process is the caller's",
    ),
    (
        "std::process::abort",
        "return an error: the process is the caller's",
    ),
    (
        "std::hash::RandomState",
        "use Env::fill_random, or a fixed hash",
    ),
    (
        "std::collections::hash_map::RandomState",
        "use Env::fill_random, or a fixed hash",
    ),
    ("rand", "use Env::fill_random"),
    ("fastrand", "use Env::fill_random"),
    ("getrandom", "use Env::fill_random"),
    ("rand_core", "use Env::fill_random"),
];

/// Macros that engine code must not call, and what to do instead.
pub const BANNED_MACROS: &[(&str, &str)] = &[
    ("print", "return what is to be said"),
    ("println", "return what is to be said"),
    ("eprint", "return what is to be said"),
    ("eprintln", "return what is to be said"),
];

/// Files and folders in engine crates where some banned paths are the point. The second part lists the paths that are
/// allowed there; `*` is all.
pub const BAN_EXCEPTIONS: &[(&str, &[&str])] = &[
    ("crates/env/src/posix/", &["*"]),
    ("crates/env/src/sync/", &["*"]),
    // Bugs planted for the tests of the tests; nothing of them is in other builds.
    ("crates/base/src/planted.rs", &["std::sync::atomic"]),
    // The threads of simulations are parked by the system's locks: their own would park them for ever.
    ("crates/env/src/baton/", &["*"]),
    // Every world runs real threads, also the one in memory: only its files, clock and randomness are its own.
    (
        "crates/env/src/threads.rs",
        &["std::thread", "std::sync::atomic"],
    ),
];

/// Where `unsafe` may stand.
pub const UNSAFE_ROOTS: &[&str] = &[
    "crates/collections/",
    "crates/env/src/posix/",
    "crates/capi/",
    "crates/bench/src/engines/",
];

/// The table of unsafe blocks and the tests that run them.
pub const UNSAFE_PATH: &str = "docs/unsafe.md";

/// Whose unsafe blocks are in the table.
pub const UNSAFE_TABLE_ROOTS: &[&str] = &[
    "crates/collections/src/",
    "crates/env/src/",
    "crates/capi/src/",
];

/// Where the numbers of [`FILE_LINES_MAX`] and the like are excepted, one line each, and may only fall.
pub const RATCHET_PATH: &str = "xtask/ratchet.txt";

/// Lines of a file that are not test code.
pub const FILE_LINES_MAX: usize = 800;

/// Lines of a function that is not test code, from `fn` to the closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Parameters of a function that is not test code, without `self`.
pub const PARAMETERS_MAX: usize = 5;

/// The page with the table of promises and the tests that hold them, which `cargo xtask promises` writes.
pub const PROMISES_PATH: &str = "docs/testing.md";

/// What the manual promises: the mark that a test bears, and the promise. Tests whose names begin with `promise_` and a
/// mark bear that mark.
pub const PROMISES: &[(&str, &str)] = &[
    (
        "1",
        "A transaction is there as a whole or not at all, over all its families, after any crash",
    ),
    (
        "2",
        "What survives is a prefix of the commit order: nothing depends on something lost",
    ),
    (
        "3",
        "The floor: `Full` keeps every acknowledged commit, `Interval` all before the last sync, every mode survives a kill",
    ),
    (
        "4",
        "A failed sync is final: never retried, never flushed over, and the outcome is reported as unknown",
    ),
    (
        "5",
        "Corruption is never \"not found\": damaged bytes are an error that names the place",
    ),
    (
        "6",
        "A torn tail of the log is a normal crash; damage before a durable mark is reported",
    ),
    (
        "7",
        "Recovery is durable itself: a crash during recovery loses nothing, stale bytes never come back",
    ),
    (
        "8",
        "A full disk is an error of its own; nothing is lost, and writing goes on once there is space",
    ),
    (
        "9",
        "Closing loses nothing, a second opening is refused, a read-only opening writes nothing",
    ),
    (
        "snapshot",
        "A snapshot sees exactly the commits up to its number, each of them complete; what is acknowledged is seen by all that begins later",
    ),
    (
        "levels",
        "Each isolation level prevents the anomalies that its row of the table says",
    ),
    (
        "serializable",
        "Serializable agrees with real time and covers ranges, misses and the ends of iterators",
    ),
    (
        "read-only",
        "A transaction that only reads never gets a conflict",
    ),
    (
        "conflict",
        "A conflict is told before anything is written, and the transaction can be tried again",
    ),
    (
        "exact",
        "What a transaction read is remembered exactly: no bound switches a check off",
    ),
    (
        "own-writes",
        "Reads see the transaction's own writes; savepoints undo the writes after them; a read for update counts as a write",
    ),
    (
        "expiry",
        "Expiry is judged at the snapshot's clock, which never goes back; an expired entry hides older ones until a merge drops it",
    ),
    (
        "input",
        "No input, file or call sequence makes the process panic, loop, read out of bounds or allocate without bound",
    ),
    (
        "limits",
        "Every limit is checked, and what is beyond it is refused with a specific error",
    ),
];
