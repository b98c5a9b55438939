//! Recorded histories: real threads, random transactions, and a checker that explains every read and every commit.
//!
//! | file | what it is |
//! |---|---|
//! | `profile.rs` | the shape of a session, chosen by its seed |
//! | `client.rs` | one thread: several open transactions, everything written down |
//! | `record.rs` | what is written down |
//! | `session.rs` | a database, its threads, and window after window of transactions |
//! | `own.rs` | what a transaction has written so far |
//! | `versions.rs` | every key over time, from the sequence numbers of the commits |
//! | `check.rs` | the rules of the levels |
//! | `independent.rs` | the same windows for an independent checker |
//!
//! Work is divided into *windows*, between which no transaction is open, so that memory stays bounded however many
//! transactions are run. A seed chooses the shape of a session and what each thread does; the order in which threads
//! run is the machine's. A violation therefore comes with all that is needed to understand it.

mod check;
mod client;
mod independent;
mod own;
mod profile;
mod record;
mod session;
mod versions;

#[cfg(test)]
mod caught;
#[cfg(test)]
mod tests;

pub use session::{HistoryTally, Session, run};
