//! SVG plots: the object counts of each phase over time, and the costs by size.

use super::font::{self, FONT};
use super::object_counts::Counts;
use super::samples::{Phase, Samples, Variant};
use super::thresholds;
use anyhow::{Result, anyhow};
use plotters::prelude::{
    ChartBuilder, Color, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition, WHITE,
};
use std::path::Path;

const SIZE: (u32, u32) = (860, 420);
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 90, 181), RGBColor(220, 50, 32), RGBColor(0, 140, 90), RGBColor(150, 90, 200)];

struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws the plots, and returns the names of the files.
pub(super) fn draw(samples: &Samples, folder: &Path, name: &str) -> Result<Vec<String>> {
    let sizes = samples.sizes();
    let mut files = Vec::new();
    if sizes.len() > 1 {
        let file = format!("{name}-ratios.svg");
        chart(&folder.join(&file), "Grove / baseline", ["replicas", "ratio"], &ratios(samples, &sizes))?;
        files.push(file);
        let file = format!("{name}-costs.svg");
        chart(&folder.join(&file), "Costs per pod", ["replicas", "per pod"], &costs(samples, &sizes))?;
        files.push(file);
    }
    for &replicas in sizes.iter().filter(|_| sizes.len() == 1) {
        for phase in Phase::OF_SCALE {
            let file = format!("{name}-{}.svg", phase.name());
            let title = format!("{}, {replicas} replicas", phase.name());
            let lines = phase_lines(samples, replicas, phase);
            if !lines.is_empty() {
                chart(&folder.join(&file), &title, ["seconds", "objects"], &lines)?;
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn phase_lines(samples: &Samples, replicas: u32, phase: Phase) -> Vec<Line> {
    type Counted = (&'static str, fn(&Counts) -> u32);
    let (figure, counted): (_, [Counted; 2]) = match phase {
        Phase::Deploy | Phase::ScaleOut | Phase::Double | Phase::Update => {
            ("ready s", [("pods", |c| c.pods), ("pods Ready", |c| c.pods_ready)])
        }
        Phase::ScaleIn => ("all deleted s", [("pods", |c| c.pods), ("other objects", |c| c.objects() - c.pods)]),
        Phase::Delete => ("all deleted s", [("pods", |c| c.pods), ("other objects", |c| c.objects() - c.pods)]),
    };
    let mut lines = Vec::new();
    for variant in [Variant::Grove, Variant::Baseline] {
        let Some(curve) = samples.typical_curve(replicas, variant, phase, figure) else { continue };
        for (what, count) in counted {
            let points = curve.points.iter().map(|(at, counts)| (*at, f64::from(count(counts)))).collect();
            lines.push(Line { name: format!("{}: {what}", variant.name()), points: thin_out(points) });
        }
    }
    lines
}

/// At most 201 points, the last one included.
fn thin_out(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let (count, step) = (points.len(), points.len().div_ceil(200).max(1));
    points.into_iter().enumerate().filter(|(at, _)| at % step == 0 || at + 1 == count).map(|(_, point)| point).collect()
}

fn ratios(samples: &Samples, sizes: &[u32]) -> Vec<Line> {
    let wanted = [
        ("created", Phase::Deploy, "created s"),
        ("Ready", Phase::Deploy, "ready s"),
        ("deleted", Phase::Delete, "all deleted s"),
    ];
    let line = |(name, phase, figure): (&str, Phase, &str)| {
        let point = |&replicas: &u32| Some((f64::from(replicas), samples.ratio(replicas, phase, figure)?));
        Line { name: name.to_owned(), points: sizes.iter().filter_map(point).collect() }
    };
    wanted.map(line).into()
}

fn costs(samples: &Samples, sizes: &[u32]) -> Vec<Line> {
    let pods = |replicas: u32| f64::from(replicas * samples.workload.pods_per_replica());
    let per_pod = |replicas: u32, value: f64| (f64::from(replicas), value / pods(replicas));
    let cpu = sizes.iter().map(|&size| per_pod(size, thresholds::cpu(samples, size) * 1000.0)).collect();
    let writes = sizes.iter().map(|&size| per_pod(size, thresholds::other_writes(samples, size))).collect();
    vec![
        Line { name: "controllers' CPU ms".to_owned(), points: cpu },
        Line { name: "writes beyond creates".to_owned(), points: writes },
    ]
}

fn chart(path: &Path, title: &str, [across, up]: [&str; 2], lines: &[Line]) -> Result<()> {
    font::register()?;
    try_chart(path, title, [across, up], lines).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn try_chart(
    path: &Path,
    title: &str,
    [across, up]: [&str; 2],
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(0.1, f64::max);
    let top = points().map(|point| point.1).fold(0.1, f64::max) * 1.05;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart.configure_mesh().x_desc(across).y_desc(up).light_line_style(WHITE).draw()?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(160, 160, 160))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Line, chart, thin_out};

    #[test]
    fn a_chart_names_its_lines_and_axes() {
        let path = std::env::temp_dir().join(format!("grove-plot-{}.svg", std::process::id()));
        let lines = [Line { name: "grove: pods".to_owned(), points: vec![(0.0, 0.0), (2.0, 5.0)] }];
        chart(&path, "deploy", ["seconds", "objects"], &lines).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for text in ["deploy", "seconds", "objects", "grove: pods", "polyline"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_last_point_is_always_drawn() {
        let points: Vec<_> = (0..1001_u32).map(|at| (f64::from(at), 0.0)).collect();
        let thin = thin_out(points);
        assert!(thin.len() < 210 && thin.last() == Some(&(1000.0, 0.0)));
    }
}
