//! The durable record of which families, tables and value files a database has, and the only writer of it.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | what all edits so far amount to |
//! | `name` | the names of manifest files, and which one counts |
//! | `source` | frames of a file, through a buffer |
//! | `replay` | from a file to a state; torn tail or damage |
//! | `witness` | the file that tells a manifest that lost its end |
//! | `append` | the open manifest: appends, syncs, rolls |

mod append;
mod name;
mod replay;
mod source;
mod state;
mod witness;

pub(crate) use append::Manifest;
pub(crate) use replay::{is_present, read};
pub(crate) use state::{FamilyState, ManifestState, ValueFileState};
pub(crate) use witness::witnessed_database;
