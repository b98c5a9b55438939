//! Manifest edits: the changes of the set of families, tables and value files. The page is docs/formats/manifest.md.
//!
//! ```text
//! batch = edit*
//! edit  = u8 tag | varint bytes of body | body
//! ```
//!
//! A batch counts as a whole: one frame of kind `Edit`, or the parts of one record when it is longer than a frame may
//! be. Numbers are varints, checksums are fixed `u64`, texts and keys are a varint length and bytes.
//!
//! Unknown tags and bytes left over in a body are refused, never skipped: skipping an edit would lose tables.
//! Whether an edit makes sense in the state it meets is judged where the state is.

use std::fmt;

use kingtide_base::{
    ByteReader, DatabaseId, FamilyId, FileId, Lsn, SegmentId, SeqNo, Truncated,
    limits::{FAMILY_NAME_BYTES_MAX, KEY_BYTES_MAX, LEVELS_MAX},
    write_bytes, write_varint,
};

use crate::{OldestTombstone, TableMeta, ValueFileMeta, ValueFileUse};

/// The most options of one family in an edit.
pub const FAMILY_OPTIONS_MAX: usize = 256;
/// The longest name or value of a family option, in bytes.
pub const FAMILY_OPTION_BYTES_MAX: usize = 4096;
/// File, records and bytes of a value file use, one byte each.
const VALUE_FILE_USE_BYTES_MIN: usize = 3;

/// One change of the state of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Ids of klog and vlog files below this one may be in use; the next file gets this one or a larger one.
    NextFileId(FileId),
    /// As [`Edit::NextFileId`], for families.
    NextFamilyId(FamilyId),
    /// Where replay of the log begins. Segments of lives below `segment` are dead.
    LogStart {
        /// The first life that counts.
        segment: SegmentId,
        /// Commits up to this one are in tables or were dropped with their families.
        sequence: SeqNo,
        /// The position of the first frame that counts.
        position: Lsn,
    },
    /// A new family.
    AddFamily {
        /// Its id, never used before.
        id: FamilyId,
        /// Its name, not in use; 1 to [`FAMILY_NAME_BYTES_MAX`] bytes.
        name: String,
        /// Its settings, as names and values.
        options: Vec<(String, String)>,
    },
    /// Ends a family and what it uses.
    DropFamily {
        /// The family.
        id: FamilyId,
    },
    /// Gives a family another name.
    RenameFamily {
        /// The family.
        id: FamilyId,
        /// The new name, not in use.
        name: String,
    },
    /// Replaces all settings of a family.
    SetFamilyOptions {
        /// The family.
        id: FamilyId,
        /// The new settings.
        options: Vec<(String, String)>,
    },
    /// A table becomes part of a family.
    AddTable {
        /// The family.
        family: FamilyId,
        /// The level, from 1 to [`LEVELS_MAX`].
        level: u8,
        /// The table.
        meta: TableMeta,
    },
    /// A table stops being part of a family.
    RemoveTable {
        /// The family.
        family: FamilyId,
        /// Its level.
        level: u8,
        /// The table's file.
        file: FileId,
    },
    /// A table goes to another level of its family as it is.
    MoveTable {
        /// The family.
        family: FamilyId,
        /// Its level so far.
        from: u8,
        /// Its level from now on.
        to: u8,
        /// The table's file.
        file: FileId,
    },
    /// A value file that tables may point to from now on.
    AddValueFile(ValueFileMeta),
    /// No table points to the value file any more.
    RemoveValueFile(FileId),
    /// All commits of the family up to `sequence` are in its tables.
    FlushedThrough {
        /// The family.
        family: FamilyId,
        /// The last commit that is surely in tables.
        sequence: SeqNo,
    },
    /// The log was durable up to this position: a witness against loss of its end.
    LogDurable(Lsn),
    /// Which database this is, for ever. Segments of its log from the log's start on carry it.
    Identity(DatabaseId),
}

/// Why a batch was refused. Its frame's checksum matched, so this is a defect of the writer, or forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditFault {
    /// A number or a length reaches beyond the end, or a length exceeds its limit.
    Truncated,
    /// An edit that this version does not know.
    UnknownTag(u8),
    /// Bytes are left over at the end of the body of an edit with this tag.
    Rest(u8),
    /// A text is not UTF-8.
    Text,
    /// A level outside 1 to [`LEVELS_MAX`].
    Level(u8),
    /// A number exceeds 32 bits where an id of 32 bits stands.
    Id(u64),
}

impl fmt::Display for EditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a length in the edit exceeds its limit or its rest"),
            Self::UnknownTag(tag) => write!(f, "unknown edit {tag}"),
            Self::Rest(tag) => write!(f, "bytes left over in edit {tag}"),
            Self::Text => f.write_str("a text in the edit is not UTF-8"),
            Self::Level(level) => write!(f, "level {level} in the edit"),
            Self::Id(id) => write!(f, "id {id} in the edit"),
        }
    }
}

impl std::error::Error for EditFault {}

impl From<Truncated> for EditFault {
    fn from(Truncated: Truncated) -> Self {
        Self::Truncated
    }
}

/// The durable numbers of the edits.
mod tag {
    pub(super) const NEXT_FILE_ID: u8 = 1;
    pub(super) const NEXT_FAMILY_ID: u8 = 2;
    pub(super) const LOG_START: u8 = 3;
    pub(super) const ADD_FAMILY: u8 = 4;
    pub(super) const DROP_FAMILY: u8 = 5;
    pub(super) const RENAME_FAMILY: u8 = 6;
    pub(super) const SET_FAMILY_OPTIONS: u8 = 7;
    pub(super) const ADD_TABLE: u8 = 8;
    pub(super) const REMOVE_TABLE: u8 = 9;
    pub(super) const MOVE_TABLE: u8 = 10;
    pub(super) const ADD_VALUE_FILE: u8 = 11;
    pub(super) const REMOVE_VALUE_FILE: u8 = 12;
    pub(super) const FLUSHED_THROUGH: u8 = 13;
    pub(super) const LOG_DURABLE: u8 = 14;
    /// `ADD_TABLE` of a table with range deletes.
    pub(super) const ADD_TABLE_WITH_RANGES: u8 = 15;
    /// `ADD_TABLE` of a table whose sequence numbers are raised.
    pub(super) const ADD_TABLE_RAISED: u8 = 16;
    /// `ADD_TABLE` of a table with tombstones, range deletes or both, that says since when.
    pub(super) const ADD_TABLE_WITH_TOMBSTONES: u8 = 17;
    pub(super) const IDENTITY: u8 = 18;
}

/// The batch as the payload of a frame. The caller keeps names, options, keys and levels within their limits; a reader
/// refuses more.
#[must_use]
pub fn encode_edits(edits: &[Edit]) -> Vec<u8> {
    let mut target = Vec::new();
    let mut body = Vec::new();
    for edit in edits {
        body.clear();
        encode_body(&mut body, edit);
        target.push(tag_of(edit));
        write_bytes(&mut target, &body);
    }
    target
}

/// The edits of a batch.
///
/// # Errors
/// [`EditFault`] when any edit is not one that this version writes.
pub fn decode_edits(payload: &[u8]) -> Result<Vec<Edit>, EditFault> {
    let mut edits = Vec::new();
    let mut reader = ByteReader::new(payload);
    while !reader.is_empty() {
        let tag = reader.u8()?;
        let mut body = ByteReader::new(reader.bytes(payload.len())?);
        edits.push(decode_edit(tag, &mut body)?);
        if !body.is_empty() {
            return Err(EditFault::Rest(tag));
        }
    }
    Ok(edits)
}

const fn tag_of(edit: &Edit) -> u8 {
    match edit {
        Edit::NextFileId(_) => tag::NEXT_FILE_ID,
        Edit::NextFamilyId(_) => tag::NEXT_FAMILY_ID,
        Edit::LogStart { .. } => tag::LOG_START,
        Edit::AddFamily { .. } => tag::ADD_FAMILY,
        Edit::DropFamily { .. } => tag::DROP_FAMILY,
        Edit::RenameFamily { .. } => tag::RENAME_FAMILY,
        Edit::SetFamilyOptions { .. } => tag::SET_FAMILY_OPTIONS,
        Edit::AddTable { meta, .. } if meta.sequence_base.0 > 0 => tag::ADD_TABLE_RAISED,
        Edit::AddTable { meta, .. } if meta.oldest_tombstone.since > 0 => {
            tag::ADD_TABLE_WITH_TOMBSTONES
        }
        Edit::AddTable { meta, .. } if meta.range_deletes > 0 => tag::ADD_TABLE_WITH_RANGES,
        Edit::AddTable { .. } => tag::ADD_TABLE,
        Edit::RemoveTable { .. } => tag::REMOVE_TABLE,
        Edit::MoveTable { .. } => tag::MOVE_TABLE,
        Edit::AddValueFile(_) => tag::ADD_VALUE_FILE,
        Edit::RemoveValueFile(_) => tag::REMOVE_VALUE_FILE,
        Edit::FlushedThrough { .. } => tag::FLUSHED_THROUGH,
        Edit::LogDurable(_) => tag::LOG_DURABLE,
        Edit::Identity(_) => tag::IDENTITY,
    }
}

fn encode_body(body: &mut Vec<u8>, edit: &Edit) {
    match edit {
        Edit::NextFileId(file) | Edit::RemoveValueFile(file) => write_varint(body, file.0),
        Edit::NextFamilyId(id) | Edit::DropFamily { id } => write_varint(body, id.0.into()),
        Edit::LogDurable(position) => write_varint(body, position.0),
        Edit::Identity(database) => body.extend_from_slice(&database.0.to_le_bytes()),
        Edit::LogStart {
            segment,
            sequence,
            position,
        } => {
            write_varint(body, segment.0);
            write_varint(body, sequence.0);
            write_varint(body, position.0);
        }
        Edit::AddFamily { id, name, options } => {
            write_varint(body, id.0.into());
            write_bytes(body, name.as_bytes());
            write_options(body, options);
        }
        Edit::RenameFamily { id, name } => {
            write_varint(body, id.0.into());
            write_bytes(body, name.as_bytes());
        }
        Edit::SetFamilyOptions { id, options } => {
            write_varint(body, id.0.into());
            write_options(body, options);
        }
        Edit::AddTable {
            family,
            level,
            meta,
        } => {
            write_varint(body, family.0.into());
            body.push(*level);
            write_table(body, meta);
        }
        Edit::RemoveTable {
            family,
            level,
            file,
        } => {
            write_varint(body, family.0.into());
            body.push(*level);
            write_varint(body, file.0);
        }
        Edit::MoveTable {
            family,
            from,
            to,
            file,
        } => {
            write_varint(body, family.0.into());
            body.extend_from_slice(&[*from, *to]);
            write_varint(body, file.0);
        }
        Edit::AddValueFile(meta) => write_value_file(body, meta),
        Edit::FlushedThrough { family, sequence } => {
            write_varint(body, family.0.into());
            write_varint(body, sequence.0);
        }
    }
}

fn decode_edit(tag: u8, body: &mut ByteReader<'_>) -> Result<Edit, EditFault> {
    Ok(match tag {
        tag::NEXT_FILE_ID => Edit::NextFileId(FileId(body.varint()?)),
        tag::NEXT_FAMILY_ID => Edit::NextFamilyId(read_family(body)?),
        tag::LOG_START => Edit::LogStart {
            segment: SegmentId(body.varint()?),
            sequence: SeqNo(body.varint()?),
            position: Lsn(body.varint()?),
        },
        tag::ADD_FAMILY => Edit::AddFamily {
            id: read_family(body)?,
            name: read_text(body, FAMILY_NAME_BYTES_MAX)?,
            options: read_options(body)?,
        },
        tag::DROP_FAMILY => Edit::DropFamily {
            id: read_family(body)?,
        },
        tag::RENAME_FAMILY => Edit::RenameFamily {
            id: read_family(body)?,
            name: read_text(body, FAMILY_NAME_BYTES_MAX)?,
        },
        tag::SET_FAMILY_OPTIONS => Edit::SetFamilyOptions {
            id: read_family(body)?,
            options: read_options(body)?,
        },
        tag::ADD_TABLE => Edit::AddTable {
            family: read_family(body)?,
            level: read_level(body)?,
            meta: read_table(body)?,
        },
        tag::ADD_TABLE_WITH_RANGES => Edit::AddTable {
            family: read_family(body)?,
            level: read_level(body)?,
            meta: read_table_with_ranges(body)?,
        },
        tag::ADD_TABLE_WITH_TOMBSTONES => Edit::AddTable {
            family: read_family(body)?,
            level: read_level(body)?,
            meta: read_table_with_tombstones(body)?,
        },
        tag::ADD_TABLE_RAISED => Edit::AddTable {
            family: read_family(body)?,
            level: read_level(body)?,
            meta: read_table_raised(body)?,
        },
        tag::REMOVE_TABLE => Edit::RemoveTable {
            family: read_family(body)?,
            level: read_level(body)?,
            file: FileId(body.varint()?),
        },
        tag::MOVE_TABLE => Edit::MoveTable {
            family: read_family(body)?,
            from: read_level(body)?,
            to: read_level(body)?,
            file: FileId(body.varint()?),
        },
        tag::ADD_VALUE_FILE => Edit::AddValueFile(read_value_file(body)?),
        tag::REMOVE_VALUE_FILE => Edit::RemoveValueFile(FileId(body.varint()?)),
        tag::FLUSHED_THROUGH => Edit::FlushedThrough {
            family: read_family(body)?,
            sequence: SeqNo(body.varint()?),
        },
        tag::IDENTITY => Edit::Identity(DatabaseId(body.u128()?)),
        tag::LOG_DURABLE => Edit::LogDurable(Lsn(body.varint()?)),
        _ => return Err(EditFault::UnknownTag(tag)),
    })
}

fn read_family(body: &mut ByteReader<'_>) -> Result<FamilyId, EditFault> {
    let id = body.varint()?;
    u32::try_from(id)
        .map(FamilyId)
        .map_err(|_| EditFault::Id(id))
}

fn read_level(body: &mut ByteReader<'_>) -> Result<u8, EditFault> {
    match body.u8()? {
        level if (1..=LEVELS_MAX).contains(&usize::from(level)) => Ok(level),
        level => Err(EditFault::Level(level)),
    }
}

fn read_text(body: &mut ByteReader<'_>, bytes_max: usize) -> Result<String, EditFault> {
    let bytes = body.bytes(bytes_max)?;
    let text = str::from_utf8(bytes).map_err(|_| EditFault::Text)?;
    Ok(text.to_owned())
}

fn write_options(body: &mut Vec<u8>, options: &[(String, String)]) {
    write_varint(body, options.len() as u64);
    for (name, value) in options {
        write_bytes(body, name.as_bytes());
        write_bytes(body, value.as_bytes());
    }
}

fn read_options(body: &mut ByteReader<'_>) -> Result<Vec<(String, String)>, EditFault> {
    let count = body.length(FAMILY_OPTIONS_MAX)?;
    (0..count)
        .map(|_| {
            let name = read_text(body, FAMILY_OPTION_BYTES_MAX)?;
            Ok((name, read_text(body, FAMILY_OPTION_BYTES_MAX)?))
        })
        .collect()
}

fn write_table(body: &mut Vec<u8>, meta: &TableMeta) {
    write_varint(body, meta.file.0);
    write_varint(body, meta.file_bytes);
    body.extend_from_slice(&meta.footer_checksum.to_le_bytes());
    write_bytes(body, &meta.smallest);
    write_bytes(body, &meta.largest);
    write_varint(body, meta.sequence_min.0);
    write_varint(body, meta.sequence_max.0);
    write_varint(body, meta.entries);
    write_varint(body, meta.tombstones);
    write_varint(body, meta.raw_bytes);
    write_varint(body, meta.value_files.len() as u64);
    for used in &meta.value_files {
        write_varint(body, used.file.0);
        write_varint(body, used.records);
        write_varint(body, used.bytes);
    }
    if meta.sequence_base > SeqNo::ZERO {
        debug_assert_eq!(meta.range_deletes, 0, "a bulk load deletes nothing");
        debug_assert_eq!(meta.tombstones, 0, "a bulk load deletes nothing");
        write_varint(body, meta.sequence_base.0);
        return;
    }
    let OldestTombstone { sequence, since } = meta.oldest_tombstone;
    if meta.range_deletes > 0 || since > 0 {
        write_varint(body, meta.range_deletes);
        body.push(u8::from(meta.is_largest_excluded));
    }
    if since > 0 {
        write_varint(body, since);
        write_varint(body, sequence.0);
    }
}

fn read_table(body: &mut ByteReader<'_>) -> Result<TableMeta, EditFault> {
    Ok(TableMeta {
        file: FileId(body.varint()?),
        file_bytes: body.varint()?,
        footer_checksum: body.u64()?,
        smallest: body.bytes(KEY_BYTES_MAX)?.to_vec(),
        largest: body.bytes(KEY_BYTES_MAX)?.to_vec(),
        sequence_min: SeqNo(body.varint()?),
        sequence_max: SeqNo(body.varint()?),
        entries: body.varint()?,
        tombstones: body.varint()?,
        oldest_tombstone: OldestTombstone::default(),
        raw_bytes: body.varint()?,
        value_files: read_value_file_uses(body)?,
        sequence_base: SeqNo::ZERO,
        range_deletes: 0,
        is_largest_excluded: false,
    })
}

/// As [`read_table`], for a table with range deletes.
fn read_table_with_ranges(body: &mut ByteReader<'_>) -> Result<TableMeta, EditFault> {
    let meta = read_table_and_ranges(body, tag::ADD_TABLE_WITH_RANGES)?;
    match meta.range_deletes {
        0 => Err(EditFault::Rest(tag::ADD_TABLE_WITH_RANGES)),
        _ => Ok(meta),
    }
}

/// As [`read_table`], for a table that says since when it holds tombstones.
fn read_table_with_tombstones(body: &mut ByteReader<'_>) -> Result<TableMeta, EditFault> {
    let tag = tag::ADD_TABLE_WITH_TOMBSTONES;
    let mut meta = read_table_and_ranges(body, tag)?;
    meta.oldest_tombstone = OldestTombstone {
        since: body.varint()?,
        sequence: SeqNo(body.varint()?),
    };
    let OldestTombstone { sequence, since } = meta.oldest_tombstone;
    let is_within = (meta.sequence_min..=meta.sequence_max).contains(&sequence);
    match since > 0 && is_within && meta.has_tombstones() {
        true => Ok(meta),
        false => Err(EditFault::Rest(tag)),
    }
}

/// A table and what is known of its range deletes, of which there may be none, for an edit with this tag.
fn read_table_and_ranges(body: &mut ByteReader<'_>, tag: u8) -> Result<TableMeta, EditFault> {
    let mut meta = read_table(body)?;
    meta.range_deletes = body.varint()?;
    meta.is_largest_excluded = match body.u8()? {
        0 => false,
        1 => true,
        _ => return Err(EditFault::Rest(tag)),
    };
    match meta.is_largest_excluded && meta.range_deletes == 0 {
        true => Err(EditFault::Rest(tag)),
        false => Ok(meta),
    }
}

/// As [`read_table`], for a table of a bulk load, which holds no tombstones.
fn read_table_raised(body: &mut ByteReader<'_>) -> Result<TableMeta, EditFault> {
    let mut meta = read_table(body)?;
    let base = SeqNo(body.varint()?);
    meta.sequence_base = base;
    let is_possible = base > SeqNo::ZERO && base <= meta.sequence_min && !meta.has_tombstones();
    match is_possible {
        true => Ok(meta),
        false => Err(EditFault::Rest(tag::ADD_TABLE_RAISED)),
    }
}

fn read_value_file_uses(body: &mut ByteReader<'_>) -> Result<Vec<ValueFileUse>, EditFault> {
    let count = body.length(body.rest().len() / VALUE_FILE_USE_BYTES_MIN)?;
    (0..count)
        .map(|_| {
            Ok(ValueFileUse {
                file: FileId(body.varint()?),
                records: body.varint()?,
                bytes: body.varint()?,
            })
        })
        .collect()
}

fn write_value_file(body: &mut Vec<u8>, meta: &ValueFileMeta) {
    write_varint(body, meta.file.0);
    write_varint(body, meta.file_bytes);
    body.extend_from_slice(&meta.footer_checksum.to_le_bytes());
    write_varint(body, meta.records);
}

fn read_value_file(body: &mut ByteReader<'_>) -> Result<ValueFileMeta, EditFault> {
    Ok(ValueFileMeta {
        file: FileId(body.varint()?),
        file_bytes: body.varint()?,
        footer_checksum: body.u64()?,
        records: body.varint()?,
    })
}

#[cfg(test)]
mod tests;
