//! The kingtide command line.
fn main() {}
