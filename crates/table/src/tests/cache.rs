//! The bounded number of open tables.

use std::io;
use std::path::Path;
use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, SeqNo, StorageError};
use kingtide_env::Env;
use kingtide_format::{CodecId, TableMeta};

use super::model::{Entry, World, cache};
use crate::{TableCache, TableSettings};
