//! Settings of families in files: one section per family.
//!
//! ```text
//! [orders]
//! write_buffer_size = 67108864
//! compression_algorithm = LZ4
//! value_threshold = 512
//! ```
//!
//! A line is empty, a comment (`;` or `#`), a section or `key = value`; a comment may follow a value behind a space.
//! Codecs go by name, everything else by number, as in the struct; `klog_value_threshold` is read as `value_threshold`.
//! Keys that this version does not know are left alone: a newer one may have written them. Saving replaces the section
//! and keeps the rest of the file.

use std::{
    ffi::c_int,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
    str::FromStr,
};

use kingtide::limits;

use crate::{
    border::{Failure, Outcome, answer, code},
    config::{default_family_config, family_options},
    pointer::{In, Out, Text, array_text, text_array},
    types::FamilyConfig,
};

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

const CODECS: [(&str, c_int); 5] = [
    ("NONE", 0),
    ("SNAPPY", 1),
    ("LZ4", 2),
    ("ZSTD", 3),
    ("LZ4_FAST", 4),
];

/// Reads the settings of a family from a file.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_config_load_from_ini(
    ini_file: Text,
    section_name: Text,
    config: Out<FamilyConfig>,
) -> c_int {
    answer(|| {
        let path = ini_file.path("ini_file")?;
        let section = section_name.name(limits::FAMILY_NAME_BYTES_MAX, "section_name")?;
        let place = config.require("config")?;
        let mut config = default_family_config();
        config.name = text_array(section);
        let text = read(path)?;
        for line in parse(&text) {
            let line = line.map_err(|(number, why)| damaged(path, number, why))?;
            if let Line::Pair(in_section, key, value) = line.content
                && in_section == section
            {
                set(&mut config, key, value)
                    .ok_or_else(|| damaged(path, line.number, "not a value of that key"))?;
            }
        }
        place.set(config);
        Ok(())
    })
}

/// Writes the settings of a family to a file.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_cf_config_save_to_ini(
    ini_file: Text,
    section_name: Text,
    config: In<FamilyConfig>,
) -> c_int {
    answer(|| {
        let path = ini_file.path("ini_file")?;
        let section = section_name.name(limits::FAMILY_NAME_BYTES_MAX, "section_name")?;
        if section.contains([']', '\n', '\r']) {
            return Err(Failure::invalid("section_name: cannot name a section"));
        }
        let config = config.require("config")?;
        family_options(config)?;
        let before = match fs::symlink_metadata(path) {
            Ok(_) => read(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(io_failure(path, &error)),
        };
        let mut text = without_section(&before, section);
        write_section(&mut text, section, config)?;
        replace_file(path, &text).map_err(|error| io_failure(path, &error))
    })
}

fn io_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(code::IO, format!("{}: {error}", path.display()))
}

fn damaged(path: &Path, line: usize, why: &str) -> Failure {
    Failure::new(
        code::CORRUPTION,
        format!("{} line {line}: {why}", path.display()),
    )
}

fn read(path: &Path) -> Outcome<String> {
    let length = fs::metadata(path)
        .map_err(|error| io_failure(path, &error))?
        .len();
    if length > FILE_BYTES_MAX {
        return Err(damaged(path, 1, "too long for a file of settings"));
    }
    let bytes = fs::read(path).map_err(|error| io_failure(path, &error))?;
    String::from_utf8(bytes).map_err(|_| damaged(path, 1, "not UTF-8"))
}

/// Complete or not at all: beside the file first, then in its place.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let outcome = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if outcome.is_err() {
        // The first failure is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    outcome
}

/// A line with its number from 1.
struct Numbered<'a> {
    number: usize,
    content: Line<'a>,
}

enum Line<'a> {
    Nothing,
    Section(&'a str),
    /// Section, key, value.
    Pair(&'a str, &'a str, &'a str),
}

type Parsed<'a> = Result<Numbered<'a>, (usize, &'static str)>;

fn parse(text: &str) -> impl Iterator<Item = Parsed<'_>> {
    let mut section = None;
    text.lines().enumerate().map(move |(index, line)| {
        let number = index + 1;
        let content = parse_line(line, &mut section).map_err(|why| (number, why))?;
        Ok(Numbered { number, content })
    })
}

fn parse_line<'a>(line: &'a str, section: &mut Option<&'a str>) -> Result<Line<'a>, &'static str> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.is_empty() || line.starts_with([';', '#']) {
        return Ok(Line::Nothing);
    }
    if let Some(rest) = line.strip_prefix('[') {
        let (name, behind) = rest.split_once(']').ok_or("a section without ]")?;
        let behind = behind.trim();
        if !behind.is_empty() && !behind.starts_with([';', '#']) {
            return Err("text behind a section");
        }
        *section = Some(name.trim());
        return Ok(Line::Section(name.trim()));
    }
    let (key, value) = line
        .split_once('=')
        .ok_or("neither a section nor key = value")?;
    if key.trim().is_empty() {
        return Err("no key before =");
    }
    let value = [" ;", " #", "\t;", "\t#"]
        .iter()
        .filter_map(|mark| value.find(mark))
        .min()
        .map_or(value, |end| &value[..end]);
    let section = section.ok_or("a setting before the first section")?;
    Ok(Line::Pair(section, key.trim(), value.trim()))
}

/// The file without a section; unreadable lines elsewhere stay as they are.
fn without_section(text: &str, section: &str) -> String {
    let mut rest = String::with_capacity(text.len());
    let mut is_inside = false;
    let mut current = None;
    for line in text.lines() {
        if let Ok(Line::Section(name)) = parse_line(line, &mut current) {
            is_inside = name == section;
        }
        if !is_inside {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    let kept = rest.trim_end().len();
    rest.truncate(kept);
    if !rest.is_empty() {
        rest.push_str("\n\n");
    }
    rest
}

/// Names a number by its field, for reading and writing alike.
macro_rules! numbers {
    ($($key:literal = $field:ident),+ $(,)?) => {
        fn set_number(config: &mut FamilyConfig, key: &str, value: &str) -> Option<bool> {
            match key {
                $($key => config.$field = number(value)?,)+
                _ => return Some(false),
            }
            Some(true)
        }

        fn write_numbers(text: &mut String, config: &FamilyConfig) -> std::fmt::Result {
            $(writeln!(text, "{} = {}", $key, config.$field)?;)+
            Ok(())
        }
    };
}

numbers!(
    "write_buffer_size" = write_buffer_size,
    "level_size_ratio" = level_size_ratio,
    "min_levels" = min_levels,
    "dividing_level_offset" = dividing_level_offset,
    "value_threshold" = klog_value_threshold,
    "enable_bloom_filter" = enable_bloom_filter,
    "bloom_fpr" = bloom_fpr,
    "enable_block_indexes" = enable_block_indexes,
    "index_sample_ratio" = index_sample_ratio,
    "block_index_prefix_len" = block_index_prefix_len,
    "sync_mode" = sync_mode,
    "sync_interval_us" = sync_interval_us,
    "skip_list_max_level" = skip_list_max_level,
    "skip_list_probability" = skip_list_probability,
    "default_isolation_level" = default_isolation_level,
    "min_disk_space" = min_disk_space,
    "l1_file_count_trigger" = l1_file_count_trigger,
    "l0_queue_stall_threshold" = l0_queue_stall_threshold,
    "tombstone_density_trigger" = tombstone_density_trigger,
    "tombstone_density_min_entries" = tombstone_density_min_entries,
    "use_btree" = use_btree,
    "object_target_file_size" = object_target_file_size,
    "object_lazy_compaction" = object_lazy_compaction,
    "object_prefetch_compaction" = object_prefetch_compaction,
);

/// A number as the field has it; true and false are 1 and 0.
fn number<T: FromStr>(value: &str) -> Option<T> {
    let value = match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => "1".to_owned(),
        "false" | "no" | "off" => "0".to_owned(),
        other => other.to_owned(),
    };
    value.parse().ok()
}

/// Applies one setting; `None` when the value is not one of that key.
fn set(config: &mut FamilyConfig, key: &str, value: &str) -> Option<()> {
    let key = if key == "klog_value_threshold" {
        "value_threshold"
    } else {
        key
    };
    match key {
        "compression_algorithm" | "compression" => {
            let named = CODECS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(value))
                .map(|(_, number)| *number);
            config.compression_algorithm = named.or_else(|| {
                let number: c_int = value.parse().ok()?;
                CODECS
                    .iter()
                    .any(|(_, known)| *known == number)
                    .then_some(number)
            })?;
        }
        "comparator_name" => {
            if value.len() > limits::COMPARATOR_NAME_BYTES_MAX {
                return None;
            }
            config.comparator_name = text_array(value);
        }
        "comparator_ctx_str" => {
            if value.len() >= config.comparator_ctx_str.len() {
                return None;
            }
            config.comparator_ctx_str = text_array(value);
        }
        key => {
            set_number(config, key, value)?;
        }
    }
    Some(())
}

fn write_section(text: &mut String, section: &str, config: &FamilyConfig) -> Outcome<()> {
    let codec = CODECS
        .iter()
        .find(|(_, number)| *number == config.compression_algorithm)
        .map_or("NONE", |(name, _)| name);
    let comparator = array_text(&config.comparator_name, "comparator_name")?;
    let context = array_text(&config.comparator_ctx_str, "comparator_ctx_str")?;
    if comparator.contains(['\n', '\r']) || context.contains(['\n', '\r']) {
        return Err(Failure::invalid("a name or context with a line break"));
    }
    let written = writeln!(text, "[{section}]")
        .and_then(|()| write_numbers(text, config))
        .and_then(|()| writeln!(text, "compression_algorithm = {codec}"))
        .and_then(|()| writeln!(text, "comparator_name = {comparator}"))
        .and_then(|()| writeln!(text, "comparator_ctx_str = {context}"));
    written.map_err(|_| Failure::memory())
}
