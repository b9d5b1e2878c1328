//! PNG plots: seconds until the domain has converged, over the number of nodes, both in logarithmic scale. A bar shows the lowest and
//! the highest value, and a cross a size with a run that timed out.

use super::super::font::{self, FONT};
use super::case::name;
use super::measurement::{CONVERGED, Measurement, Runs, cases};
use crate::domain_simulation::daemon::Program;
use anyhow::{Context, Result, anyhow};
use grove_api_types::compute_domain::strategy::Strategy;
use plotters::prelude::{
    BitMapBackend, ChartBuilder, Circle, Color, Cross, DrawingAreaErrorKind, EmptyElement, IntoDrawingArea,
    IntoLogRange, LineSeries, PathElement, RGBColor, SeriesLabelPosition, ShapeStyle, WHITE,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

const SIZE: (u32, u32) = (860, 480);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 140, 90),
    RGBColor(150, 90, 200),
    RGBColor(230, 150, 0),
    RGBColor(110, 110, 110),
];
/// The plots with one strategy each, by the version of NVIDIA's driver or the design that it is of.
const SINGLE: [(&str, Strategy); 4] = [
    ("v25.8.1", Strategy::RmwStatus),
    ("ssa", Strategy::SsaStatus),
    ("sharded", Strategy::SsaClique),
    ("controller-clique", Strategy::ControllerClique),
];

/// One line of a plot.
struct Line {
    name: String,
    /// The number of nodes, and the lowest, the median and the highest time.
    points: Vec<(f64, [f64; 3])>,
    /// The numbers of nodes with a run that timed out.
    timed_out: Vec<f64>,
}

/// Draws one plot per strategy that was measured, and one with all of them. Returns the names of the files.
pub(super) fn draw(measurements: &[Measurement], folder: &Path, cutoff: Duration) -> Result<Vec<String>> {
    font::register()?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let cutoff = Cutoff { seconds: cutoff.as_secs_f64() };
    let programs: BTreeSet<_> = measurements.iter().map(|measurement| measurement.case.program).collect();
    let mut plots = Vec::new();
    for (file, strategy) in SINGLE.into_iter().filter(|(_, strategy)| programs.contains(&Program::Daemon(*strategy))) {
        let program = Program::Daemon(strategy);
        let lines = [(false, "without client limits"), (true, "with client limits")]
            .map(|(is_limited, name)| line(measurements, (program, is_limited), name.to_owned()));
        plots.push((format!("convergence-{file}.png"), strategy.name(), Vec::from(lines)));
    }
    let all = programs.into_iter().map(|of| line(measurements, (of, false), name(of).to_owned())).collect();
    plots.push(("convergence-all.png".to_owned(), "all strategies, without client limits", all));
    for (file, title, lines) in &plots {
        cutoff.draw(&folder.join(file), title, lines)?;
    }
    Ok(plots.into_iter().map(|(file, ..)| file).collect())
}

fn line(measurements: &[Measurement], (program, is_limited): (Program, bool), name: String) -> Line {
    let (mut points, mut timed_out) = (Vec::new(), Vec::new());
    for case in cases(measurements, is_limited).filter(|case| case.program == program) {
        let (runs, nodes) = (Runs::like(case, measurements), f64::from(u32::try_from(case.nodes).unwrap_or(u32::MAX)));
        let times = runs.spread(CONVERGED).map(|it| (nodes, [it.lowest, it.median, it.highest]));
        points.extend(times);
        timed_out.extend((runs.timed_out() > 0).then_some(nodes));
    }
    Line { name, points, timed_out }
}

/// When runs end.
struct Cutoff {
    seconds: f64,
}

impl Cutoff {
    fn draw(&self, path: &Path, title: &str, lines: &[Line]) -> Result<()> {
        self.try_draw(path, title, lines).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
    }

    fn try_draw(
        &self,
        path: &Path,
        title: &str,
        lines: &[Line],
    ) -> Result<(), DrawingAreaErrorKind<<BitMapBackend<'_> as plotters::prelude::DrawingBackend>::ErrorType>> {
        let sizes =
            || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0).chain(line.timed_out.clone()));
        let (left, right) = (sizes().fold(18.0, f64::min), sizes().fold(36.0, f64::max));
        let times = lines.iter().flat_map(|line| line.points.iter().flat_map(|point| point.1));
        let bottom = times.fold(1.0, f64::min);
        let area = BitMapBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, (FONT, 18))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(
                ((left * 0.9)..(right * 1.1)).log_scale(),
                ((bottom * 0.8)..(self.seconds * 1.2)).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_desc("nodes")
            .y_desc("seconds until the domain has converged")
            .label_style((FONT, 12))
            .light_line_style(WHITE)
            .draw()?;
        for (line, colour) in lines.iter().zip(COLOURS) {
            let style = ShapeStyle { color: colour.to_rgba(), filled: true, stroke_width: 2 };
            let median = line.points.iter().map(|(nodes, [_, median, _])| (*nodes, *median));
            chart
                .draw_series(LineSeries::new(median.clone(), style))?
                .label(line.name.clone())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
            chart.draw_series(median.map(|point| Circle::new(point, 3, style)))?;
            let spreads = line.points.iter();
            chart.draw_series(
                spreads.map(|(nodes, [low, _, high])| PathElement::new(vec![(*nodes, *low), (*nodes, *high)], style)),
            )?;
            let crosses = line.timed_out.iter();
            chart.draw_series(
                crosses.map(|nodes| EmptyElement::at((*nodes, self.seconds)) + Cross::new((0, 0), 6, style)),
            )?;
        }
        chart
            .configure_series_labels()
            .label_font((FONT, 12))
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(160, 160, 160))
            .draw()?;
        area.present()
    }
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::runs;
    use super::*;

    #[test]
    fn each_plot_is_a_png() {
        let folder = std::env::temp_dir().join(format!("grove-convergence-{}", std::process::id()));
        let programs = SINGLE.map(|(_, strategy)| Program::Daemon(strategy));
        let mut measurements: Vec<_> =
            programs.into_iter().flat_map(|program| runs(program, 18, "x", &[1.0, 2.0])).collect();
        measurements[5].figures.remove(CONVERGED);
        let files = draw(&measurements, &folder, Duration::from_mins(1)).unwrap();
        assert_eq!(
            files.join(" "),
            "convergence-v25.8.1.png convergence-ssa.png convergence-sharded.png \
            convergence-controller-clique.png convergence-all.png"
        );
        assert!(files.iter().all(|file| fs::read(folder.join(file)).unwrap().starts_with(b"\x89PNG")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_has_the_spread_of_each_size() {
        let mut measurements = runs(Program::Floor, 18, CONVERGED, &[3.0, 1.0, 2.0]);
        measurements.extend(runs(Program::Floor, 36, CONVERGED, &[4.0]));
        measurements[3].figures.remove(CONVERGED);
        let line = line(&measurements, (Program::Floor, false), String::new());
        assert_eq!((line.points, line.timed_out), (vec![(18.0, [1.0, 2.0, 3.0])], vec![36.0]));
    }
}
