//! Runs the binary: every command, and what must happen when its input is bad.

mod browser;
mod harness;

mod backup;
mod basics;
mod bench;
mod files;
mod interrupt;
mod lsm;
mod migrate;
mod prepared;
mod refusals;
mod reports;
mod shell;
