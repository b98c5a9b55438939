//! One sequence in one mode: run uncut, then cut at every call of its last letter.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use kingtide::{Compression, Db, ErrorKind, FamilyOptions, Options, SyncMode};
use kingtide_env::{CrashImage, MemoryEnv};

use super::{
    Tally,
    letters::{LETTERS, ending, opening},
};
use crate::{
    dump::Dump,
    metamorphic::{Answer, Configuration, Engine, Naive, Operation, dump, settled},
    violation::{Checked, Violation, ensure},
    world,
};

/// Sorts behind every key of the alphabet, and before those in reverse order; written after recovery.
const LAST_KEY: &[u8] = b"~";

/// Small families in one mode.
#[derive(Clone, Copy)]
struct InMode(SyncMode);

impl Configuration for InMode {
    fn database(&self, env: &MemoryEnv) -> Options {
        let mut options = world::options(env);
        options.flush_threads = 1;
        options.compaction_threads = 1;
        options.block_cache_bytes = 16 << 10;
        options
    }

    fn family(&self, number: u64, comparator: &str) -> FamilyOptions {
        // What changes the settings comes behind what creates the families.
        let is_change = number >= opening().len() as u64;
        FamilyOptions {
            write_buffer_bytes: 32 << 10,
            value_threshold_bytes: 64,
            compression: if is_change {
                Compression::Zstd
            } else {
                Compression::None
            },
            bloom_filter: !is_change,
            comparator: comparator.to_owned(),
            sync: self.0,
            disk_free_bytes_min: 0,
            ..FamilyOptions::default()
        }
    }

    fn sync(&self, _number: u64) -> Option<SyncMode> {
        None
    }
}

/// What a database shows.
#[derive(Clone, Debug, PartialEq)]
struct State {
    families: Dump,
    prepared: Vec<(Vec<u8>, usize)>,
}

/// What was found after a power cut: the database, and the copies of it by their numbers.
struct Found {
    state: State,
    copies: BTreeMap<usize, Dump>,
}

/// A sequence in a mode, and what is right.
pub(super) struct Case {
    mode: SyncMode,
    operations: Vec<Operation>,
    answers: Vec<Option<Answer>>,
    /// Before the first operation and after each.
    states: Vec<State>,
    /// Where the last letter begins.
    last_letter: usize,
    is_empty: bool,
    /// What was found in images, by their fingerprints.
    known: RefCell<BTreeMap<u64, Rc<Found>>>,
}

/// How far a run came.
struct Run {
    env: MemoryEnv,
    acknowledged: usize,
    /// States from this one on may be there.
    floor: usize,
    /// The last state that may be there.
    begun: usize,
    /// Mutating calls before the last letter.
    calls_before: u64,
}

impl Case {
    pub(super) fn new(letters: &[usize], mode: SyncMode) -> Self {
        let mut operations = opening();
        let mut last_letter = 0;
        for (at, letter) in letters.iter().enumerate() {
            last_letter = operations.len();
            operations.extend(LETTERS[*letter].1(at));
        }
        operations.extend(ending());
        let mut naive = Naive::default();
        let state = |naive: &Naive| State {
            families: naive.dump(),
            prepared: naive.prepared(),
        };
        let mut states = vec![state(&naive)];
        let mut answers = Vec::new();
        for operation in &operations {
            answers.push(naive.perform(operation));
            states.push(state(&naive));
        }
        Self {
            mode,
            operations,
            answers,
            states,
            last_letter,
            is_empty: letters.is_empty(),
            known: RefCell::default(),
        }
    }

    pub(super) fn check(&self) -> Checked<Tally> {
        let uncut = self.run(u64::MAX)?;
        let calls = uncut.env.io_count();
        // The cut right before the last letter is one behind a shorter sequence.
        let first = match self.is_empty {
            true => 0,
            false => (uncut.calls_before + 1).min(calls),
        };
        let mut tally = Tally {
            sequences: 1,
            ..Tally::default()
        };
        for cut in first..=calls {
            tally.cuts += 1;
            let run = self.run(cut)?;
            for (index, image) in world::IMAGES.into_iter().enumerate() {
                let seed = cut * world::IMAGES.len() as u64 + index as u64;
                tally.images += 1;
                self.check_image(&run, image, seed).map_err(|violation| {
                    violation.within(format_args!("cut after {cut} of {calls} calls, {image:?}"))
                })?;
            }
        }
        tally.recoveries = self.known.borrow().len() as u64;
        Ok(tally)
    }

    /// Runs the operations until the machine is switched off after `cut` calls.
    fn run(&self, cut: u64) -> Checked<Run> {
        let env = MemoryEnv::new(1);
        env.halt_after(cut);
        let mut run = Run {
            env: env.clone(),
            acknowledged: 0,
            floor: 0,
            begun: 0,
            calls_before: 0,
        };
        let mut engine = match Engine::new(InMode(self.mode), env.clone()) {
            Ok(engine) => engine,
            Err(_) if env.io_count() >= cut => return Ok(run),
            Err(error) => return Err(error.into()),
        };
        let mut outcome = Ok(());
        for (number, operation) in self.operations.iter().enumerate() {
            if number == self.last_letter {
                run.calls_before = env.io_count();
            }
            run.begun = number + 1;
            if let Some(expected) = &self.answers[number] {
                let (answer, words) = settled(engine.perform(number as u64, operation));
                if answer != *expected {
                    if env.io_count() < cut {
                        outcome = Err(Violation::new(format!(
                            "{operation:?}\nanswered {answer:?}{words}\nexpected {expected:?}"
                        )));
                    }
                    break;
                }
                if matches!(answer, Answer::Done | Answer::All(_)) {
                    run.floor = run.floor.max(self.promised(number));
                }
            }
            run.acknowledged = number + 1;
        }
        // Off before the database is let go, so that closing adds no call to what the images are made of.
        engine.power_off();
        outcome.map(|()| run)
    }

    /// The newest state that is safe once operation `number` was acknowledged.
    fn promised(&self, number: usize) -> usize {
        let here = number + 1;
        match &self.operations[number] {
            Operation::Create(..)
            | Operation::Drop(_)
            | Operation::Rename(..)
            | Operation::Clone(..)
            | Operation::Prepare(..)
            | Operation::BulkLoad(..)
            | Operation::SyncWal
            | Operation::Reopen => here,
            Operation::Write(..) | Operation::Commit(_) | Operation::EndPrepared(..)
                if self.mode == SyncMode::Full =>
            {
                here
            }
            Operation::Flush(family, _) => {
                let name = crate::metamorphic::name_of(*family);
                let content = |state: usize| self.states[state].families.get(&name);
                let newest = (1..=here)
                    .rev()
                    .find(|state| content(*state) != content(state - 1));
                newest.unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn check_image(&self, run: &Run, image: CrashImage, seed: u64) -> Checked {
        let world = run.env.crash(image, seed);
        let fingerprint = world.fingerprint();
        let known = self.known.borrow().get(&fingerprint).cloned();
        let found = match known {
            Some(found) => found,
            None => {
                let found = Rc::new(self.recover(&world)?);
                self.known
                    .borrow_mut()
                    .insert(fingerprint, Rc::clone(&found));
                found
            }
        };
        // Nothing that reached the kernel is lost in this image, so it is held to the floor of a kill.
        let floor = match image {
            CrashImage::Everything => run.acknowledged,
            _ => run.floor,
        };
        let mut allowed = self.states[floor..=run.begun].iter();
        ensure(allowed.any(|state| *state == found.state), || {
            let matching = self.states.iter().position(|state| *state == found.state);
            format!(
                "promised is the state after operation {floor}, begun was {}, found is that after {matching:?}: {:?}",
                run.begun, found.state
            )
        })?;
        self.check_copies(run, &found)
    }

    /// A copy that was acknowledged is there, and every copy that is there is whole.
    fn check_copies(&self, run: &Run, found: &Found) -> Checked {
        let is_copy = |number: &usize| matches!(self.operations[*number], Operation::Copy(_));
        for (copy, number) in (1..).zip((0..run.begun).filter(is_copy)) {
            let expected = &self.states[number + 1].families;
            ensure(
                match found.copies.get(&copy) {
                    Some(content) => content == expected,
                    None => number >= run.acknowledged,
                },
                || format!("copy {copy} shows {:?}", found.copies.get(&copy)),
            )?;
        }
        Ok(())
    }

    /// Opens what a power cut left, with all copies, and goes on working with it.
    fn recover(&self, world: &MemoryEnv) -> Checked<Found> {
        let options = InMode(self.mode).database(world);
        let mut copies = BTreeMap::new();
        let is_copy = |operation: &&Operation| matches!(operation, Operation::Copy(_));
        for copy in 1..=self.operations.iter().filter(is_copy).count() {
            let only = Options {
                create_if_missing: false,
                read_only: true,
                ..options.clone()
            };
            match Db::open(format!("/copy{copy}"), only) {
                Ok(db) => {
                    copies.insert(copy, dump(&db)?);
                    db.close()?;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Violation::from(error).within("open a copy")),
            }
        }
        let db = Db::open(world::DATABASE, options.clone())
            .map_err(|error| Violation::from(error).within("open after a power cut"))?;
        let state = show(&db)?;
        let mut expected = state.clone();
        for (name, entries) in &mut expected.families {
            let family = db.family(name)?;
            db.put(&family, LAST_KEY, b"after recovery")?;
            let entry = (LAST_KEY.to_vec(), b"after recovery".to_vec());
            if family.options().comparator == "reverse_memcmp" {
                entries.insert(0, entry);
            } else {
                entries.push(entry);
            }
        }
        db.close()?;
        let db = Db::open(world::DATABASE, options)?;
        let again = show(&db)?;
        ensure(again == expected, || {
            format!(
                "after recovery and a write the next opening shows {again:?}, expected {expected:?}"
            )
        })?;
        for (xid, _) in &state.prepared {
            db.rollback_prepared(xid)?;
        }
        ensure(db.prepared()?.is_empty(), || {
            "a transaction that was rolled back is prepared".to_owned()
        })?;
        db.close()?;
        Ok(Found { state, copies })
    }
}

fn show(db: &Db) -> Checked<State> {
    let prepared = db.prepared()?.into_iter();
    Ok(State {
        families: dump(db)?,
        prepared: prepared
            .map(|prepared| (prepared.xid, prepared.operation_count))
            .collect(),
    })
}
