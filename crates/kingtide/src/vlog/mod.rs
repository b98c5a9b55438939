//! Collection of the value log: values that nobody reads any more give their room back.
//!
//! | module | what it is |
//! |---|---|
//! | `survey` | what the choice is told of a family: its value files, and how much of them may be hidden |
//! | `collect` | does what was chosen |
//! | `order` | values that lie scattered over many files are put in key order, when the database is idle |
//!
//! A value file is never changed. It is *emptied*: the tables that point to it are written once more, and on the way
//! their values are copied to a new file. When no table points to it any more it goes as any file does: first from the
//! durable manifest, then, when no reader's version, iterator, snapshot or copy holds a table that points to it, from
//! the disk. The copies are synced before the manifest names the tables that point to them, so that at any moment a
//! crash finds either the old tables with the old file or the new ones with the new.
//!
//! What to empty is chosen by [`kingtide_policy::pick_value_work`]. The choice is left with the family
//! ([`Family::emptied`](crate::family::Family::emptied)), where every pass that writes tables looks: merges that happen
//! anyway copy as they go, and only the tables that are left are written for this alone.

mod collect;
mod order;
mod survey;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub(crate) use collect::{collect, wants_collection};
pub(crate) use order::{put_in_order, wants_order};
pub(crate) use survey::{hides_values, of_family};
