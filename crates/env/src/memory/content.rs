//! The bytes of one file: what readers see (*live*) and what a power cut certainly leaves (*durable*).
//!
//! Both are lists of 4 KiB pages behind reference counts; an absent page is a hole and reads as zero. A page that was
//! synced and not written since is one page in both lists, and a copy of a whole world copies counts, not bytes. For
//! each page written since, a mask says which of its eight sectors were.
//!
//! Invariants
//! - A sector whose bytes differ between the lists is in the mask of its page (`written` or `abandoned`).
//! - Live bytes at and beyond `live_bytes` are zero, so extending a file exposes nothing old.
//!
//! After a failed sync the written sectors are *abandoned*: whether they reached the disk stays open for ever, also
//! across a later sync that succeeds, until they are written again. This is what Linux does, which marks the pages of
//! a failed write-back clean.

use std::{
    collections::BTreeMap,
    hash::Hasher,
    sync::{Arc, LazyLock},
};

/// Bytes that a power cut keeps or loses together, unless it tears them.
pub(super) const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;
const PAGE_SECTORS: usize = PAGE_BYTES / SECTOR_BYTES;
/// The longest file, in bytes; bounds the page list that a write at a huge offset makes.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 30;

const _: () = assert!(PAGE_SECTORS == 8, "a mask has one bit per sector");

type Page = [u8; PAGE_BYTES];
type PageList = Vec<Option<Arc<Page>>>;

/// Shared by every page that was allocated and not written, so that allocating is cheap.
static ZERO_PAGE: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE_BYTES]));

/// One bit per sector of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Unsynced {
    /// Written since the last sync.
    written: u8,
    /// Written before a sync that failed, and not since.
    abandoned: u8,
}

/// What a power cut does to one unsynced sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorFate {
    /// It has the live bytes.
    Kept,
    /// It has the durable bytes.
    Dropped,
    /// Its first bytes are live, the rest durable.
    Torn(usize),
    /// The bytes that were changed are zero. (Unchanged ones stay: they were synced.)
    Zeroed,
}

/// Decides what a power cut leaves of what was not synced. Asked in the same order for the same content.
pub(super) trait Decide {
    /// The fate of one sector.
    fn sector(&mut self) -> SectorFate;
    /// The length: `durable`, `live`, or one between them.
    fn length(&mut self, durable: u64, live: u64) -> u64;
}

/// The bytes of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: PageList,
    live_bytes: u64,
    live_pages: u64,
    durable: PageList,
    durable_bytes: u64,
    unsynced: BTreeMap<usize, Unsynced>,
}

impl Content {
    /// A file that holds `bytes`, all durable.
    pub(super) fn durable_from(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(bytes, 0);
        content.sync();
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes of disk that the live pages take.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.live_pages * PAGE_BYTES as u64
    }

    /// Bytes of disk that writing `offset .. end` would take in addition.
    pub(super) fn bytes_to_allocate(&self, offset: u64, end: u64) -> u64 {
        if offset >= end {
            return 0;
        }
        let pages = page_of(offset)..page_of(end - 1) + 1;
        let known = pages.start.min(self.live.len())..pages.end.min(self.live.len());
        let present = self.live[known]
            .iter()
            .filter(|page| page.is_some())
            .count();
        ((pages.len() - present) * PAGE_BYTES) as u64
    }

    /// Reads what is there; fewer bytes than asked for only at the end.
    pub(super) fn read(&self, target: &mut [u8], offset: u64) -> usize {
        let rest = self.live_bytes.saturating_sub(offset);
        let count = usize::try_from(rest)
            .unwrap_or(usize::MAX)
            .min(target.len());
        for step in steps(offset, count as u64) {
            let target = &mut target[step.done..step.done + step.bytes];
            match self.live.get(step.page) {
                Some(Some(page)) => {
                    target.copy_from_slice(&page[step.start..step.start + step.bytes]);
                }
                _ => target.fill(0),
            }
        }
        count
    }

    /// Feeds the live bytes to `hasher`. Holes and pages that were allocated only cost nothing.
    pub(super) fn hash_live(&self, hasher: &mut impl Hasher) {
        hasher.write_u64(self.live_bytes);
        for (index, page) in self.live.iter().enumerate() {
            let written = page.as_ref().filter(|page| !Arc::ptr_eq(page, &ZERO_PAGE));
            // Pages of zeros may be holes in an equal file.
            if let Some(page) = written.filter(|page| page.iter().any(|byte| *byte != 0)) {
                hasher.write_usize(index);
                hasher.write(&page[..]);
            }
        }
    }

    /// Writes `source`. The end must be at most [`FILE_BYTES_MAX`].
    pub(super) fn write(&mut self, source: &[u8], offset: u64) {
        for step in steps(offset, source.len() as u64) {
            let source = &source[step.done..step.done + step.bytes];
            let page = self.live_page(step.page);
            Arc::make_mut(page)[step.start..step.start + step.bytes].copy_from_slice(source);
            self.mark(step);
        }
        self.extend_to(offset, source.len() as u64);
    }

    /// Writes zeros and takes the space for them. The end must be at most [`FILE_BYTES_MAX`].
    pub(super) fn allocate(&mut self, offset: u64, bytes: u64) {
        for step in steps(offset, bytes) {
            let page = self.live_page(step.page);
            if step.bytes == PAGE_BYTES {
                *page = Arc::clone(&ZERO_PAGE);
            } else {
                Arc::make_mut(page)[step.start..step.start + step.bytes].fill(0);
            }
            self.mark(step);
        }
        self.extend_to(offset, bytes);
    }

    /// Cuts or extends to `bytes`, at most [`FILE_BYTES_MAX`].
    pub(super) fn set_len(&mut self, bytes: u64) {
        let old_bytes = std::mem::replace(&mut self.live_bytes, bytes);
        if bytes >= old_bytes {
            return;
        }
        for step in steps(bytes, old_bytes - bytes) {
            let Some(slot @ Some(_)) = self.live.get_mut(step.page) else {
                continue;
            };
            if step.start == 0 {
                *slot = None;
                self.live_pages -= 1;
            } else if let Some(page) = slot {
                Arc::make_mut(page)[step.start..step.start + step.bytes].fill(0);
            }
            self.mark(step);
        }
        self.live.truncate(page_of(bytes) + 1);
    }

    /// Makes everything durable but what an earlier sync failed to.
    pub(super) fn sync(&mut self) {
        let unsynced = std::mem::take(&mut self.unsynced);
        for (index, mask) in unsynced {
            let settled = mask.written & !mask.abandoned;
            if mask.abandoned == 0 {
                let page = self.live.get(index).cloned().flatten();
                *slot_of(&mut self.durable, index) = page;
                continue;
            }
            for sector in sectors_of(settled) {
                let bytes = self.live_sector(index, sector);
                durable_page(&mut self.durable, index)[range_of(sector)].copy_from_slice(&bytes);
            }
            self.unsynced.insert(
                index,
                Unsynced {
                    written: 0,
                    abandoned: mask.abandoned,
                },
            );
        }
        self.durable_bytes = self.live_bytes;
    }

    /// A sync failed: the fate of what was written stays open from now on.
    pub(super) fn abandon(&mut self) {
        for mask in self.unsynced.values_mut() {
            mask.abandoned |= mask.written;
            mask.written = 0;
        }
    }

    /// The content after a power cut whose doings `decide` says. Everything in it is durable.
    pub(super) fn after_power_cut(&self, decide: &mut dyn Decide) -> Self {
        let bytes = if self.durable_bytes == self.live_bytes {
            self.live_bytes
        } else {
            decide.length(self.durable_bytes, self.live_bytes)
        };
        let mut pages = self.durable.clone();
        for (index, mask) in &self.unsynced {
            for sector in sectors_of(mask.written | mask.abandoned) {
                self.settle_sector(&mut pages, *index, sector, decide);
            }
        }
        let mut content = Self {
            live_pages: pages.iter().flatten().count() as u64,
            // The list may hold bytes beyond both lengths; cutting from its very end clears them.
            live_bytes: (pages.len() * PAGE_BYTES) as u64,
            live: pages,
            ..Self::default()
        };
        content.set_len(bytes);
        content.unsynced.clear();
        content.durable = content.live.clone();
        content.durable_bytes = bytes;
        content
    }

    /// Changes one byte, in the live and in the durable bytes alike, as damage on the disk does. `false` beyond the
    /// end.
    pub(super) fn corrupt(&mut self, offset: u64, change: impl FnOnce(&mut u8)) -> bool {
        if offset >= self.live_bytes {
            return false;
        }
        let index = page_of(offset);
        let position = (offset % PAGE_BYTES as u64) as usize;
        let page = Arc::make_mut(self.live_page(index));
        change(&mut page[position]);
        let byte = page[position];
        durable_page(&mut self.durable, index)[position] = byte;
        true
    }

    /// Applies the fate of one sector that differs between the lists to `pages`, a copy of the durable list. Live
    /// bytes beyond the live end do not count: there the file was cut, which the length decides.
    fn settle_sector(
        &self,
        pages: &mut PageList,
        index: usize,
        sector: usize,
        decide: &mut dyn Decide,
    ) {
        let start = (index * PAGE_BYTES + sector * SECTOR_BYTES) as u64;
        let inside = self
            .live_bytes
            .saturating_sub(start)
            .min(SECTOR_BYTES as u64) as usize;
        let live = self.live_sector(index, sector);
        let durable = sector_in(&self.durable, index, sector);
        if live[..inside] == durable[..inside] {
            return;
        }
        let mut result = durable;
        match decide.sector() {
            SectorFate::Kept => result[..inside].copy_from_slice(&live[..inside]),
            SectorFate::Dropped => return,
            SectorFate::Torn(bytes) => {
                let torn = bytes.min(inside);
                result[..torn].copy_from_slice(&live[..torn]);
            }
            SectorFate::Zeroed => {
                for (byte, live) in result[..inside].iter_mut().zip(&live) {
                    if byte != live {
                        *byte = 0;
                    }
                }
            }
        }
        durable_page(pages, index)[range_of(sector)].copy_from_slice(&result);
    }

    /// The live page `index`, made when it is a hole.
    fn live_page(&mut self, index: usize) -> &mut Arc<Page> {
        let slot = slot_of(&mut self.live, index);
        if slot.is_none() {
            self.live_pages += 1;
        }
        slot.get_or_insert_with(|| Arc::clone(&ZERO_PAGE))
    }

    fn live_sector(&self, index: usize, sector: usize) -> [u8; SECTOR_BYTES] {
        sector_in(&self.live, index, sector)
    }

    /// Notes that the sectors of `step` were written.
    fn mark(&mut self, step: Step) {
        let first = step.start / SECTOR_BYTES;
        let last = (step.start + step.bytes - 1) / SECTOR_BYTES;
        let written = (first..=last).fold(0_u8, |mask, sector| mask | 1 << sector);
        let mask = self.unsynced.entry(step.page).or_default();
        mask.written |= written;
        mask.abandoned &= !written;
    }

    fn extend_to(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.live_bytes = self.live_bytes.max(offset + bytes);
        }
    }
}

/// The part of a range that lies in one page; never empty.
#[derive(Clone, Copy)]
struct Step {
    page: usize,
    /// Where the part begins in the page.
    start: usize,
    bytes: usize,
    /// Bytes of the range before this part.
    done: usize,
}

/// Splits a range at page borders.
fn steps(offset: u64, bytes: u64) -> impl Iterator<Item = Step> {
    let mut position = offset;
    let end = offset + bytes;
    std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        let start = (position % PAGE_BYTES as u64) as usize;
        let step = Step {
            page: page_of(position),
            start,
            bytes: (end - position).min((PAGE_BYTES - start) as u64) as usize,
            done: (position - offset) as usize,
        };
        position += step.bytes as u64;
        Some(step)
    })
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

/// The place of page `index`; the list grows with holes.
fn slot_of(pages: &mut PageList, index: usize) -> &mut Option<Arc<Page>> {
    if index >= pages.len() {
        pages.resize(index + 1, None);
    }
    &mut pages[index]
}

fn durable_page(pages: &mut PageList, index: usize) -> &mut Page {
    let page = slot_of(pages, index).get_or_insert_with(|| Arc::clone(&ZERO_PAGE));
    Arc::make_mut(page)
}

fn sector_in(pages: &PageList, index: usize, sector: usize) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    if let Some(Some(page)) = pages.get(index) {
        bytes.copy_from_slice(&page[range_of(sector)]);
    }
    bytes
}

fn range_of(sector: usize) -> std::ops::Range<usize> {
    sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES
}

fn sectors_of(mask: u8) -> impl Iterator<Item = usize> {
    (0..PAGE_SECTORS).filter(move |sector| mask & (1 << sector) != 0)
}
