//! Drives interleavings through a database.
//!
//! No call of the database blocks, so one thread can take the steps of several transactions in any order, and the same
//! order gives the same answers. Interleavings run side by side in one database, each in a *lane* of keys of its own,
//! all of them one step at a time: between two steps everything can be flushed or merged at the price of one flush.
//! Every answer is compared with the [`Oracle`]'s, and the final state with what one iterator over everything finds.

use std::{fmt::Write as _, sync::Arc};

use kingtide::{
    ColumnFamily, Db, ErrorKind, FamilyOptions, IsolationLevel, Iter, IterOptions, SyncMode,
    Transaction, TransactionOptions,
};
use kingtide_env::MemoryEnv;

use super::{
    interleavings::Interleavings,
    oracle::{Expected, Oracle},
    scenario::{Answer, KeyRange, Outcome, Scenario, Step, parse_script, parse_state},
    scenarios::SCENARIOS,
};
use crate::{
    isolation::level_name,
    order::SHORT_FIRST,
    violation::{Checked, Violation, ensure},
    world,
};

/// Where the data are while the transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the memtable.
    Memory,
    /// In the memtable of a family without a hash index.
    Unhashed,
    /// What was there before in tables, what is new in the memtable.
    Tables,
    /// Flushed after each step.
    Flushed,
    /// Flushed and merged after each step.
    Merged,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Unhashed,
        Self::Tables,
        Self::Flushed,
        Self::Merged,
    ];
}

/// Transactions as lists of steps.
#[derive(Clone, Debug)]
pub struct Program {
    /// The scenario, by its place in [`SCENARIOS`]; none for drawn steps.
    pub scenario: Option<usize>,
    /// The state before.
    pub setup: Vec<(u8, i64)>,
    /// A script for each transaction.
    pub scripts: Vec<Vec<Step>>,
}

impl Program {
    /// The program of a scenario.
    #[must_use]
    pub fn of_scenario(index: usize) -> Self {
        let scenario = &SCENARIOS[index];
        Self {
            scenario: Some(index),
            setup: parse_state(scenario.setup),
            scripts: scenario
                .scripts
                .iter()
                .map(|text| parse_script(text))
                .collect(),
        }
    }

    /// The orders of its steps.
    #[must_use]
    pub fn interleavings(&self) -> Interleavings {
        let lengths: Vec<usize> = self.scripts.iter().map(Vec::len).collect();
        Interleavings::new(&lengths)
    }

    /// The steps of all its scripts.
    pub(super) fn step_count(&self) -> usize {
        self.scripts.iter().map(Vec::len).sum()
    }

    fn scenario(&self) -> Option<&'static Scenario> {
        self.scenario.map(|index| &SCENARIOS[index])
    }
}

/// Some interleavings of one program.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What runs.
    pub program: Arc<Program>,
    /// Where the data are.
    pub place: Place,
    /// The level of each transaction.
    pub levels: Vec<IsolationLevel>,
    /// The numbers of the interleavings.
    pub numbers: Vec<u64>,
}

/// Runs the batch. `seen` is told each anomaly that happened: the level of the transaction that suffered it.
///
/// # Errors
/// The first wrong answer, conflict, final state or anomaly, with the interleaving.
pub fn run(batch: &Batch, seen: &mut dyn FnMut(IsolationLevel)) -> Checked {
    let env = MemoryEnv::new(1);
    let db = Db::open(world::DATABASE, world::options(&env))?;
    let family = db.create_family("f", family_options(batch.place, SyncMode::None))?;
    let mut lanes = lanes_of(batch);
    let bench = Bench {
        db: &db,
        family: &family,
        batch,
    };
    bench.set_up(lanes.len())?;
    for step in 0..batch.program.step_count() {
        take_steps(&bench, &mut lanes, step)?;
    }
    collect_states(&db, &family, &mut lanes)?;
    for lane in &mut lanes {
        lane.judge(batch, seen)
            .map_err(|violation| lane.explain(batch, violation))?;
    }
    drop(lanes);
    Ok(db.close()?)
}

/// A lane for each interleaving of the batch.
pub(super) fn lanes_of(batch: &Batch) -> Vec<Lane> {
    let interleavings = batch.program.interleavings();
    (0..)
        .zip(&batch.numbers)
        .map(|(index, number)| Lane::new(batch, index, interleavings.nth(*number)))
        .collect()
}

/// Takes one step in each lane; then the data go where the place says.
pub(super) fn take_steps(bench: &Bench<'_>, lanes: &mut [Lane], position: usize) -> Checked {
    for lane in lanes {
        bench
            .take_step(lane, position)
            .map_err(|violation| lane.explain(bench.batch, violation))?;
    }
    match bench.batch.place {
        Place::Memory | Place::Unhashed | Place::Tables => {}
        Place::Flushed => bench.db.flush(bench.family)?,
        Place::Merged => bench.db.compact(bench.family)?,
    }
    Ok(())
}

pub(super) fn family_options(place: Place, sync: SyncMode) -> FamilyOptions {
    let mut options = FamilyOptions {
        sync,
        disk_free_bytes_min: 0,
        ..FamilyOptions::default()
    };
    if place == Place::Unhashed {
        options.comparator = SHORT_FIRST.to_owned();
    }
    options
}

fn key_of(lane: usize, key: u8) -> [u8; 5] {
    let [a, b, c, d] = (lane as u32).to_be_bytes();
    [a, b, c, d, key]
}

fn number_of(value: &[u8]) -> Checked<i64> {
    let bytes = value
        .try_into()
        .map_err(|_| Violation::new(format!("a value of {} bytes", value.len())))?;
    Ok(i64::from_le_bytes(bytes))
}

/// Reads the whole family once, and gives each lane its final state.
pub(super) fn collect_states(db: &Db, family: &ColumnFamily, lanes: &mut [Lane]) -> Checked {
    let mut iter = db.iter(family, IterOptions::default())?;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        let [a, b, c, d, key] = iter.key().try_into().unwrap_or([u8::MAX; 5]);
        let value = number_of(iter.value()?)?;
        let lane = lanes.get_mut(u32::from_be_bytes([a, b, c, d]) as usize);
        let lane = lane.ok_or_else(|| Violation::new("a key that nobody wrote"))?;
        lane.outcome.last.push((key, value));
        is_valid = iter.next()?;
    }
    Ok(())
}

/// What all lanes share.
pub(super) struct Bench<'a> {
    pub(super) db: &'a Db,
    pub(super) family: &'a ColumnFamily,
    pub(super) batch: &'a Batch,
}

/// One interleaving under way.
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) schedule: Vec<usize>,
    /// Steps of each transaction that come before the schedule: none, but after a power cut.
    first: Vec<usize>,
    taken: Vec<usize>,
    slots: Vec<Slot>,
    pub(super) oracle: Oracle,
    pub(super) outcome: Outcome,
    commit_count: usize,
    /// What the steps answered, for the report.
    answers: Vec<String>,
}

#[derive(Default)]
struct Slot {
    transaction: Option<Transaction>,
    expected: Option<Expected>,
    iter: Option<Iter>,
    is_positioned: bool,
}

/// The name of a prepared transaction.
pub(super) fn xid_of(lane: usize, number: usize) -> [u8; 5] {
    key_of(lane, number as u8)
}

/// Compares what a commit answered with what it must answer; false when it is a conflict.
fn succeeds<T>(outcome: kingtide::Result<T>, is_refused: bool) -> Checked<bool> {
    match outcome {
        Ok(_) => {
            ensure(!is_refused, || {
                "it succeeded and should be a conflict".to_owned()
            })?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::Conflict => {
            ensure(is_refused, || {
                format!("a conflict without a cause: {error}")
            })?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

impl Slot {
    /// Takes the open transaction, and the oracle's; they end.
    fn take(&mut self) -> Checked<(Transaction, Expected)> {
        let slot = std::mem::take(self);
        match (slot.transaction, slot.expected) {
            (Some(transaction), Some(expected)) => Ok((transaction, expected)),
            _ => Err(Violation::new("a script that ends what it did not begin")),
        }
    }

    /// The open transaction, and the oracle's.
    fn open(&mut self) -> Checked<(&mut Transaction, &mut Expected)> {
        match (&mut self.transaction, &mut self.expected) {
            (Some(transaction), Some(expected)) => Ok((transaction, expected)),
            _ => Err(Violation::new(
                "a script that does something before it begins",
            )),
        }
    }
}

impl Lane {
    fn new(batch: &Batch, index: usize, schedule: Vec<usize>) -> Self {
        let count = batch.program.scripts.len();
        Self {
            index,
            schedule,
            first: vec![0; count],
            taken: vec![0; count],
            slots: (0..count).map(|_| Slot::default()).collect(),
            oracle: Oracle::new(&batch.program.setup),
            outcome: Outcome {
                answers: vec![Vec::new(); count],
                commits: vec![None; count],
                last: Vec::new(),
            },
            commit_count: 0,
            answers: Vec::new(),
        }
    }

    /// The lane after a power cut. What was prepared is still to be ended; what was open is gone, and begins again. The
    /// steps that are left keep their order.
    pub(super) fn after_power_cut(&self) -> Self {
        let mut first = self.taken.clone();
        let mut outcome = self.outcome.clone();
        outcome.last.clear();
        for (number, slot) in self.slots.iter().enumerate() {
            if slot.transaction.is_some() {
                first[number] = 0;
                outcome.answers[number].clear();
            }
        }
        let mut passed = vec![0; first.len()];
        let is_left = |number: &usize| {
            passed[*number] += 1;
            passed[*number] > first[*number]
        };
        Self {
            index: self.index,
            schedule: self.schedule.iter().copied().filter(is_left).collect(),
            taken: first.clone(),
            first,
            slots: self.slots.iter().map(|_| Slot::default()).collect(),
            oracle: self.oracle.clone(),
            outcome,
            commit_count: self.commit_count,
            answers: Vec::new(),
        }
    }

    /// Transactions with steps that are still to be taken.
    pub(super) fn transactions_left(&self) -> u64 {
        let is_left = |number: &usize| self.schedule.contains(number);
        (0..self.slots.len()).filter(is_left).count() as u64
    }

    fn note_commit(&mut self, number: usize) {
        self.commit_count += 1;
        self.outcome.commits[number] = Some(self.commit_count);
    }

    /// Compares the final state with the oracle's, and looks for the anomaly.
    pub(super) fn judge(&mut self, batch: &Batch, seen: &mut dyn FnMut(IsolationLevel)) -> Checked {
        self.outcome.last.sort_unstable();
        let wanted = self.oracle.state();
        ensure(self.outcome.last == wanted, || {
            format!("the final state is {:?}, not {wanted:?}", self.outcome.last)
        })?;
        let Some(scenario) = batch.program.scenario() else {
            return Ok(());
        };
        let Some(sufferer) = (scenario.anomaly)(&self.outcome) else {
            return Ok(());
        };
        let level = batch.levels[sufferer];
        ensure(!scenario.column.is_prevented(level), || {
            let (column, level) = (scenario.column.name(), level_name(level));
            format!(
                "{column} happened to transaction {}, at {level}",
                sufferer + 1
            )
        })?;
        seen(level);
        Ok(())
    }

    /// The violation, with the steps that led to it.
    pub(super) fn explain(&self, batch: &Batch, violation: Violation) -> Violation {
        let program = &batch.program;
        let name = program
            .scenario()
            .map_or("drawn steps", |scenario| scenario.name);
        let setup: Vec<String> = program
            .setup
            .iter()
            .map(|(key, value)| format!("{}={value}", *key as char))
            .collect();
        let mut text = format!(
            "{name}, {:?}, from state \"{}\"\n",
            batch.place,
            setup.join(" ")
        );
        for (number, level) in batch.levels.iter().enumerate() {
            let _ = writeln!(
                text,
                "  transaction {} at {}",
                number + 1,
                level_name(*level)
            );
        }
        text.push_str(&self.steps(program));
        violation.within(text.trim_end())
    }

    /// The steps so far and their answers, a line each.
    pub(super) fn steps(&self, program: &Program) -> String {
        let mut text = String::new();
        let mut taken = self.first.clone();
        for (position, number) in self.schedule.iter().enumerate() {
            let step = &program.scripts[*number][taken[*number]];
            taken[*number] += 1;
            let answer = match self.answers.get(position) {
                Some(answer) => answer.as_str(),
                None if position == self.answers.len() => "here",
                None => break,
            };
            let _ = writeln!(text, "  {}: {step}: {answer}", number + 1);
        }
        text
    }
}

impl Bench<'_> {
    /// Writes the state before, of all lanes.
    pub(super) fn set_up(&self, lane_count: usize) -> Checked {
        let mut transaction = self.db.begin()?;
        for lane in 0..lane_count {
            for (key, value) in &self.batch.program.setup {
                transaction.put(self.family, &key_of(lane, *key), &value.to_le_bytes())?;
            }
        }
        transaction.commit()?;
        if self.batch.place != Place::Memory && self.batch.place != Place::Unhashed {
            self.db.flush(self.family)?;
        }
        Ok(())
    }

    pub(super) fn take_step(&self, lane: &mut Lane, position: usize) -> Checked {
        let number = lane.schedule[position];
        let step = &self.batch.program.scripts[number][lane.taken[number]];
        lane.taken[number] += 1;
        let answer = match step {
            Step::Begin => self.begin(lane, number)?,
            Step::Set(key, value) => self.set(lane, number, (*key, *value))?,
            Step::Commit => self.commit(lane, number)?,
            Step::Rollback => self.roll_back(lane, number)?,
            Step::Prepare => self.prepare(lane, number)?,
            Step::Finish | Step::Refuse => self.end(lane, number, *step == Step::Finish)?,
            Step::Put(..) | Step::Delete(_) | Step::Once(_) | Step::Clear(_) => {
                self.write(lane, number, step)?
            }
            Step::Open(_) | Step::Save | Step::Undo => self.set_mark(lane, number, step)?,
            _ => self.read(lane, number, step)?,
        };
        lane.answers.push(answer);
        Ok(())
    }

    fn begin(&self, lane: &mut Lane, number: usize) -> Checked<String> {
        let level = self.batch.levels[number];
        let options = TransactionOptions {
            isolation: level,
            ..TransactionOptions::default()
        };
        lane.slots[number] = Slot {
            transaction: Some(self.db.begin_with(options)?),
            expected: Some(lane.oracle.begin(level)),
            ..Slot::default()
        };
        Ok(String::new())
    }

    fn set(&self, lane: &mut Lane, number: usize, (key, value): (u8, i64)) -> Checked<String> {
        let is_refused = lane.oracle.refuses_write(key);
        let place = key_of(lane.index, key);
        let outcome = self.db.put(self.family, &place, &value.to_le_bytes());
        if !succeeds(outcome, is_refused)? {
            return Ok("conflict".to_owned());
        }
        lane.oracle.set(key, value);
        lane.note_commit(number);
        Ok("committed".to_owned())
    }

    fn commit(&self, lane: &mut Lane, number: usize) -> Checked<String> {
        let (mut transaction, expected) = lane.slots[number].take()?;
        let is_refused = lane.oracle.refuses_commit(&expected);
        if !succeeds(transaction.commit(), is_refused)? {
            return Ok("conflict".to_owned());
        }
        if expected.has_writes() {
            lane.oracle.apply(&expected);
        }
        lane.note_commit(number);
        Ok("committed".to_owned())
    }

    fn prepare(&self, lane: &mut Lane, number: usize) -> Checked<String> {
        let (mut transaction, expected) = lane.slots[number].take()?;
        let is_refused = lane.oracle.refuses_prepare(&expected);
        if !succeeds(transaction.prepare(&xid_of(lane.index, number)), is_refused)? {
            return Ok("conflict".to_owned());
        }
        lane.oracle.prepare(number, expected);
        Ok("prepared".to_owned())
    }

    /// The second phase, if the first succeeded.
    fn end(&self, lane: &mut Lane, number: usize, is_commit: bool) -> Checked<String> {
        let Some(expected) = lane.oracle.end(number) else {
            return Ok("was not prepared".to_owned());
        };
        let xid = xid_of(lane.index, number);
        if !is_commit {
            self.db.rollback_prepared(&xid)?;
            return Ok(String::new());
        }
        self.db.commit_prepared(&xid)?;
        if expected.has_writes() {
            lane.oracle.apply(&expected);
        }
        lane.note_commit(number);
        Ok("committed".to_owned())
    }

    fn roll_back(&self, lane: &mut Lane, number: usize) -> Checked<String> {
        let slot = std::mem::take(&mut lane.slots[number]);
        if let Some(mut transaction) = slot.transaction {
            transaction.rollback()?;
        }
        Ok(String::new())
    }

    fn write(&self, lane: &mut Lane, number: usize, step: &Step) -> Checked<String> {
        let index = lane.index;
        let (transaction, expected) = lane.slots[number].open()?;
        match step {
            Step::Put(key, amount) => {
                let value = expected.put(*key, *amount).to_le_bytes();
                transaction.put(self.family, &key_of(index, *key), &value)?;
            }
            Step::Delete(key) => {
                expected.delete(*key);
                transaction.delete(self.family, &key_of(index, *key))?;
            }
            Step::Once(key) => {
                expected.delete(*key);
                transaction.single_delete(self.family, &key_of(index, *key))?;
            }
            Step::Clear(range) => {
                expected.clear(*range);
                let (start, end) = (key_of(index, range.lower), key_of(index, range.upper));
                transaction.delete_range(self.family, &start, &end)?;
            }
            _ => {}
        }
        Ok(String::new())
    }

    /// Steps that neither read nor write.
    fn set_mark(&self, lane: &mut Lane, number: usize, step: &Step) -> Checked<String> {
        let slot = &mut lane.slots[number];
        let (transaction, expected) = slot.open()?;
        match step {
            Step::Open(bounds) => {
                expected.open(&lane.oracle, *bounds);
                let iter = transaction.iter(self.family, bounds_of(lane.index, *bounds))?;
                slot.iter = Some(iter);
                slot.is_positioned = false;
            }
            Step::Save => {
                expected.save();
                transaction.savepoint("save")?;
            }
            Step::Undo => {
                expected.undo();
                transaction.rollback_to("save")?;
            }
            _ => {}
        }
        Ok(String::new())
    }

    fn read(&self, lane: &mut Lane, number: usize, step: &Step) -> Checked<String> {
        let (slot, oracle, index) = (&mut lane.slots[number], &lane.oracle, lane.index);
        let (got, wanted) = if *step == Step::Next {
            let got = next_of(slot)?;
            (got, slot.open()?.1.next())
        } else {
            let (transaction, expected) = slot.open()?;
            let got = self.answer(transaction, index, step)?;
            let wanted = match step {
                Step::Gets(keys) => expected.gets(oracle, keys),
                Step::Scan(range) | Step::Back(range) => expected.scan(oracle, *range),
                Step::Lock(key) => expected.lock(oracle, *key),
                Step::Peek(key) => expected.peek(oracle, *key),
                Step::Get(key) => expected.get(oracle, *key),
                _ => return Err(Violation::new("a step that does not read")),
            };
            (got, wanted)
        };
        let text = format!("{got:?}");
        ensure(got == wanted, || {
            format!("answers {text}, should answer {wanted:?}")
        })?;
        lane.outcome.answers[number].push(got);
        Ok(text)
    }

    /// What the database answers.
    fn answer(&self, transaction: &mut Transaction, lane: usize, step: &Step) -> Checked<Answer> {
        let family = self.family;
        let value = match step {
            Step::Get(key) => transaction.get(family, &key_of(lane, *key))?,
            Step::Lock(key) => transaction.get_for_update(family, &key_of(lane, *key))?,
            Step::Peek(key) => transaction.get_untracked(family, &key_of(lane, *key))?,
            Step::Gets(keys) => return self.multi_get(transaction, lane, keys),
            Step::Scan(range) | Step::Back(range) => {
                let mut iter = transaction.iter(family, bounds_of(lane, *range))?;
                let is_backwards = matches!(step, Step::Back(_));
                return Ok(Answer::Entries(entries_of(&mut iter, is_backwards)?));
            }
            _ => None,
        };
        Ok(Answer::Value(
            value.map(|value| number_of(&value)).transpose()?,
        ))
    }

    fn multi_get(&self, transaction: &Transaction, lane: usize, keys: &[u8]) -> Checked<Answer> {
        let whole: Vec<[u8; 5]> = keys.iter().map(|key| key_of(lane, *key)).collect();
        let mut entries = Vec::new();
        for (key, value) in keys.iter().zip(transaction.multi_get(self.family, &whole)?) {
            if let Some(value) = value {
                entries.push((*key, number_of(&value)?));
            }
        }
        entries.sort_unstable();
        Ok(Answer::Entries(entries))
    }
}

fn bounds_of(lane: usize, range: KeyRange) -> IterOptions {
    IterOptions {
        lower: Some(key_of(lane, range.lower).to_vec()),
        upper: Some(key_of(lane, range.upper).to_vec()),
        ..IterOptions::default()
    }
}

/// All entries, in the order of the keys.
fn entries_of(iter: &mut Iter, is_backwards: bool) -> Checked<Vec<(u8, i64)>> {
    let mut entries = Vec::new();
    let mut is_valid = if is_backwards {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    };
    while is_valid {
        entries.push(entry_of(iter)?);
        is_valid = if is_backwards {
            iter.prev()?
        } else {
            iter.next()?
        };
    }
    if is_backwards {
        entries.reverse();
    }
    Ok(entries)
}

fn entry_of(iter: &mut Iter) -> Checked<(u8, i64)> {
    let key = iter.key().last().copied().unwrap_or(0);
    Ok((key, number_of(iter.value()?)?))
}

/// One step of the slot's iterator.
fn next_of(slot: &mut Slot) -> Checked<Answer> {
    let Some(iter) = &mut slot.iter else {
        return Err(Violation::new(
            "a script that steps an iterator before it opens it",
        ));
    };
    let is_valid = if slot.is_positioned {
        // Behind the end it stays there.
        iter.is_valid() && iter.next()?
    } else {
        slot.is_positioned = true;
        iter.seek_to_first()?
    };
    Ok(Answer::Entry(if is_valid {
        Some(entry_of(iter)?)
    } else {
        None
    }))
}
