//! The C library: the functions of libtidesdb 9.3.14, and `kingtide.h`.
//!
//! | module | what it is |
//! |---|---|
//! | `border` | codes, last error, panics stop here |
//! | `handle`, `objects` | handles that are checked and never dereferenced, and what stands behind them |
//! | `pointer` | what C promises about pointers, as types; nearly all unsafe code |
//! | `alloc` | memory that callers free |
//! | `types`, `config`, `ini` | structs, their defaults and meaning, and files of them |
//! | `db`, `family`, `txn`, `iter`, `comparator`, `hook`, `maintenance`, `stats`, `log`, `objstore` | the compatible functions |
//! | `kt` | the additions |
//!
//! What each function does for its callers is told in the headers (`include/`) and in docs/abi.md. The functions here
//! have the shape: check the arguments, find the objects, call the engine, hand out the result. They take no lock while
//! they are in the engine, except where families come and go.
//!
//! The crate's Rust items are not an interface: the C symbols are.

mod alloc;
mod border;
mod comparator;
mod config;
mod db;
mod family;
mod handle;
mod hook;
mod ini;
mod iter;
pub mod kt;
mod log;
mod maintenance;
mod objects;
mod objstore;
mod pointer;
mod stats;
mod txn;
mod types;
