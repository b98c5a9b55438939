//! Which tables a family has: immutable values.
//!
//! | file | what it is |
//! |---|---|
//! | `level` | the tables of one level, and the searches in it |
//! | `family` | all levels of a family, and how one version becomes the next |

mod family;
mod level;

pub(crate) use family::{TableMove, Version, VersionFault};
pub(crate) use level::{Level, LevelTotals};
