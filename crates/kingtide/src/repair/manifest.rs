//! What a manifest says: all of it, or what its whole frames say when it is damaged.
//!
//! The frames of a damaged manifest are looked for at every place where one may begin, and every edit is taken for what
//! it says, whether it fits the others or not. An addition whose removal is lost counts; a removal whose addition is
//! lost counts too. So a table may be taken in that was merged away before; its entries are older versions of what the
//! others hold, and lose against them by their sequence numbers.

use std::collections::{BTreeMap, BTreeSet};

use kingtide_base::{DatabaseId, FamilyId, FileId, Lsn, SegmentId, SeqNo, StorageError};
use kingtide_env::OpenMode;
use kingtide_format::{Edit, FRAME_ALIGN, FrameKind, TableMeta, decode_edits, decode_frame};

use super::{
    report::{ManifestFound, RepairLoss},
    source::{Source, read_all},
};
use crate::{error::Result, manifest, options::FamilyOptions};
use crate::{family::decode_options, manifest::ManifestState};

/// Where in a manifest its salt stands, and where its first frame does.
const SALT: std::ops::Range<usize> = 16..24;
const FRAMES: usize = 64;

/// What is known of the database.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) found: ManifestFound,
    pub(super) families: BTreeMap<FamilyId, FamilyDraft>,
    dropped: BTreeSet<FamilyId>,
    removed: BTreeSet<(FamilyId, FileId)>,
    /// Larger than the id of every family that the manifest ever knew.
    pub(super) next_family: FamilyId,
    pub(super) log_segment: SegmentId,
    pub(super) log_position: Lsn,
    pub(super) log_durable: Lsn,
    /// Which database this is, and the footer checksums of its value files.
    pub(super) database: Option<DatabaseId>,
    pub(super) value_footers: BTreeMap<FileId, u64>,
}

/// What is known of a family.
#[derive(Default)]
pub(super) struct FamilyDraft {
    pub(super) name: Option<String>,
    pub(super) options: Option<FamilyOptions>,
    /// All its commits up to this one are in tables.
    pub(super) flushed_through: SeqNo,
    pub(super) tables: BTreeMap<FileId, TableMeta>,
}

impl Draft {
    /// Reads the manifest of `source`; answers what it says and what of it is lost.
    ///
    /// # Errors
    /// `NewerVersion`, and what the system answers.
    pub(super) fn read(source: &Source) -> Result<(Self, Option<RepairLoss>)> {
        let is_there = manifest::is_present(source.root.as_ref())?;
        if !is_there {
            let draft = Self {
                found: ManifestFound::Lost,
                ..Self::default()
            };
            return Ok((draft, Some(loss("MANIFEST", 0, "the manifest is missing"))));
        }
        match manifest::read(source.root.as_ref()) {
            Ok(state) => Ok((Self::of_state(&state), None)),
            Err(StorageError::Corruption(damage)) => {
                let mut draft = Self {
                    found: ManifestFound::Lost,
                    ..Self::default()
                };
                draft.search(source, &damage.file)?;
                let loss = loss(&damage.file, damage.offset, &damage.what);
                Ok((draft, Some(loss)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn of_state(state: &ManifestState) -> Self {
        let mut draft = Self::default();
        for edit in state.to_edits() {
            draft.apply(edit);
        }
        draft
    }

    /// Takes in every whole frame of a damaged manifest.
    fn search(&mut self, source: &Source, name: &str) -> Result<()> {
        let file = source
            .root
            .open(name, OpenMode::Read)
            .map_err(|error| StorageError::io(name, "open", error))?;
        let bytes = read_all(&*file, name)?;
        let Some(salt) = bytes.get(SALT).and_then(|salt| salt.first_chunk::<8>()) else {
            return Ok(());
        };
        let salt = u64::from_le_bytes(*salt);
        let mut parts: Vec<u8> = Vec::new();
        let mut parts_end = None;
        let mut offset = FRAMES;
        while offset < bytes.len() {
            let Ok(frame) = decode_frame(&bytes[offset..], salt, Lsn(offset as u64)) else {
                offset += FRAME_ALIGN;
                continue;
            };
            let follows = parts_end == Some(offset);
            let end = offset + frame.bytes;
            parts_end = None;
            match frame.header.kind {
                FrameKind::Edit => self.batch(frame.payload),
                FrameKind::PartFirst => {
                    parts = frame.payload.to_vec();
                    parts_end = Some(end);
                }
                FrameKind::PartMiddle if follows => {
                    parts.extend_from_slice(frame.payload);
                    parts_end = Some(end);
                }
                FrameKind::PartLast if follows => {
                    parts.extend_from_slice(frame.payload);
                    self.batch(&parts);
                }
                _ => {}
            }
            offset = end;
        }
        Ok(())
    }

    fn batch(&mut self, payload: &[u8]) {
        // A frame of a manifest that fails here was written by a defect; nothing in it can be believed.
        for edit in decode_edits(payload).unwrap_or_default() {
            self.found = ManifestFound::Partly;
            self.apply(edit);
        }
        self.forget_removed();
    }

    fn forget_removed(&mut self) {
        for (family, file) in &self.removed {
            if let Some(family) = self.families.get_mut(family) {
                family.tables.remove(file);
            }
        }
        for family in &self.dropped {
            self.families.remove(family);
        }
    }

    fn apply(&mut self, edit: Edit) {
        match edit {
            Edit::AddFamily { id, name, options } => {
                self.next_family = self.next_family.max(id.next());
                let family = self.families.entry(id).or_default();
                family.name = Some(name);
                family.options = decode_options(&options).ok();
            }
            Edit::DropFamily { id } => {
                self.dropped.insert(id);
            }
            Edit::RenameFamily { id, name } => {
                self.families.entry(id).or_default().name = Some(name);
            }
            Edit::SetFamilyOptions { id, options } => {
                let family = self.families.entry(id).or_default();
                family.options = decode_options(&options).ok();
            }
            Edit::AddTable { family, meta, .. } => {
                let family = self.families.entry(family).or_default();
                family.tables.insert(meta.file, meta);
            }
            Edit::RemoveTable { family, file, .. } => {
                self.removed.insert((family, file));
            }
            Edit::FlushedThrough { family, sequence } => {
                let family = self.families.entry(family).or_default();
                family.flushed_through = family.flushed_through.max(sequence);
            }
            Edit::LogStart {
                segment, position, ..
            } => {
                self.log_segment = self.log_segment.max(segment);
                self.log_position = self.log_position.max(position);
            }
            Edit::LogDurable(position) => self.log_durable = self.log_durable.max(position),
            Edit::NextFamilyId(id) => self.next_family = self.next_family.max(id),
            Edit::Identity(database) => self.database = Some(database),
            Edit::AddValueFile(meta) => {
                self.value_footers.insert(meta.file, meta.footer_checksum);
            }
            Edit::NextFileId(_) | Edit::MoveTable { .. } | Edit::RemoveValueFile(_) => {}
        }
    }

    /// The manifest is that of another database: nothing is known then.
    pub(super) fn disown(&mut self) -> RepairLoss {
        *self = Self {
            found: ManifestFound::Lost,
            ..Self::default()
        };
        loss("MANIFEST", 0, "all of it: it is that of another database")
    }

    /// The manifest is whole, and others contradict it: its end was cut off.
    pub(super) fn distrust(&mut self) -> RepairLoss {
        self.found = ManifestFound::Partly;
        loss(
            "MANIFEST",
            0,
            "its last edits: tables or the log name families that it does not know, or the log begins elsewhere",
        )
    }

    /// True when `file` was in `family` and was removed from it.
    pub(super) fn is_removed(&self, family: FamilyId, file: FileId) -> bool {
        self.dropped.contains(&family) || self.removed.contains(&(family, file))
    }
}

fn loss(file: &str, offset: u64, what: &str) -> RepairLoss {
    RepairLoss {
        file: file.to_owned(),
        offset,
        what: what.to_owned(),
        ..RepairLoss::default()
    }
}
