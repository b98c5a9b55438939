//! One line of a result file: one measured operation of one test, of one engine, in one round.
//!
//! The first 33 columns have the names and the order of the CSV files that the benchmark program of TidesDB publishes,
//! so that what reads those reads these; further columns follow. JSON lines hold the same fields, and two that are no
//! columns: the time line and the machine. Numbers that were not measured are 0, texts empty.
//!
//! Readers accept files with fewer columns, in any order, and ignore columns they do not know: results of older and
//! newer versions can be compared.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{BenchError, Result, summary::median};

/// A part of a second that is shorter than this tells no rate.
const WHOLE_SECONDS_MIN: f64 = 0.5;

/// How a row came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured to its end, and every answer was right.
    #[default]
    Ok,
    /// The engine could not be run, failed, or answered wrongly: the numbers, if any, do not count.
    Failed,
    /// Stopped before its end; the numbers are of what was done until then.
    Partial,
}

impl Status {
    /// The word in a result file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Partial => "partial",
        }
    }
}

/// One second, or another span that the run chose, of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// When the span ended, in seconds since the test began.
    pub second: f64,
    /// Operations that ended in it.
    pub ops: u64,
    /// Latencies of the calls that ended in it, in microseconds; 0 when there were none.
    pub p50_us: f64,
    /// 99 of 100 calls were as fast.
    pub p99_us: f64,
    /// 999 of 1,000.
    pub p99_9_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// The machine that a result was measured on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineInfo {
    /// The processor's model, as the system names it.
    pub cpu_model: String,
    /// Processors that the run may use.
    pub cores: u64,
    /// Main memory, in bytes.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
    /// The file system that held the databases.
    pub file_system: String,
    /// Load average over one minute when the run began.
    pub load_at_start: f64,
    /// Share of the processors' time during the run that the hypervisor gave to others, in percent.
    pub steal_percent: f64,
}

/// How a type stands in a cell.
trait Cell: Sized {
    fn write_cell(&self) -> String;
    fn read_cell(text: &str) -> std::result::Result<Self, String>;
}

fn read_number<T: FromStr + Default>(text: &str) -> std::result::Result<T, String>
where
    T::Err: std::fmt::Display,
{
    let text = text.trim();
    if text.is_empty() {
        return Ok(T::default());
    }
    text.parse()
        .map_err(|source| format!("{text:?} is not a number: {source}"))
}

impl Cell for String {
    fn write_cell(&self) -> String {
        self.clone()
    }
    fn read_cell(text: &str) -> std::result::Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Cell for f64 {
    /// Shortest text that gives the same number again; numbers that are none become 0.
    fn write_cell(&self) -> String {
        if self.is_finite() {
            self.to_string()
        } else {
            "0".to_owned()
        }
    }
    fn read_cell(text: &str) -> std::result::Result<Self, String> {
        let number: Self = read_number(text)?;
        Ok(if number.is_finite() { number } else { 0.0 })
    }
}

impl Cell for u64 {
    fn write_cell(&self) -> String {
        self.to_string()
    }
    fn read_cell(text: &str) -> std::result::Result<Self, String> {
        read_number(text)
    }
}

impl Cell for bool {
    fn write_cell(&self) -> String {
        u8::from(*self).to_string()
    }
    fn read_cell(text: &str) -> std::result::Result<Self, String> {
        match text.trim() {
            "" | "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            other => Err(format!("{other:?} is neither 0 nor 1")),
        }
    }
}

impl Cell for Status {
    fn write_cell(&self) -> String {
        self.name().to_owned()
    }
    fn read_cell(text: &str) -> std::result::Result<Self, String> {
        match text.trim() {
            "" | "ok" => Ok(Self::Ok),
            "failed" => Ok(Self::Failed),
            "partial" => Ok(Self::Partial),
            other => Err(format!("{other:?} is not ok, failed or partial")),
        }
    }
}

/// Declares [`Row`] with its columns in this order.
macro_rules! columns {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// One line of a result file.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Row {
            $($(#[$meta])* pub $name: $type,)+
            /// The test second by second; empty when it was not asked for. In JSON lines only.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub timeline: Vec<TimelinePoint>,
            /// The machine. In JSON lines only.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub machine: Option<MachineInfo>,
        }

        impl Row {
            /// The columns of a CSV file, in order.
            pub const COLUMNS: &'static [&'static str] = &[$(stringify!($name)),+];

            fn cells(&self) -> Vec<String> {
                vec![$(self.$name.write_cell()),+]
            }

            /// Sets what stands in `column`; columns of other programs are passed over.
            fn set(&mut self, column: &str, text: &str) -> std::result::Result<(), String> {
                match column {
                    $(stringify!($name) => self.$name = Cell::read_cell(text)?,)+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

columns! {
    /// The engine, as it was named: `kingtide`, `rocksdb`, or the name a user gave it.
    engine: String,
    /// The test of the suite, or what was run on the command line.
    test_name: String,
    /// What was measured: `PUT`, `GET`, `DELETE`, `SEEK`, `RANGE`, `ITER`, `RMW`, `TXN`, `INSERT`; `ALL` for all operations of
    /// a mixed workload together.
    operation: String,
    /// Operations per second: of the time inside calls, averaged over threads; at a limited rate, of the time of the step. A
    /// batch of 10 is 10 operations, a range is one, an iteration over everything is as many as it visits.
    ops_per_sec: f64,
    /// That time, in seconds.
    duration_sec: f64,
    /// Mean latency of a call in microseconds; a batch is one call, an iteration is one per entry.
    avg_latency_us: f64,
    /// Standard deviation of the latency.
    stddev_us: f64,
    /// The same in percent of the mean.
    cv_percent: f64,
    /// Half of the calls were as fast.
    p50_us: f64,
    /// 95 of 100.
    p95_us: f64,
    /// 99 of 100.
    p99_us: f64,
    /// The fastest.
    min_us: f64,
    /// The slowest.
    max_us: f64,
    /// Highest resident memory of the process during the test, in MiB.
    peak_rss_mb: f64,
    /// Highest address space, in MiB.
    peak_vms_mb: f64,
    /// MiB that the process fetched from devices during the test.
    disk_read_mb: f64,
    /// MiB that the process sent towards devices during the test, the wait for its background work included: of pages that became
    /// dirty. One that is written again before the system has sent it away counts once.
    disk_write_mb: f64,
    /// Processor time in the program, in seconds, summed over threads.
    cpu_user_sec: f64,
    /// Processor time in the kernel.
    cpu_sys_sec: f64,
    /// Both in percent of the wall time: 200 is two processors busy.
    cpu_percent: f64,
    /// MiB that the database occupies after it was closed.
    db_size_mb: f64,
    /// The same over the whole run, closing included, per byte of keys and values written.
    write_amp: f64,
    /// Bytes fetched from devices over the whole run, per byte of keys and values read.
    read_amp: f64,
    /// Bytes occupied after closing per byte of live keys and values.
    space_amp: f64,
    /// The workload: `write`, `read`, `missing`, `mixed`, `delete`, `seek`, `range`, `iterate`, `rmw`, `txn`, `ycsb-a`...
    workload: String,
    /// The order of the keys.
    pattern: String,
    /// Threads that called the engine.
    threads: u64,
    /// Operations that were asked for.
    num_operations: u64,
    /// Operations of a call: of a batch of writes, also where these are counted together with reads; 1 for others.
    batch_size: u64,
    /// Bytes of a key.
    key_size: u64,
    /// Bytes of a value, on average.
    value_size: u64,
    /// Entries of a range; 0 for other operations.
    range_size: u64,
    /// Whether every write is durable before the call returns.
    sync_enabled: bool,
    /// 999 of 1,000 calls were as fast.
    p99_9_us: f64,
    /// The engine's version, the file it was loaded from, or both.
    engine_version: String,
    /// Which repetition, from 1.
    round: u64,
    /// How the row came about.
    status: Status,
    /// Why, when the status is not ok.
    error: String,
    /// Keys or values that came back different from what was written.
    wrong: u64,
    /// Keys that should have been found and were not.
    not_found: u64,
    /// MiB that the database occupies once flushes and merges have ended, before it is closed.
    db_size_settled_mb: f64,
    /// Share of a value that a compressor can remove: 0 for random bytes, 1 for a constant.
    compressibility: f64,
    /// Block compression.
    codec: String,
    /// The block cache, in MiB.
    cache_mb: f64,
    /// The size at which a memtable is flushed, in MiB.
    memtable_mb: f64,
    /// What determines keys, values and their order.
    seed: u64,
    /// The suite that the test belongs to; empty for one from the command line.
    suite: String,
    /// When the test began: RFC 3339, UTC.
    started_at: String,
    /// From the first call to the end of the slowest thread, in seconds, the making and checking of data included.
    wall_sec: f64,
    /// The wait for flushes and merges afterwards, in seconds.
    settle_sec: f64,
    /// `none`, `interval` or `full`.
    sync_mode: String,
    /// Operations that were done.
    operations_done: u64,
    /// Which step of its test, from 1; those that only prepare are counted.
    step: u64,
    /// What no other column tells of the settings, as suites name them: `keys=500000 bloom_bits=10 read_share=0.95`.
    settings: String,
}

impl Row {
    /// True when the numbers may be compared with others.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// How far the slowest of 1,000 calls lies from the usual one: p99.9 divided by p50; 0 when nothing was measured.
    #[must_use]
    pub fn tail(&self) -> f64 {
        if self.p50_us > 0.0 {
            self.p99_9_us / self.p50_us
        } else {
            0.0
        }
    }

    /// The time line without what is left of the last second, unless that is half of one: a sliver has no rate.
    pub(crate) fn whole_seconds(&self) -> &[TimelinePoint] {
        let mut whole = &self.timeline[..];
        while let [before @ .., last] = whole
            && last.second - before.last().map_or(0.0, |point| point.second) < WHOLE_SECONDS_MIN
        {
            whole = before;
        }
        whole
    }

    /// The spans of the time line, in seconds since the step began, in which fewer than a tenth of the usual number of
    /// operations ended: the median over seconds. What is left of the last second is not judged, unless it is half a second.
    #[must_use]
    pub fn stalls(&self) -> Vec<(f64, f64)> {
        let points = self.whole_seconds();
        let begins = std::iter::once(0.0).chain(points.iter().map(|point| point.second));
        let spans: Vec<(f64, f64, f64)> = begins
            .zip(points)
            .map(|(from, point)| {
                let seconds = (point.second - from).max(1e-9);
                (from, point.second, point.ops as f64 / seconds)
            })
            .collect();
        let usual = median(spans.iter().map(|(_, _, rate)| *rate).collect());
        let mut stalls: Vec<(f64, f64)> = Vec::new();
        for (from, to, rate) in spans {
            if rate >= usual / 10.0 {
                continue;
            }
            match stalls.last_mut() {
                Some(last) if (last.1 - from).abs() < 1e-6 => last.1 = to,
                _ => stalls.push((from, to)),
            }
        }
        stalls
    }

    /// Writes a header and the rows as CSV.
    ///
    /// # Errors
    /// [`BenchError::Io`]: `output` cannot be written.
    pub fn write_csv(rows: &[Self], output: impl Write) -> Result<()> {
        let mut writer = csv::Writer::from_writer(output);
        let doing = "write the CSV results";
        writer
            .write_record(Self::COLUMNS)
            .map_err(|source| BenchError::Io(doing.into(), source.into()))?;
        for row in rows {
            writer
                .write_record(row.cells())
                .map_err(|source| BenchError::Io(doing.into(), source.into()))?;
        }
        writer.flush().map_err(BenchError::io(doing))
    }

    /// Reads what [`Row::write_csv`] or the benchmark program of TidesDB wrote.
    ///
    /// # Errors
    /// [`BenchError::Io`]: `input` cannot be read; [`BenchError::Results`]: it is no such file, with line and column.
    pub fn read_csv(input: impl Read) -> Result<Vec<Self>> {
        let mut reader = csv::Reader::from_reader(input);
        let header = reader.headers().map_err(malformed)?.clone();
        if header.is_empty() {
            return Err(BenchError::Results(
                "it is empty: no engine was measured".into(),
            ));
        }
        if !header.iter().any(|column| column == "engine") {
            let message = "not a result file: the first line names no column \"engine\"";
            return Err(BenchError::Results(message.into()));
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(malformed)?;
            let mut row = Self::default();
            for (column, text) in header.iter().zip(&record) {
                row.set(column, text).map_err(|problem| {
                    let line = record.position().map_or(0, csv::Position::line);
                    BenchError::Results(format!("line {line}, column {column}: {problem}"))
                })?;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Writes each row as a JSON object on a line.
    ///
    /// # Errors
    /// [`BenchError::Io`]: `output` cannot be written.
    pub fn write_jsonl(rows: &[Self], mut output: impl Write) -> Result<()> {
        for row in rows {
            let line = serde_json::to_string(row)
                .map_err(|source| BenchError::Results(format!("row: {source}")))?;
            writeln!(output, "{line}").map_err(BenchError::io("write the JSON results"))?;
        }
        output
            .flush()
            .map_err(BenchError::io("write the JSON results"))
    }

    /// Reads what [`Row::write_jsonl`] wrote. Empty lines are passed over.
    ///
    /// # Errors
    /// [`BenchError::Io`]: `input` cannot be read; [`BenchError::Results`]: a line is no row, with its number. Every row names
    /// its engine.
    pub fn read_jsonl(input: impl BufRead) -> Result<Vec<Self>> {
        let mut rows = Vec::new();
        for (number, line) in input.lines().enumerate() {
            let line = line.map_err(BenchError::io("read the results"))?;
            if line.trim().is_empty() {
                continue;
            }
            let refused = |why: &dyn std::fmt::Display| {
                BenchError::Results(format!("line {}: not a row: {why}", number + 1))
            };
            let fields: serde_json::Value =
                serde_json::from_str(&line).map_err(|source| refused(&source))?;
            if fields.is_object() && fields.get("engine").is_none() {
                return Err(refused(&"it has no field \"engine\""));
            }
            rows.push(serde_json::from_value(fields).map_err(|source| refused(&source))?);
        }
        Ok(rows)
    }

    /// Reads a result file of either format: JSON lines when it begins with a brace, else CSV.
    ///
    /// # Errors
    /// As [`Row::read_csv`] and [`Row::read_jsonl`], with the file's name; [`BenchError::Results`] also when it has no rows.
    pub fn read_file(path: &Path) -> Result<Vec<Self>> {
        let doing = || format!("read {}", path.display());
        let file = fs::File::open(path).map_err(BenchError::io(doing()))?;
        let mut input = BufReader::new(file);
        let start = input.fill_buf().map_err(BenchError::io(doing()))?;
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_cut = !start.contains(&b'\n');
        let rows = if first == Some(&b'{') {
            Self::read_jsonl(input)
        } else {
            Self::read_csv(input)
        };
        let rows = rows.and_then(|rows| match (rows.is_empty(), is_cut) {
            (false, _) => Ok(rows),
            (true, true) => Err(BenchError::Results(
                "it is cut off inside its header".into(),
            )),
            (true, false) => Err(BenchError::Results("it has a header and no rows".into())),
        });
        rows.map_err(|error| match error {
            BenchError::Results(text) => BenchError::Results(format!("{}: {text}", path.display())),
            other => other,
        })
    }
}

fn malformed(source: csv::Error) -> BenchError {
    if source.is_io_error() {
        return BenchError::Io("read the results".into(), source.into());
    }
    BenchError::Results(format!("not a result file: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns that other programs know, in their order.
    const PUBLISHED: &str = "engine,test_name,operation,ops_per_sec,duration_sec,avg_latency_us,stddev_us,cv_percent,\
        p50_us,p95_us,p99_us,min_us,max_us,peak_rss_mb,peak_vms_mb,disk_read_mb,disk_write_mb,cpu_user_sec,cpu_sys_sec,\
        cpu_percent,db_size_mb,write_amp,read_amp,space_amp,workload,pattern,threads,num_operations,batch_size,key_size,\
        value_size,range_size,sync_enabled";

    fn row() -> Row {
        Row {
            engine: "kingtide".into(),
            test_name: "a, \"quoted\"\ntest".into(),
            ops_per_sec: 1_234_567.891,
            p50_us: 0.1,
            threads: 8,
            sync_enabled: true,
            status: Status::Partial,
            error: "disk full".into(),
            seed: u64::MAX,
            ..Row::default()
        }
    }

    #[test]
    fn the_published_columns_come_first_and_in_order() {
        let columns = Row::COLUMNS.join(",");
        assert!(columns.starts_with(PUBLISHED), "{columns}");
    }

    #[test]
    fn rows_survive_csv_and_json_lines() {
        let rows = [row(), Row::default()];
        let mut bytes = Vec::new();
        Row::write_csv(&rows, &mut bytes).expect("memory");
        assert_eq!(Row::read_csv(&bytes[..]).expect("own text"), rows);
        let with_timeline = Row {
            timeline: vec![TimelinePoint {
                second: 1.0,
                ops: 7,
                ..TimelinePoint::default()
            }],
            machine: Some(MachineInfo::default()),
            ..row()
        };
        let rows = [with_timeline, Row::default()];
        let mut bytes = Vec::new();
        Row::write_jsonl(&rows, &mut bytes).expect("memory");
        assert_eq!(Row::read_jsonl(&bytes[..]).expect("own text"), rows);
    }

    #[test]
    fn files_of_other_programs_and_versions_are_read() {
        let text = format!("{PUBLISHED},news\nrocksdb,t,PUT,5{},1,x\n", ",".repeat(28));
        let rows = Row::read_csv(text.as_bytes()).expect("fewer columns");
        assert_eq!(rows[0].engine, "rocksdb");
        assert!(rows[0].sync_enabled && rows[0].is_ok());
        assert!((rows[0].ops_per_sec - 5.0).abs() < f64::EPSILON);
        let rows = Row::read_jsonl(&b"{\"engine\":\"x\",\"new\":1}\n\n"[..]).expect("fewer fields");
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_stall_is_far_below_the_usual_rate() {
        let point = |second, ops| TimelinePoint {
            second,
            ops,
            ..TimelinePoint::default()
        };
        let stalling = Row {
            // Nothing ended in the fifth second; the last one is short.
            timeline: vec![
                point(1.0, 100),
                point(2.0, 9),
                point(3.0, 5),
                point(4.0, 90),
                point(6.0, 10),
                point(7.0, 110),
                point(8.0, 100),
                point(9.0, 100),
                point(9.1, 1),
            ],
            ..row()
        };
        assert_eq!(stalling.stalls(), [(1.0, 3.0), (4.0, 6.0)]);
        assert_eq!(Row::default().stalls(), []);
        assert!(Row::default().tail().abs() < f64::EPSILON);
    }

    #[test]
    fn what_is_no_result_file_is_refused_with_its_place() {
        for (text, expected) in [
            ("", "engine"),
            ("a,b\n1,2\n", "engine"),
            ("engine,threads\nx,many\n", "line 2, column threads"),
            ("engine,status\nx,great\n", "great"),
            ("engine,threads\nx\n", "not a result file"),
        ] {
            let message = Row::read_csv(text.as_bytes()).expect_err(text).to_string();
            assert!(message.contains(expected), "{message}");
        }
        for line in ["[1]", "{\"a\":1}", "{\"engine\":1}", "{\"engine\":"] {
            let text = format!("{{\"engine\":\"x\"}}\n{line}\n");
            let message = Row::read_jsonl(text.as_bytes())
                .expect_err(line)
                .to_string();
            assert!(message.contains("line 2: not a row"), "{message}");
        }
        let message = Row::read_file(Path::new("/nowhere/rows.csv"))
            .expect_err("none")
            .to_string();
        assert!(message.contains("/nowhere/rows.csv"), "{message}");
    }

    #[test]
    fn files_without_rows_say_what_is_missing() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let file = directory.path().join("rows.csv");
        for (text, expected) in [
            ("", "empty"),
            ("engine,test_na", "cut off inside its header"),
            ("engine,test_name\n", "no rows"),
        ] {
            fs::write(&file, text).expect("file");
            let message = Row::read_file(&file).expect_err(text).to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("rows.csv"), "{message}");
        }
    }

    #[test]
    fn either_format_is_recognised() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let rows = [row()];
        let mut bytes = Vec::new();
        Row::write_csv(&rows, &mut bytes).expect("memory");
        let csv = directory.path().join("csv");
        fs::write(&csv, &bytes).expect("file");
        assert_eq!(Row::read_file(&csv).expect("own file"), rows);
        let mut bytes = Vec::new();
        Row::write_jsonl(&rows, &mut bytes).expect("memory");
        let json = directory.path().join("json");
        fs::write(&json, &bytes).expect("file");
        assert_eq!(Row::read_file(&json).expect("own file"), rows);
    }

    #[test]
    fn numbers_that_are_none_do_not_spoil_a_file() {
        let rows = [Row {
            ops_per_sec: f64::NAN,
            max_us: f64::INFINITY,
            ..Row::default()
        }];
        let mut bytes = Vec::new();
        Row::write_csv(&rows, &mut bytes).expect("memory");
        assert_eq!(
            Row::read_csv(&bytes[..]).expect("own text"),
            [Row::default()]
        );
    }
}
