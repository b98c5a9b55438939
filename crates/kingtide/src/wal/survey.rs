//! Which segment files there are, for people: headers are read, frames are not.

use kingtide_base::{Lsn, SegmentId, StorageError, StorageResult};
use kingtide_env::Directory;

use super::{reader::read_header, segment::segment_slot};

/// A segment file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SurveyedSegment {
    /// Its name in `wal/`.
    pub(crate) name: String,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// Its last life and where that begins in the log; `None` when it has had none.
    pub(crate) life: Option<(SegmentId, Lsn)>,
}

/// The segment files in `directory`, by name. Files that vanish meanwhile are passed over: a writer may be at work.
///
/// # Errors
/// What the system answers.
pub(crate) fn survey_segments(directory: &dyn Directory) -> StorageResult<Vec<SurveyedSegment>> {
    let entries = directory
        .list()
        .map_err(|error| StorageError::io("wal", "list", error))?;
    let mut segments = Vec::new();
    for entry in entries {
        if entry.is_directory || segment_slot(&entry.name).is_none() {
            continue;
        }
        let header = match read_header(directory, &entry.name) {
            Err(StorageError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                continue;
            }
            header => header?,
        };
        segments.push(SurveyedSegment {
            name: entry.name,
            bytes: entry.bytes,
            life: header.map(|header| (header.segment, header.base)),
        });
    }
    segments.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(segments)
}
