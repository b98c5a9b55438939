//! Samples as a picture.

use std::fmt::Write;

use super::Sample;

/// What a panel shows of a sample.
type Value = fn(&Sample) -> f64;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 180.0;
const LEFT: f64 = 60.0;

/// An SVG of three panels over the flushes: write amplification, space amplification, sorted runs. Each series has a name
/// and its samples.
#[must_use]
pub fn svg(title: &str, series: &[(String, Vec<Sample>)]) -> String {
    let panels: [(&str, Value); 3] = [
        ("write amplification", |sample| sample.write_amplification),
        ("space amplification", |sample| sample.space_amplification),
        ("sorted runs", |sample| sample.runs as f64),
    ];
    let height = panels.len() as f64 * (PANEL + 40.0) + 60.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        WIDTH + LEFT + 20.0,
        escaped(title)
    );
    for (index, (name, value)) in panels.into_iter().enumerate() {
        let top = 60.0 + index as f64 * (PANEL + 40.0);
        draw_panel(&mut out, (name, top), series, value);
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn draw_panel(
    out: &mut String,
    (name, top): (&str, f64),
    series: &[(String, Vec<Sample>)],
    value: Value,
) {
    let colors = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];
    let samples = || series.iter().flat_map(|(_, samples)| samples);
    let most = samples().map(value).fold(1.0, f64::max);
    let flushes = samples()
        .map(|sample| sample.flushes)
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    let bottom = top + PANEL;
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\">{name}</text>\n<line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{}\" y2=\"{bottom}\" \
         stroke=\"#888\"/>\n<text x=\"8\" y=\"{}\">{most:.1}</text>\n<text x=\"8\" y=\"{bottom}\">0</text>",
        top - 6.0,
        LEFT + WIDTH,
        top + 10.0
    );
    for (index, (label, samples)) in series.iter().enumerate() {
        let color = colors[index % colors.len()];
        let mut points = String::new();
        for sample in samples {
            let x = LEFT + sample.flushes as f64 / flushes * WIDTH;
            let y = bottom - value(sample) / most * PANEL;
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\"/>\n<text x=\"{}\" y=\"{}\" \
             fill=\"{color}\">{}</text>",
            points.trim_end(),
            LEFT + WIDTH - 120.0 * (index + 1) as f64,
            top - 6.0,
            escaped(label)
        );
    }
}
