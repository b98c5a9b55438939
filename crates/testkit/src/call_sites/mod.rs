//! Every place in the engine that calls into the world, failed.
//!
//! A *site* is a line of the engine that opens, reads, writes, syncs, renames, removes, lists, locks, starts a thread and
//! so on. All sites are listed from the sources ([`registry`]); which one makes a call is found on the stack ([`site`]);
//! the work makes the database do all it can ([`work`]). Each site is failed: with every error that fits its call, once and
//! for good, at its first call and at later ones. Sites that clean up are reached only then; each of them is failed together
//! with the call that led to it. In the end every site of the list must have been reached, and no other. Of each run is
//! checked:
//!
//! - a step succeeds, or fails with an error that says what is wrong; nothing panics or waits for ever;
//! - what the database shows was written, and what was acknowledged is there: while the fault lasts, when it is over,
//!   after another opening, and after a power cut;
//! - when the fault is over, writing goes on, or asks to be reopened; the next opening succeeds and everything works;
//! - no file is left in the database that its manifest does not name, and none that it names is damaged.
//!
//! It does not fail two other sites at once, nor judge whether a step should have succeeded.

mod registry;
mod site;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kingtide::{Db, Error, ErrorKind, Layout};
use kingtide_env::{MemoryEnv, Operation};

pub use site::{Harm, Site, Target, Watch};

use self::work::{STEPS, Work};
use crate::{
    violation::{Checked, Violation, ensure, no_panic},
    world,
};

/// How many steps may fail before a lasting fault is over.
const FAILED_STEPS: u64 = 4;

/// How often, and with what pauses, it is looked whether failed background work has been tried again.
const RETRY_LOOKS_MAX: usize = 1000;
const RETRY_LOOK_PAUSE: Duration = Duration::from_millis(10);

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// What a proof over sites went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteTally {
    /// Runs.
    pub runs: u64,
    /// Runs in which a call failed.
    pub struck: u64,
    /// Calls that failed.
    pub calls: u64,
    /// Steps that failed.
    pub steps: u64,
    /// Runs in which the database asked to be reopened.
    pub reopened: u64,
}

impl std::ops::AddAssign for SiteTally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.struck += other.struck;
        self.calls += other.calls;
        self.steps += other.steps;
        self.reopened += other.reopened;
    }
}

/// How often the work is done to find the sites: which thread comes first decides whether some are reached.
const FINDING_RUNS_MAX: usize = 4;

/// The sites of the engine and how often the work calls each.
#[derive(Debug)]
pub struct Sites {
    listed: BTreeSet<(String, u32)>,
    /// Reached without faults, with the number of calls.
    reached: BTreeMap<Site, u64>,
    /// Reached only when another call failed: that one, and the number of calls then.
    behind: Mutex<BTreeMap<Site, (Target, u64)>>,
}

impl Sites {
    /// Runs the work without faults.
    ///
    /// # Errors
    /// A violation when the work fails.
    pub fn find() -> Checked<Self> {
        let mut sites = Self {
            listed: registry::listed()?,
            reached: BTreeMap::new(),
            behind: Mutex::default(),
        };
        for _ in 0..FINDING_RUNS_MAX {
            let memory = MemoryEnv::new(1);
            let (watch, env) = Watch::over(Arc::new(memory.clone()), Vec::new());
            let mut work = Work::new(memory, env);
            for (name, step) in STEPS {
                step(&mut work).map_err(|error| Violation::from(error).within(name))?;
            }
            finish(&mut work)?;
            for (site, count) in watch.calls() {
                let known = sites.reached.entry(site).or_default();
                *known = count.max(*known);
            }
        }
        Ok(sites)
    }

    /// How many sites are listed, and how many of them were reached.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let listed = self.listed.len();
        (listed, listed - self.unreached().0.len())
    }

    /// Lines of the list that were not reached, and sites that were reached and are not in the list.
    fn unreached(&self) -> (Vec<String>, Vec<String>) {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = BTreeSet::new();
        let mut unlisted = Vec::new();
        for site in self.reached.keys().chain(behind.keys()) {
            match registry::holds(&self.listed, site) {
                Some(line) => drop(lines.insert(line)),
                None => unlisted.push(site.to_string()),
            }
        }
        let unreached = self.listed.difference(&lines);
        let name = |(file, line): &(String, u32)| format!("{file}:{line}");
        (unreached.map(name).collect(), unlisted)
    }

    /// The list and what was reached agree, also when other calls failed.
    ///
    /// # Errors
    /// A violation that names the sites that were not reached, or not listed.
    pub fn check_complete(&self) -> Checked {
        let (unreached, unlisted) = self.unreached();
        ensure(unreached.is_empty() && unlisted.is_empty(), || {
            format!(
                "sites that nothing reaches: {unreached:#?}; sites missing from the list: {unlisted:#?}"
            )
        })
    }

    /// Every site with every harm that fits, at its first call and then at every call whose number is a power of
    /// `growth`, as far as it makes so many; only at the first when it is 0.
    #[must_use]
    pub fn targets(&self, growth: u64) -> Vec<Vec<Target>> {
        let mut targets = Vec::new();
        for (site, count) in &self.reached {
            let mut nth = 1;
            while nth <= *count {
                targets.extend(targets_at(site, nth).map(|target| vec![target]));
                if growth < 2 {
                    break;
                }
                nth *= growth;
            }
        }
        // Those that reveal sites behind others come first.
        targets.sort_by_key(|targets| targets[0].harm != Harm::Error(EIO));
        targets
    }

    /// The sites that [`check`] came upon since another call had failed, failed as well.
    #[must_use]
    pub fn pairs(&self) -> Vec<Vec<Target>> {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = behind.iter().flat_map(|(site, (first, _))| {
            targets_at(site, 1).map(|second| vec![first.clone(), second])
        });
        pairs.collect()
    }

    /// Notes the sites that only this failure led to.
    fn note(&self, calls: BTreeMap<Site, u64>, targets: &[Target]) {
        let [target] = targets else {
            return;
        };
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        for (site, count) in calls {
            if !self.reached.contains_key(&site) {
                behind.entry(site).or_insert((target.clone(), count));
            }
        }
    }
}

/// All that may happen at one call of a site.
fn targets_at(site: &Site, nth: u64) -> impl Iterator<Item = Target> {
    let times = |harm| [(harm, false), (harm, true)];
    let harms = harms(site.operation).into_iter().flat_map(times);
    harms.map(move |(harm, for_good)| Target {
        site: site.clone(),
        harm,
        nth,
        for_good,
    })
}

/// What may happen to a call.
fn harms(operation: Operation) -> Vec<Harm> {
    let errors: &[i32] = match operation {
        Operation::Read => &[EIO, EINTR],
        Operation::Write | Operation::Allocate | Operation::Sync => &[EIO, ENOSPC, EINTR],
        Operation::Create => &[EIO, ENOSPC, EMFILE],
        Operation::Open | Operation::List | Operation::Lock => &[EIO, EMFILE],
        Operation::Rename | Operation::Link | Operation::DirectorySync => &[EIO, ENOSPC],
        Operation::Remove | Operation::Length | Operation::Space | Operation::Resolve => &[EIO],
        Operation::Window => &[ENOMEM],
        Operation::Spawn => &[EAGAIN],
    };
    let mut harms: Vec<Harm> = errors.iter().map(|number| Harm::Error(*number)).collect();
    if operation == Operation::Read {
        harms.push(Harm::ShortRead);
    }
    harms
}

/// Does the work while sites are harmed, and checks what comes of it. `seed` chooses the power cut.
///
/// # Errors
/// The violation, with the target.
pub fn check(sites: &Sites, targets: &[Target], seed: u64) -> Checked<SiteTally> {
    let memory = MemoryEnv::new(1);
    let (watch, env) = Watch::over(Arc::new(memory.clone()), targets.to_vec());
    let mut work = Work::new(memory.clone(), env);
    let outcome = no_panic(|| harmed(&mut work, &watch, targets, &memory, seed));
    watch.lift();
    sites.note(watch.calls(), targets);
    world::power_off(&memory);
    let _ = work.close();
    outcome.map_err(|violation| violation.within(name_of(targets)))
}

/// The targets as people see them.
#[must_use]
pub fn name_of(targets: &[Target]) -> String {
    let name = |target: &Target| {
        let times = if target.for_good { " for good" } else { "" };
        format!(
            "{} call {} {:?}{times}",
            target.site, target.nth, target.harm
        )
    };
    let names: Vec<String> = targets.iter().map(name).collect();
    names.join(" and ")
}

fn harmed(
    work: &mut Work,
    watch: &Watch,
    targets: &[Target],
    memory: &MemoryEnv,
    seed: u64,
) -> Checked<SiteTally> {
    let mut tally = SiteTally {
        runs: 1,
        ..SiteTally::default()
    };
    for (name, step) in STEPS {
        let Err(error) = step(work) else {
            continue;
        };
        let within = |violation: Violation| violation.within(format_args!("step \"{name}\""));
        check_kind(&error, targets, watch).map_err(within)?;
        tally.steps += 1;
        if tally.steps == FAILED_STEPS {
            watch.lift();
        }
        if needs_reopening(&error) {
            tally.reopened = 1;
            // The log could not be synced, and closing may say so again.
            let _ = work.close();
        }
    }
    watch.lift();
    tally.calls = watch.struck();
    tally.struck = u64::from(tally.calls > 0);
    let is_sync = |target: &Target| target.site.operation == Operation::Sync;
    if targets.iter().any(is_sync) {
        // Nobody knows what is left of what was not synced.
        work.forgive_lazy();
    }
    let image = world::IMAGES[(seed % world::IMAGES.len() as u64) as usize];
    let mut after_cut = work.moved(memory.crash(image, seed));
    after_cut.forgive_lazy();
    finish(&mut after_cut)
        .map_err(|violation| violation.within(format_args!("after a power cut, {image:?}")))?;
    goes_on(work)?;
    finish(work)?;
    Ok(tally)
}

/// An error that has a cause, and says what it is.
fn check_kind(error: &Error, targets: &[Target], watch: &Watch) -> Checked {
    ensure(watch.struck() > 0, || {
        format!("{:?} although nothing was harmed: {error}", error.kind())
    })?;
    let has = |harm| targets.iter().any(|target| target.harm == harm);
    let is_clear = match error.kind() {
        ErrorKind::Io | ErrorKind::OutcomeUnknown | ErrorKind::ReopenRequired => true,
        ErrorKind::DiskFull => has(Harm::Error(ENOSPC)),
        ErrorKind::Corruption => has(Harm::ShortRead),
        _ => false,
    };
    ensure(is_clear, || {
        format!("{:?} is not what happened: {error}", error.kind())
    })
}

fn needs_reopening(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ReopenRequired | ErrorKind::OutcomeUnknown
    )
}

/// Waits until what failed in the background was tried again: pauses before a retry are of the real clock.
fn wait_for_retries(db: &Db) {
    for _ in 0..RETRY_LOOKS_MAX {
        match db.wait_idle() {
            Err(error) if !needs_reopening(&error) => std::thread::sleep(RETRY_LOOK_PAUSE),
            _ => return,
        }
    }
}

/// The fault is over: reads are right, and writes succeed, or ask to reopen.
fn goes_on(work: &mut Work) -> Checked {
    let db = work.open()?;
    work.check(&db)?;
    wait_for_retries(&db);
    drop(db);
    for (name, step) in &STEPS[..4] {
        match step(work) {
            Err(error) if needs_reopening(&error) => {
                let _ = work.close();
                break;
            }
            outcome => outcome.map_err(|error| {
                Violation::from(error).within(format_args!("\"{name}\" after the fault"))
            })?,
        }
    }
    // What failed in the background may not have been tried again yet.
    let _ = work.close();
    Ok(())
}

/// Reopens the database: everything is there and works, and no file stays behind.
fn finish(work: &mut Work) -> Checked {
    work.close()?;
    let db = work.open()?;
    work.check(&db)?;
    let report = db.verify(&mut |_, _| {})?;
    ensure(report.damages.is_empty(), || {
        format!("damaged: {:?}", report.damages)
    })?;
    for (name, step) in &STEPS[..4] {
        step(work).map_err(|error| {
            Violation::from(error).within(format_args!("\"{name}\" after the last opening"))
        })?;
    }
    work.check(&db)?;
    db.wait_idle()?;
    drop(db);
    work.close()?;
    let db = work.open()?;
    work.check(&db)?;
    drop(db);
    check_files(work)?;
    work.close()?;
    Ok(())
}

/// The files of the open database are those that its manifest names.
fn check_files(work: &mut Work) -> Checked {
    let db: Db = work.open()?;
    db.wait_idle()?;
    let layout: Layout = db.layout()?;
    let mut named: BTreeSet<String> = BTreeSet::new();
    for family in &layout.families {
        named.extend(family.tables.iter().map(|table| table.file.clone()));
    }
    named.extend(layout.value_files.iter().map(|file| file.file.clone()));
    named.extend(layout.segments.iter().map(|file| file.file.clone()));
    let mut manifests = 0;
    for file in work.files() {
        let is_manifest = file.starts_with("MANIFEST-");
        manifests += u64::from(is_manifest);
        let is_known =
            is_manifest || matches!(file.as_str(), "LOCK" | "LOG" | "LOG.old" | "WITNESS");
        ensure(is_known || named.remove(&file), || {
            format!("the file {file} was left behind")
        })?;
    }
    ensure(manifests == 1 && named.is_empty(), || {
        format!("{manifests} manifests; files that are missing: {named:?}")
    })
}
