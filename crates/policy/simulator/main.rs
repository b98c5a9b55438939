//! What compaction costs, simulated: `compaction-sim --pattern random --flushes 2000 --svg out.svg`.
//!
//! Prints write amplification, space amplification and sorted runs over time, and draws them. `--policy both` sets the
//! policy beside leveled compaction. See `kingtide_policy::simulation` for what is simulated.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints a table"
)]

use std::{env, process::ExitCode};

use kingtide_policy::{
    PolicyOptions, pick_merge,
    simulation::{ENTRY_BYTES, Load, Pick, Random, Sample, Tree, pick_merge_leveled, svg},
};

const USAGE: &str = "compaction-sim [--pattern random|sequential|zipfian|deletes|queue|ranges] [--policy spooky|leveled|both]
    [--flushes N] [--keys N] [--buffer ENTRIES] [--ratio T] [--trigger TABLES] [--offset N] [--seed N] [--svg FILE]";

struct Settings {
    patterns: Vec<Load>,
    policies: Vec<(&'static str, Pick)>,
    flushes: u64,
    keys: u32,
    buffer: u64,
    ratio: usize,
    trigger: usize,
    offset: usize,
    seed: u64,
    svg: Option<String>,
}

impl Settings {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self {
            patterns: Load::ALL.to_vec(),
            policies: vec![("spooky", pick_merge as Pick)],
            flushes: 2000,
            keys: 200_000,
            buffer: 500,
            ratio: 10,
            trigger: 4,
            offset: 1,
            seed: 1,
            svg: None,
        };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            settings.set(&name, value)?;
        }
        if settings.svg.is_some() && settings.patterns.len() > 1 {
            return Err("--svg draws one load: say which with --pattern".to_owned());
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let wrong = || format!("{name} cannot be {value}");
        let number = || value.parse::<u64>().map_err(|_| wrong());
        let small = || value.parse::<u32>().map_err(|_| wrong());
        match name {
            "--pattern" => self.patterns = vec![Load::of_name(&value).ok_or_else(wrong)?],
            "--policy" => {
                let all: [(&'static str, Pick); 2] =
                    [("spooky", pick_merge), ("leveled", pick_merge_leveled)];
                self.policies = all
                    .into_iter()
                    .filter(|(name, _)| value == "both" || value == *name)
                    .collect();
                if self.policies.is_empty() {
                    return Err(wrong());
                }
            }
            "--flushes" => self.flushes = number()?,
            "--keys" => self.keys = small()?,
            "--buffer" => self.buffer = number()?.max(1),
            "--ratio" => self.ratio = small()? as usize,
            "--trigger" => self.trigger = small()? as usize,
            "--offset" => self.offset = small()? as usize,
            "--seed" => self.seed = number()?,
            "--svg" => self.svg = Some(value),
            _ => return Err(format!("there is no {name}")),
        }
        Ok(())
    }

    fn options(&self) -> PolicyOptions {
        PolicyOptions {
            level_size_ratio: self.ratio,
            l1_file_count_trigger: self.trigger,
            write_buffer_bytes: (self.buffer * ENTRY_BYTES) as usize,
            min_levels: 1,
            tombstone_density_trigger: 0.0,
            tombstone_density_entries_min: 8,
            table_bytes_target: self.buffer * ENTRY_BYTES / 2,
            dividing_level_offset: self.offset,
        }
    }
}

/// Writes and merges; answers the samples and the means over the second half: write amplification (of that half alone),
/// space amplification, most space, runs.
fn simulate(settings: &Settings, load: Load, pick: Pick) -> (Vec<Sample>, [f64; 4]) {
    let mut tree = Tree::new(settings.options(), pick);
    let mut random = Random(settings.seed);
    let mut samples = Vec::new();
    let mut sequence = 0;
    let mut half = (0, 0);
    let (mut space, mut runs, mut count) = (0.0, 0.0, 0.0_f64);
    for flush in 0..settings.flushes {
        if flush == settings.flushes / 2 {
            half = (tree.bytes_flushed, tree.bytes_rewritten);
            tree.bytes_most = 0;
        }
        tree.flush((0..settings.buffer).map(|_| {
            sequence += 1;
            load.write(&mut random, sequence, settings.keys)
        }));
        tree.rest();
        let is_shown = flush.is_multiple_of((settings.flushes / 200).max(1));
        let is_counted = flush >= settings.flushes / 2 && flush.is_multiple_of(3);
        if is_shown || is_counted {
            let sample = tree.sample();
            if is_counted {
                space += sample.space_amplification;
                runs += sample.runs as f64;
                count += 1.0;
            }
            if is_shown {
                samples.push(sample);
            }
        }
    }
    tree.check();
    let rewritten = (tree.bytes_rewritten - half.1) as f64;
    let flushed = (tree.bytes_flushed - half.0).max(1) as f64;
    let most = tree.bytes_most as f64 / (tree.live().max(1) * ENTRY_BYTES) as f64;
    let count = count.max(1.0);
    (
        samples,
        [1.0 + rewritten / flushed, space / count, most, runs / count],
    )
}

fn main() -> ExitCode {
    let settings = match Settings::parse(env::args().skip(1)) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{:<12} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "pattern", "policy", "write", "space", "peak", "runs", "tables"
    );
    for load in &settings.patterns {
        let mut series = Vec::new();
        for (name, pick) in &settings.policies {
            let (samples, [write, space, most, runs]) = simulate(&settings, *load, *pick);
            let tables = samples.last().map_or(0, |sample| sample.tables);
            println!(
                "{:<12} {name:<8} {write:>8.2} {space:>8.3} {most:>8.3} {runs:>8.2} {tables:>8}",
                load.name()
            );
            series.push(((*name).to_owned(), samples));
        }
        if settings.patterns.len() == 1 {
            for (name, samples) in &series {
                println!(
                    "\n{name}: flushes, write amplification, space amplification, runs, tables"
                );
                for sample in samples.iter().step_by((samples.len() / 20).max(1)) {
                    println!(
                        "{:>8} {:>8.2} {:>8.3} {:>4} {:>6}",
                        sample.flushes,
                        sample.write_amplification,
                        sample.space_amplification,
                        sample.runs,
                        sample.tables
                    );
                }
            }
        }
        if let Some(path) = &settings.svg {
            let title = format!("{}, size ratio {}", load.name(), settings.ratio);
            if let Err(error) = std::fs::write(path, svg(&title, &series)) {
                eprintln!("cannot write {path}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
