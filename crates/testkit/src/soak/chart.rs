//! The time line of a soak: a table for programs, and a drawing.

use std::fmt::Write as _;

use super::sample::Sample;

/// One line per sample.
pub fn csv(samples: &[Sample]) -> String {
    let mut text =
        "seconds,round,resident_bytes,disk_bytes,descriptors,threads,stalls\n".to_owned();
    for sample in samples {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:.1},{},{},{},{},{},{}",
            sample.elapsed.as_secs_f64(),
            sample.round,
            sample.resident_bytes,
            sample.disk_bytes,
            sample.descriptors,
            sample.threads,
            sample.stalls
        );
    }
    text
}

const WIDTH: f64 = 860.0;
const PANEL_HEIGHT: f64 = 120.0;
const MARGIN: f64 = 20.0;

/// One panel per quantity, time from left to right.
pub fn svg(samples: &[Sample]) -> String {
    type Quantity = (&'static str, fn(&Sample) -> f64);
    let quantities: [Quantity; 5] = [
        ("resident memory, MiB", |sample| {
            sample.resident_bytes as f64 / f64::from(1 << 20)
        }),
        ("directory, MiB", |sample| {
            sample.disk_bytes as f64 / f64::from(1 << 20)
        }),
        ("descriptors", |sample| sample.descriptors as f64),
        ("threads", |sample| sample.threads as f64),
        ("stalls of the opening", |sample| sample.stalls as f64),
    ];
    let height = quantities.len() as f64 * (PANEL_HEIGHT + MARGIN) + MARGIN;
    let width = WIDTH + 2.0 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let seconds_max = samples
        .last()
        .map_or(1.0, |sample| sample.elapsed.as_secs_f64())
        .max(1.0);
    for (index, (name, quantity)) in quantities.iter().enumerate() {
        let top = MARGIN + index as f64 * (PANEL_HEIGHT + MARGIN);
        let most = samples.iter().map(quantity).fold(1.0, f64::max);
        let points: Vec<String> = samples
            .iter()
            .map(|sample| {
                let x = MARGIN + sample.elapsed.as_secs_f64() / seconds_max * WIDTH;
                let y = top + PANEL_HEIGHT - quantity(sample) / most * (PANEL_HEIGHT - 16.0);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let bottom = top + PANEL_HEIGHT;
        let _ = write!(
            text,
            "<line x1=\"{MARGIN}\" y1=\"{bottom}\" x2=\"{}\" y2=\"{bottom}\" stroke=\"#999\"/>\n\
             <text x=\"{MARGIN}\" y=\"{:.0}\">{name}, at most {most:.1}, {seconds_max:.0} s</text>\n\
             <polyline fill=\"none\" stroke=\"#1f6f8b\" points=\"{}\"/>\n",
            MARGIN + WIDTH,
            top + 12.0,
            points.join(" ")
        );
    }
    text.push_str("</svg>\n");
    text
}
