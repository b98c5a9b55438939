//! What the log holds that may not be in tables.
//!
//! The segments that count are those from the manifest's log start on; when that is lost, the longest run of lives
//! without a gap that ends with the newest, because what is older has been in tables for long. A segment that the manifest
//! tells to be of another database is left out. A record counts when all
//! its frames are whole and it is newer than what its family has in tables. As in a recovery the log ends at its first
//! invalid frame; that is a *hole*, and a loss, when a frame behind it, or the manifest, says that it had been durable.

use std::collections::BTreeMap;

use kingtide_base::{EntryKind, FamilyId, Lsn, SeqNo};
use kingtide_collections::unpacked_value;
use kingtide_format::{
    Control, FRAME_ALIGN, Frame, FrameKind, HeaderFault, Op, RecordReader, SEGMENT_FRAMES_OFFSET,
    SEGMENT_VERSION, SegmentHeader, decode_frame, split_control,
};

use super::{
    RepairOptions, foreign,
    report::{ManifestFound, RepairLoss, RepairReport},
    source::{Source, read_all},
    survey::{Plan, Survey},
};
use crate::{error::Result, memtable::surviving, wal::segment_slot};

/// One operation of the log.
#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    pub(super) key: Vec<u8>,
    pub(super) sequence: SeqNo,
    pub(super) kind: EntryKind,
    pub(super) expires_at: i64,
    pub(super) value: Vec<u8>,
}

/// A transaction that waits for its outcome.
pub(super) struct PreparedFound {
    pub(super) xid: Vec<u8>,
    pub(super) isolation: u8,
    pub(super) operations: Vec<(FamilyId, LogEntry)>,
}

/// What the log holds besides what the plans got.
#[derive(Default)]
pub(super) struct LogFound {
    /// True when the log has what a whole manifest would know: the end of the manifest is missing.
    pub(super) contradicts_manifest: bool,
    pub(super) prepared: Vec<PreparedFound>,
}

/// Reads the log of `source` into the plans.
///
/// # Errors
/// `NewerVersion`, `ComparatorMissing`, and what the system answers.
pub(super) fn read(
    source: &Source,
    survey: &Survey,
    plans: &mut Vec<Plan>,
    (options, report): (&RepairOptions, &mut RepairReport),
) -> Result<LogFound> {
    let segments = find_segments(source, survey, report)?;
    report.has_no_log = segments.is_empty();
    let mut walk = Walk {
        survey,
        plans,
        options,
        report,
        end: survey.draft.log_position,
        hole: None,
        is_behind_hole: false,
        parts: None,
        prepared: BTreeMap::new(),
        contradicts_manifest: false,
    };
    for (index, segment) in segments.iter().enumerate() {
        walk.segment(index, segment)?;
    }
    walk.check_end(survey.draft.log_durable);
    let prepared = std::mem::take(&mut walk.prepared);
    let contradicts_manifest = walk.contradicts_manifest;
    for plan in plans.iter_mut() {
        let order = plan.order.clone();
        plan.log.sort_by(|left, right| {
            order
                .compare(&left.key, &right.key)
                .then(right.sequence.cmp(&left.sequence))
        });
    }
    Ok(LogFound {
        contradicts_manifest,
        prepared: prepared.into_values().collect(),
    })
}

struct Segment {
    path: String,
    header: SegmentHeader,
    bytes: Vec<u8>,
}

fn find_segments(
    source: &Source,
    survey: &Survey,
    report: &mut RepairReport,
) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for (name, _) in &source.wal.files {
        let (Some(_), Some(file)) = (segment_slot(name), source.wal.read(name)?) else {
            continue;
        };
        let path = source.wal.path(name);
        let bytes = read_all(&*file, &path)?;
        let head = &bytes[..bytes.len().min(SEGMENT_FRAMES_OFFSET as usize)];
        let lost = |what: &str| RepairLoss {
            file: path.clone(),
            bytes: bytes.len() as u64,
            what: format!("a segment of the log{what}"),
            has_keys: true,
            ..RepairLoss::default()
        };
        match SegmentHeader::decode_either(head) {
            // Older than what counts.
            Ok(header) if header.segment < survey.draft.log_segment => {}
            Ok(header) if foreign::is_segment(&survey.draft, header.database) => {
                report
                    .losses
                    .push(lost(", which is that of another database"));
            }
            Ok(header) => {
                segments.push(Segment {
                    path,
                    header,
                    bytes,
                });
            }
            Err(HeaderFault::NewerVersion(found)) => {
                let error = kingtide_base::StorageError::NewerVersion {
                    file: path,
                    found,
                    supported: SEGMENT_VERSION,
                };
                return Err(error.into());
            }
            Err(HeaderFault::Checksum { .. } | HeaderFault::Malformed) => {
                report
                    .losses
                    .push(lost(" whose header is damaged in both copies"));
            }
            // Never begun.
            Err(_) => {}
        }
    }
    segments.sort_by_key(|segment| segment.header.segment);
    if survey.draft.found != ManifestFound::Whole {
        let gap = segments
            .windows(2)
            .rposition(|pair| pair[0].header.segment.next() != pair[1].header.segment);
        segments.drain(..gap.map_or(0, |gap| gap + 1));
    }
    Ok(segments)
}

/// A hole in the log.
struct Hole {
    path: String,
    offset: u64,
    position: Lsn,
    is_told: bool,
}

struct Walk<'a> {
    survey: &'a Survey,
    plans: &'a mut Vec<Plan>,
    options: &'a RepairOptions,
    report: &'a mut RepairReport,
    /// The position behind the last valid frame.
    end: Lsn,
    hole: Option<Hole>,
    is_behind_hole: bool,
    /// The parts so far of a record in parts, and its number.
    parts: Option<(SeqNo, Vec<u8>)>,
    prepared: BTreeMap<Vec<u8>, PreparedFound>,
    contradicts_manifest: bool,
}

impl Walk<'_> {
    fn segment(&mut self, index: usize, segment: &Segment) -> Result<()> {
        let header = &segment.header;
        let draft = &self.survey.draft;
        let skipped = draft.log_position.0.saturating_sub(header.base.0);
        let first = usize::try_from(SEGMENT_FRAMES_OFFSET.saturating_add(skipped));
        let mut offset = first.unwrap_or(usize::MAX);
        let is_first = match draft.found {
            ManifestFound::Whole => header.segment == draft.log_segment,
            _ => index == 0,
        };
        if is_first {
            self.end = self.end.max(header.base);
        } else if index == 0 || header.base != self.end {
            // The segment where the manifest lets the log begin goes only after a later edit.
            self.contradicts_manifest |= index == 0;
            self.open_hole(&segment.path, SEGMENT_FRAMES_OFFSET);
        }
        let length = segment.bytes.len() as u64;
        if length < header.bytes {
            self.report.losses.push(RepairLoss {
                file: segment.path.clone(),
                offset: length,
                bytes: header.bytes - length,
                what: "the end of a segment of the log, with or without commits in it".to_owned(),
                has_keys: true,
                ..RepairLoss::default()
            });
        }
        let mut damaged_from = None;
        while offset < segment.bytes.len() {
            let position = position_of(header, offset);
            let Ok(frame) = decode_frame(&segment.bytes[offset..], header.salt, position) else {
                damaged_from.get_or_insert(offset);
                offset += FRAME_ALIGN;
                continue;
            };
            if let Some(from) = damaged_from.take() {
                self.open_hole(&segment.path, from as u64);
            }
            self.check_hole(frame.header.durable);
            self.frame(&frame)?;
            offset += frame.bytes;
            self.end = position_of(header, offset);
        }
        Ok(())
    }

    /// What follows does not follow what was read.
    fn open_hole(&mut self, path: &str, offset: u64) {
        self.is_behind_hole = true;
        self.parts = None;
        if self.hole.is_none() {
            self.hole = Some(Hole {
                path: path.to_owned(),
                offset,
                position: self.end,
                is_told: false,
            });
        }
    }

    /// A frame says how far the log was durable: the first hole is a loss if that lies beyond it.
    fn check_hole(&mut self, durable: Lsn) {
        let Some(hole) = &mut self.hole else { return };
        if hole.is_told || durable <= hole.position {
            return;
        }
        hole.is_told = true;
        self.report.losses.push(RepairLoss {
            file: hole.path.clone(),
            offset: hole.offset,
            what: "a hole in the log: commits are lost, and what comes behind it is left out unless asked for"
                .to_owned(),
            has_keys: true,
            ..RepairLoss::default()
        });
    }

    fn check_end(&mut self, durable: Lsn) {
        let end = self.hole.as_ref().map_or(self.end, |hole| hole.position);
        let is_told = self.hole.as_ref().is_some_and(|hole| hole.is_told);
        if durable > end && !is_told {
            self.report.losses.push(RepairLoss {
                file: "wal".to_owned(),
                bytes: durable.0 - end.0,
                what: format!(
                    "the log breaks off at position {end} although it was durable up to position {durable}"
                ),
                has_keys: true,
            ..RepairLoss::default()
            });
        }
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<()> {
        let sequence = frame.header.sequence;
        let mut scratch = Vec::new();
        // A checksum held, as in `record`.
        let Ok(payload) = frame.unpacked(&mut scratch) else {
            self.parts = None;
            return Ok(());
        };
        match frame.header.kind {
            FrameKind::Commit => {
                self.parts = None;
                self.record(sequence, payload)
            }
            FrameKind::PartFirst => {
                self.parts = Some((sequence, payload.to_vec()));
                Ok(())
            }
            FrameKind::PartMiddle | FrameKind::PartLast => {
                let Some((of, mut parts)) = self.parts.take() else {
                    return Ok(());
                };
                if of != sequence {
                    return Ok(());
                }
                parts.extend_from_slice(payload);
                if frame.header.kind == FrameKind::PartLast {
                    return self.record(sequence, &parts);
                }
                self.parts = Some((of, parts));
                Ok(())
            }
            FrameKind::Mark | FrameKind::SegmentEnd | FrameKind::Edit => Ok(()),
        }
    }

    fn record(&mut self, sequence: SeqNo, payload: &[u8]) -> Result<()> {
        if self.is_behind_hole {
            self.report.log_records_behind_holes += 1;
            if !self.options.log_after_holes {
                return Ok(());
            }
        }
        self.report.log_records += 1;
        // A checksum held: what is malformed was written so, by a defect. Nothing in it can be believed.
        let Ok((control, sections)) = split_control(payload) else {
            return Ok(());
        };
        let Some(operations) = operations_of(sequence, sections) else {
            return Ok(());
        };
        match control {
            Some(Control::Prepare(prepare)) => {
                let found = PreparedFound {
                    xid: prepare.xid.to_vec(),
                    isolation: prepare.isolation,
                    operations,
                };
                self.prepared.insert(found.xid.clone(), found);
                return Ok(());
            }
            Some(Control::Commit(xid) | Control::Rollback(xid)) => {
                self.prepared.remove(xid);
            }
            None => {}
        }
        self.take(operations)
    }

    /// Gives the operations of one commit to their families.
    fn take(&mut self, operations: Vec<(FamilyId, LogEntry)>) -> Result<()> {
        let mut by_family: BTreeMap<FamilyId, Vec<LogEntry>> = BTreeMap::new();
        for (family, entry) in operations {
            by_family.entry(family).or_default().push(entry);
        }
        for (family, entries) in by_family {
            let Some(plan) = self.plan(family)? else {
                continue;
            };
            if entries
                .first()
                .is_some_and(|entry| entry.sequence <= plan.flushed_through)
            {
                continue;
            }
            let plain = entries
                .iter()
                .map(|entry| (entry.kind, entry.key.as_slice(), entry.value.as_slice()));
            match surviving(&plan.order, plain) {
                None => plan.log.extend(entries),
                Some(left) => {
                    let left: Vec<LogEntry> = left
                        .into_iter()
                        .map(|index| entries[index as usize].clone())
                        .collect();
                    let ranges = entries
                        .into_iter()
                        .filter(|entry| entry.kind == EntryKind::RangeDelete);
                    plan.log.extend(left.into_iter().chain(ranges));
                }
            }
        }
        Ok(())
    }

    fn plan(&mut self, family: FamilyId) -> Result<Option<&mut Plan>> {
        if let Some(index) = self.plans.iter().position(|plan| plan.id == family) {
            return Ok(Some(&mut self.plans[index]));
        }
        if self.survey.is_dropped(family) {
            // A family is in the manifest before anything of it is in the log.
            self.contradicts_manifest |= family >= self.survey.draft.next_family;
            return Ok(None);
        }
        self.plans
            .push(Plan::new(family, None, None, &self.options.comparators)?);
        Ok(self.plans.last_mut())
    }
}

/// The operations of a record; `None` when it is malformed.
fn operations_of(sequence: SeqNo, sections: &[u8]) -> Option<Vec<(FamilyId, LogEntry)>> {
    let entry = |op: Op<'_>| {
        let (kind, value) = match op.kind {
            EntryKind::PutPacked => (EntryKind::Put, unpacked_value(op.value).ok()?),
            kind => (kind, op.value.to_vec()),
        };
        Some(LogEntry {
            key: op.key.to_vec(),
            sequence,
            kind,
            expires_at: op.expires_at,
            value,
        })
    };
    let mut operations = Vec::new();
    for section in RecordReader::new(sections) {
        let section = section.ok()?;
        for op in section.ops {
            operations.push((section.family, entry(op.ok()?)?));
        }
    }
    Some(operations)
}

fn position_of(header: &SegmentHeader, offset: usize) -> Lsn {
    let bytes = (offset as u64).saturating_sub(SEGMENT_FRAMES_OFFSET);
    Lsn(header.base.0.saturating_add(bytes))
}
