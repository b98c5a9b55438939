//! What the rows of one test have in common, and what to call tests so that each can be told from the others with few words.

use serde_json::{Value, json};

use crate::Row;

/// Places in [`TestKey::plain_fields`].
const WORKLOAD: usize = 0;
const PATTERN: usize = 1;
/// The fields that are columns of their own; behind them are the settings.
const PLAIN_FIELDS: usize = 11;

/// What the rows of one test have in common, whatever the engine: rows that agree in it can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestKey {
    suite: String,
    test: String,
    operation: String,
    workload: String,
    pattern: String,
    codec: String,
    sync: String,
    /// Threads, operations, batch, key, value and range sizes.
    numbers: [u64; 6],
    /// Name and value of each setting that the row tells, and of its step. `None` in rows of files that do not tell settings.
    settings: Option<Vec<(String, String)>>,
}

/// The settings of a row, if it tells them: columns that older files have too, what [`Row::settings`] tells, and the step.
fn settings_of(row: &Row) -> Option<Vec<(String, String)>> {
    if row.settings.is_empty() {
        return None;
    }
    let columns = [
        ("cache_mb", row.cache_mb.to_string()),
        ("memtable_mb", row.memtable_mb.to_string()),
        ("compressibility", row.compressibility.to_string()),
    ];
    let told = row
        .settings
        .split(' ')
        .filter_map(|told| told.split_once('='));
    let told = told.map(|(name, value)| (name, value.to_owned()));
    let step = [("step", row.step.to_string())];
    let all = columns.into_iter().chain(told).chain(step);
    Some(all.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// What is said of a setting.
fn setting_text((name, value): &(String, String)) -> String {
    match name.as_str() {
        "cache_mb" => format!("{value} MiB cache"),
        "memtable_mb" => format!("{value} MiB memtable"),
        _ => format!("{} {value}", name.replace('_', " ")),
    }
}

impl TestKey {
    pub(crate) fn of(row: &Row) -> Self {
        let sync = match row.sync_mode.as_str() {
            "" if row.sync_enabled => "full",
            mode => mode,
        };
        Self {
            suite: row.suite.clone(),
            test: row.test_name.clone(),
            operation: row.operation.clone(),
            workload: row.workload.clone(),
            pattern: row.pattern.clone(),
            codec: row.codec.clone(),
            sync: sync.to_owned(),
            numbers: [
                row.threads,
                row.num_operations,
                row.batch_size,
                row.key_size,
                row.value_size,
                row.range_size,
            ],
            settings: settings_of(row),
        }
    }

    /// Whether they agree as far as both tell: older files do not tell all settings.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        match (&self.settings, &other.settings) {
            (Some(_), Some(_)) => self == other,
            _ => {
                let plain = |key: &Self| Self {
                    settings: None,
                    ..key.clone()
                };
                plain(self) == plain(other)
            }
        }
    }

    /// The name of the test, or what was measured when it has none.
    fn name(&self) -> String {
        if self.test.is_empty() {
            self.operation.to_lowercase()
        } else {
            self.test.clone()
        }
    }

    /// The name and what was measured.
    fn short_label(&self) -> String {
        let operation = self.operation.to_lowercase();
        if self.test.is_empty() || operation.is_empty() {
            self.name()
        } else {
            format!("{} ({operation})", self.test)
        }
    }

    /// The fields in which tests of one name can differ, as text; empty where there is nothing to say.
    fn plain_fields(&self) -> [String; PLAIN_FIELDS] {
        let [threads, operations, batch, key, value, range] = self.numbers;
        let say = |number: u64, what: &str| match number {
            0 => String::new(),
            1 => format!("1 {what}"),
            _ => format!("{number} {what}"),
        };
        [
            self.workload.clone(),
            self.pattern.clone(),
            say(threads, if threads == 1 { "thread" } else { "threads" }),
            say(batch, "a batch"),
            say(range, "a range"),
            say(key, "B keys"),
            say(value, "B values"),
            self.codec.clone(),
            match self.sync.as_str() {
                "" => String::new(),
                mode => format!("sync {mode}"),
            },
            self.suite.clone(),
            say(operations, "operations"),
        ]
    }

    /// The settings that are told, as text.
    fn told_settings(&self) -> &[(String, String)] {
        self.settings.as_deref().unwrap_or_default()
    }

    fn has_setting(&self, setting: &(String, String)) -> bool {
        self.told_settings().contains(setting)
    }

    /// The label with every field but the settings.
    pub(crate) fn long_label(&self) -> String {
        let fields = self.plain_fields();
        let said = fields.iter().filter(|field| !field.is_empty());
        let said: Vec<&str> = said.map(String::as_str).collect();
        format!("{}, {}", self.short_label(), said.join(", "))
    }

    /// The first fields that tell it from all of `others`, each with its place among the fields.
    fn distinct_fields(&self, others: &[&Self]) -> Vec<(usize, String)> {
        let mut told = Vec::new();
        let mut rivals: Vec<(&Self, [String; PLAIN_FIELDS])> = others
            .iter()
            .filter(|other| **other != self)
            .map(|other| (*other, other.plain_fields()))
            .collect();
        for (place, field) in self.plain_fields().into_iter().enumerate() {
            let count = rivals.len();
            rivals.retain(|(_, other)| other[place] == field);
            if rivals.len() < count && !field.is_empty() {
                told.push((place, field));
            }
        }
        for (place, setting) in self.told_settings().iter().enumerate() {
            let count = rivals.len();
            rivals.retain(|(other, _)| other.has_setting(setting));
            if rivals.len() < count {
                told.push((PLAIN_FIELDS + place, setting_text(setting)));
            }
        }
        told
    }

    /// The label with the first fields that tell it from all of `others`.
    fn distinct_label(&self, others: &[&Self]) -> String {
        let mut label = self.short_label();
        for (_, field) in self.distinct_fields(others) {
            label.push_str(", ");
            label.push_str(&field);
        }
        label
    }

    /// The operation, an order of keys that is not the usual one, and the first fields that tell it from all of `others`.
    fn operation_label(&self, others: &[&Self]) -> String {
        let mut told = self.distinct_fields(others);
        let has_order = !matches!(self.workload.as_str(), "iterate" | "missing");
        let is_usual = matches!(self.pattern.as_str(), "" | "random");
        let is_told = told.iter().any(|(place, _)| *place == PATTERN);
        if has_order && !is_usual && !is_told {
            told.push((PATTERN, self.pattern.clone()));
        }
        if self.workload == "missing" && !told.iter().any(|(place, _)| *place == WORKLOAD) {
            told.push((WORKLOAD, self.workload.clone()));
        }
        told.sort_unstable();
        let told: Vec<String> = told.into_iter().map(|(_, field)| field).collect();
        format!("{} {}", self.operation, told.join(", "))
            .trim()
            .to_owned()
    }

    /// Each column that rows of one test agree in, and what stands there.
    fn columns(&self) -> [(&'static str, String); 13] {
        let [threads, operations, batch, key, value, range] =
            self.numbers.map(|number| number.to_string());
        [
            ("suite", self.suite.clone()),
            ("test_name", self.test.clone()),
            ("operation", self.operation.clone()),
            ("workload", self.workload.clone()),
            ("pattern", self.pattern.clone()),
            ("codec", self.codec.clone()),
            ("sync_mode", self.sync.clone()),
            ("threads", threads),
            ("num_operations", operations),
            ("batch_size", batch),
            ("key_size", key),
            ("value_size", value),
            ("range_size", range),
        ]
    }

    /// The columns in which two tests differ, with what stands in each: `codec: none and zstd`.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let said = |text: &str| {
            if text.is_empty() {
                "nothing".to_owned()
            } else {
                text.to_owned()
            }
        };
        let pairs = self.columns().into_iter().zip(other.columns());
        let columns = pairs
            .filter(|(own, others)| own.1 != others.1)
            .map(|(own, others)| format!("{}: {} and {}", own.0, said(&own.1), said(&others.1)));
        let (Some(own), Some(others)) = (&self.settings, &other.settings) else {
            return columns.collect();
        };
        let value = |of: &[(String, String)], name: &str| {
            let found = of.iter().find(|(other, _)| other == name);
            said(found.map_or("", |(_, value)| value))
        };
        let only_others = others
            .iter()
            .filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        let settings = own
            .iter()
            .filter(|setting| !other.has_setting(setting))
            .chain(only_others)
            .map(|(name, _)| format!("{name}: {} and {}", value(own, name), value(others, name)));
        columns.chain(settings).collect()
    }

    /// What a page knows of a test that it calls `label`.
    pub(crate) fn to_json(&self, label: &str) -> Value {
        let [threads, operations, batch, key, value, range] = self.numbers;
        json!({
            "label": label,
            "suite": self.suite,
            "operation": self.operation,
            "workload": self.workload,
            "pattern": self.pattern,
            "codec": self.codec,
            "sync": self.sync,
            "threads": threads,
            "operations": operations,
            "batch": batch,
            "key_size": key,
            "value_size": value,
            "range_size": range,
            // Of another size of batch there are other numbers of keys, and each test has its own steps.
            "settings": self
                .told_settings()
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "keys" | "step"))
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" "),
        })
    }
}

/// A label for each test: the shortest one that no other test has too.
pub(crate) fn test_labels(tests: &[TestKey]) -> Vec<String> {
    let is_unique = |test: &TestKey, label: &dyn Fn(&TestKey) -> String| {
        let own = label(test);
        tests.iter().filter(|other| label(other) == own).count() == 1
    };
    let label = |test: &TestKey| {
        if is_unique(test, &TestKey::name) {
            test.name()
        } else if is_unique(test, &TestKey::short_label) {
            test.short_label()
        } else {
            let short = test.short_label();
            let same = tests.iter().filter(|other| other.short_label() == short);
            test.distinct_label(&same.collect::<Vec<_>>())
        }
    };
    tests.iter().map(label).collect()
}

/// What to call the operation of each row, so that rows of one test can be told apart: `GET`, `PUT sequential`,
/// `GET ycsb-b`, `PUT 4 threads, 1000 a batch`. Words that would tell no row from another are left out; the name of the test
/// and the engine stand beside it.
///
/// ```
/// use kingtide_bench::{Row, operation_labels};
///
/// let row = |workload: &str| Row { operation: "GET".into(), workload: workload.into(), ..Row::default() };
/// assert_eq!(operation_labels([&row("read")]), ["GET"]);
/// assert_eq!(operation_labels([&row("read"), &row("ycsb-c")]), ["GET read", "GET ycsb-c"]);
/// ```
#[must_use]
pub fn operation_labels<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    let keys: Vec<TestKey> = rows.into_iter().map(TestKey::of).collect();
    let label = |key: &TestKey| {
        let is_rival =
            |other: &&TestKey| other.test == key.test && other.operation == key.operation;
        key.operation_label(&keys.iter().filter(is_rival).collect::<Vec<_>>())
    };
    keys.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_no_more_than_they_must() {
        let key = |test: &str, operation: &str, workload: &str, threads| {
            TestKey::of(&Row {
                test_name: test.into(),
                operation: operation.into(),
                workload: workload.into(),
                threads,
                value_size: 100,
                codec: "lz4".into(),
                ..Row::default()
            })
        };
        let tests = [
            key("fill", "PUT", "write", 8),
            key("mixed", "PUT", "mixed", 8),
            key("mixed", "GET", "mixed", 8),
            key("read", "GET", "read", 8),
            key("read", "GET", "missing", 8),
            key("read", "GET", "missing", 1),
            key("", "SEEK", "seek", 1),
        ];
        assert_eq!(
            test_labels(&tests),
            [
                "fill",
                "mixed (put)",
                "mixed (get)",
                "read (get), read",
                "read (get), missing, 8 threads",
                "read (get), missing, 1 thread",
                "seek",
            ]
        );
        assert_eq!(
            tests[0].long_label(),
            "fill (put), write, 8 threads, 100 B values, lz4"
        );
    }

    /// Goal: rows that differ in a setting alone, or are of two steps that are alike, are no rounds of each other, and are called
    /// what they are.
    #[test]
    fn settings_tell_tests_apart() {
        let row = |settings: &str, step, cache_mb| Row {
            operation: "GET".into(),
            workload: "read".into(),
            settings: settings.into(),
            step,
            cache_mb,
            ..Row::default()
        };
        let rows = [
            row("keys=9 read_share=0.95", 2, 64.0),
            row("keys=9 read_share=0.05", 2, 64.0),
            row("keys=9 read_share=0.05", 3, 64.0),
            row("keys=9 read_share=0.05", 3, 1.0),
        ];
        assert_eq!(
            operation_labels(&rows),
            [
                "GET 64 MiB cache, read share 0.95",
                "GET 64 MiB cache, read share 0.05, step 2",
                "GET 64 MiB cache, read share 0.05, step 3",
                "GET 1 MiB cache",
            ]
        );
        let keys = rows.each_ref().map(TestKey::of);
        let older = TestKey::of(&row("", 0, 64.0));
        for (place, key) in keys.iter().enumerate() {
            assert!(
                older.may_be(key) && key.may_be(&older),
                "older rows do not tell"
            );
            let same = keys.iter().filter(|other| key.may_be(other)).count();
            assert_eq!(same, 1, "{place}");
        }
        assert_eq!(
            keys[0].differences(&keys[2]),
            ["read_share: 0.95 and 0.05", "step: 2 and 3"]
        );
    }

    #[test]
    fn operations_of_one_test_are_told_apart_and_engines_do_not_count() {
        let row = |engine: &str, test: &str, workload: &str, threads, batch_size| Row {
            engine: engine.into(),
            test_name: test.into(),
            operation: "PUT".into(),
            workload: workload.into(),
            pattern: if workload == "seq" {
                "sequential"
            } else {
                "random"
            }
            .into(),
            threads,
            batch_size,
            ..Row::default()
        };
        let rows = [
            row("kingtide", "a", "write", 1, 1),
            row("kingtide", "a", "write", 4, 1),
            row("kingtide", "a", "write", 4, 1000),
            row("lmdb", "a", "write", 4, 1000),
            row("kingtide", "b", "write", 4, 1000),
            row("kingtide", "c", "seq", 1, 1),
            row("kingtide", "d", "missing", 1, 1),
            row("kingtide", "e", "mixed", 1, 1),
            row("kingtide", "e", "ycsb-a", 1, 1),
        ];
        assert_eq!(
            operation_labels(&rows),
            [
                "PUT 1 thread",
                "PUT 4 threads, 1 a batch",
                "PUT 4 threads, 1000 a batch",
                "PUT 4 threads, 1000 a batch",
                "PUT",
                "PUT sequential",
                "PUT missing",
                "PUT mixed",
                "PUT ycsb-a",
            ]
        );
    }
}
