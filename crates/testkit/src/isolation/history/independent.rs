//! A second opinion: the same windows as histories for `adya`, a checker by other people that knows nothing of Kingtide.
//!
//! It judges registers by Adya's graphs of dependencies and by real time. It is told the order of the commits, as the
//! order of the versions of each register; what each transaction read, and when its calls began and ended. It has no
//! ranges, no deletions and no savepoints, so it gets windows without them, in which every key is there all the time: a scan is then the reads of its
//! keys, and whatever repeatable read promises for items holds for all of them.

use std::collections::HashMap;

use adya::{
    History, Opts, Report, Valid, Workload,
    history::{Mop, Op, OpType, ReadValue, Scalar},
};
use kingtide::IsolationLevel;

use super::record::{Ending, Log, Number, Operation, Part, Record, Window};
use crate::violation::{Checked, Violation};

/// The models of the checker that a level must satisfy.
const fn models(level: IsolationLevel) -> &'static [&'static str] {
    match level {
        IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => {
            &["strong-read-committed"]
        }
        IsolationLevel::RepeatableRead => &["repeatable-read", "strong-snapshot-isolation"],
        IsolationLevel::Snapshot => &["strong-snapshot-isolation"],
        IsolationLevel::Serializable => &["strict-serializable"],
    }
}

/// Shows the window to the other checker; answers how many transactions it judged: none when it gave up.
///
/// # Errors
/// The anomalies that it found.
pub fn check(window: &Window, level: IsolationLevel) -> Checked<u64> {
    let report = judge(window, models(level));
    match report.valid {
        Valid::True => Ok(window.log.records.len() as u64),
        Valid::Unknown => Ok(0),
        Valid::False => {
            let found = explain(&report).join("\n");
            Err(Violation::new(format!("adya finds {found}")))
        }
    }
}

fn judge(window: &Window, models: &[&str]) -> Report {
    let (history, order) = convert(window);
    let options = Opts {
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        transaction_order: Some(order),
        ..Opts::default()
    };
    adya::check(&history, Workload::RwRegister, &options)
}

/// The kinds of the anomalies, each with the first one explained.
fn explain(report: &Report) -> Vec<String> {
    let explain = |(kind, anomalies): (&String, &Vec<adya::Anomaly>)| {
        let first = anomalies.first();
        let text = first.map_or("", |anomaly| anomaly.explanation.as_str());
        format!("{kind}: {text}")
    };
    report.anomalies.iter().map(explain).collect()
}

/// The anomalies that the other checker finds in a window that should satisfy `models`.
#[cfg(test)]
pub fn anomalies(window: &Window, models: &[&str]) -> Vec<String> {
    explain(&judge(window, models))
}

/// The history, and the place of each commit by the index of its completion.
fn convert(window: &Window) -> (History, HashMap<u64, i64>) {
    let mut builder = Builder::default();
    let first = window.before.iter().enumerate();
    let writes: Vec<Mop> = first
        .filter_map(|(key, number)| number.map(|number| builder.write(key, number)))
        .collect();
    builder.event((0, 0), OpType::Invoke, &writes);
    let done = builder.event((0, 0), OpType::Ok, &writes);
    builder.pair(0, done);
    builder.order.insert(done as u64, 0);

    let records = &window.log.records;
    let mut events: Vec<(u64, usize, bool)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        events.push((record.begin.from, index, false));
        events.push((record.end.to, index, true));
    }
    events.sort_unstable();
    let mut begun = vec![0; records.len()];
    for (stamp, index, is_end) in events {
        let record = &records[index];
        let value = builder.operations(&window.log, record);
        let process = i64::from(record.process);
        if !is_end {
            begun[index] = builder.event((process, stamp), OpType::Invoke, &value);
            continue;
        }
        let kind = match record.ending {
            Ending::Committed(_) => OpType::Ok,
            Ending::Conflict | Ending::RolledBack => OpType::Fail,
        };
        let done = builder.event((process, stamp), kind, &value);
        builder.pair(begun[index], done);
        if let Ending::Committed(sequence @ 1..) = record.ending {
            builder.order.insert(done as u64, sequence as i64);
        }
    }
    (builder.history, builder.order)
}

#[derive(Default)]
struct Builder {
    history: History,
    order: HashMap<u64, i64>,
}

impl Builder {
    fn write(&mut self, key: usize, number: Number) -> Mop {
        Mop::Write {
            key: self.history.interner.intern(Scalar::Int(key as i64)),
            value: self.history.interner.intern(Scalar::Int(number as i64)),
        }
    }

    fn read(&mut self, key: usize, number: Option<Number>) -> Mop {
        let value = number.map(|number| Scalar::Int(number as i64));
        Mop::Read {
            key: self.history.interner.intern(Scalar::Int(key as i64)),
            value: value.map_or(ReadValue::Nil, |value| {
                ReadValue::Scalar(self.history.interner.intern(value))
            }),
        }
    }

    fn operations(&mut self, log: &Log, record: &Record) -> Vec<Mop> {
        let mut mops = Vec::new();
        for operation in log.operations_of(record) {
            match operation {
                // Windows for this checker have none of these.
                Operation::Write(_, None)
                | Operation::Clear(_)
                | Operation::Save
                | Operation::Undo => {}
                Operation::Write(key, Some(number)) => {
                    mops.push(self.write(usize::from(*key), *number));
                }
                Operation::Read { parts, .. } => {
                    for part in &log.parts[parts.clone()] {
                        self.part(log, part, &mut mops);
                    }
                }
            }
        }
        mops
    }

    fn part(&mut self, log: &Log, part: &Part, mops: &mut Vec<Mop>) {
        match part {
            Part::Point(key, number) => mops.push(self.read(usize::from(*key), *number)),
            Part::Range(_, items) => {
                for (key, number) in &log.items[items.clone()] {
                    mops.push(self.read(usize::from(*key), Some(*number)));
                }
            }
        }
    }

    fn event(&mut self, (process, stamp): (i64, u64), kind: OpType, value: &[Mop]) -> usize {
        let index = self.history.ops.len();
        self.history.ops.push(Op {
            index: index as u64,
            kind,
            process: Some(process),
            value: value.to_vec(),
            time: Some(stamp as i64),
        });
        self.history.pair.push(None);
        index
    }

    fn pair(&mut self, begin: usize, end: usize) {
        self.history.pair[begin] = Some(end);
        self.history.pair[end] = Some(begin);
    }
}
