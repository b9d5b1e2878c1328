//! The page, the CSV file and the plots.

use super::super::report::{folder, list, update_page, write_file};
use super::api_server::{BYTES, CLOSED, CONFLICTS, CPU, EVENTS, MEMORY, POD_BYTES, THROTTLED, WRITES};
use super::case::{Case, name};
use super::charts;
use super::end_to_end::{EndToEndTime, NODES};
use super::measurement::{
    CONVERGED, DAEMON_WRITES, INDEX_CHANGES, MANAGED_FIELDS, MILESTONES, Measurement, OBJECT_BYTES, RESTARTS, Runs,
    cases,
};
use super::thresholds;
use crate::args::Convergence;
use anyhow::Result;
use grove_api_types::compute_domain::strategy::{Strategy, parameters};
use std::fmt::Write as _;

const NAME: &str = "convergence";
const END_TO_END: &str = "convergence-end-to-end";
const PLOTS: &str = "plots";
const TIMES: [&str; 5] = [MILESTONES[0], MILESTONES[1], MILESTONES[2], MILESTONES[3], CONVERGED];
const COUNTS: [&str; 14] = [
    DAEMON_WRITES,
    WRITES,
    CONFLICTS,
    THROTTLED,
    INDEX_CHANGES,
    RESTARTS,
    EVENTS,
    BYTES,
    POD_BYTES,
    CLOSED,
    OBJECT_BYTES,
    MANAGED_FIELDS,
    CPU,
    MEMORY,
];

/// What the report contains.
pub(super) struct Report {
    pub(super) measurements: Vec<Measurement>,
    pub(super) end_to_end: Vec<EndToEndTime>,
    pub(super) conditions: Vec<String>,
    /// The number of runs for which the time did not suffice.
    pub(super) left_out: usize,
}

/// Writes the report with the CSV files and the plots to the folder of `--out`, and returns the figures of the page.
pub(super) fn write(report: &Report, args: &Convergence) -> Result<String> {
    let folder = folder(args.folders.out.as_ref())?;
    let plots = charts::draw(&report.measurements, &folder.join(PLOTS), args.cutoff())?;
    let mut text = text(report, args);
    let plots: Vec<_> =
        plots.iter().map(|plot| format!("![{}]({PLOTS}/{plot})", plot.trim_end_matches(".png"))).collect();
    _ = writeln!(text, "\n{}", plots.join(" "));
    write_file(&folder.join(NAME).with_extension("csv"), &csv(&report.measurements))?;
    write_file(&folder.join(END_TO_END).with_extension("csv"), &csv_of_set(&report.end_to_end))?;
    update_page(&folder, NAME, &text)?;
    Ok(text)
}

fn text(report: &Report, args: &Convergence) -> String {
    let Report { measurements, end_to_end, conditions, left_out } = report;
    let mut text = list(conditions);
    let Convergence { nodes, repeat, limit_minutes, cutoff_seconds, .. } = args;
    let names = args.strategies().into_iter().map(Strategy::name).collect::<Vec<_>>().join(",");
    let sizes = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    _ = writeln!(
        text,
        "- Options: `--strategies {names} --nodes {sizes} --repeat {repeat} --limit-minutes {limit_minutes} \
         --cutoff-seconds {cutoff_seconds}`; {left_out} runs were left out after the last minute. A strategy that timed out ran neither \
         with this size again nor with a larger one"
    );
    let parameters = parameters::parameters();
    let parameters: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    _ = writeln!(text, "- {}\n", parameters.join("; "));
    for is_limited in [false, true] {
        let limits = if is_limited { "with" } else { "without" };
        _ = writeln!(
            text,
            "Seconds {limits} client limits, the median, and the lowest and the highest of the runs that converged:\n"
        );
        text += &times(measurements, is_limited);
        _ = writeln!(text, "Time {limits} client limits, compared with `controller-clique` (medians):\n");
        text += &factors(measurements, is_limited);
        _ = writeln!(text, "Medians {limits} client limits:\n");
        text += &counts(measurements, is_limited);
    }
    text += "Thresholds of `controller-clique` without client limits:\n\n";
    for threshold in thresholds::of(measurements, args.cutoff()) {
        _ = writeln!(text, "- {}", threshold.text);
    }
    text + &of_set(end_to_end)
}

/// The times from the creation of a set until its pods are Ready.
fn of_set(times: &[EndToEndTime]) -> String {
    let mut text = format!(
        "\nSeconds from the creation of a PodCliqueSet of {NODES} pods until all of them are Ready, without client limits:\n\n"
    );
    text += "| strategy | s |\n|---|---:|\n";
    for (strategy, time) in times {
        let time = time.map_or("timed out".to_owned(), |time| format!("{:.2}", time.as_secs_f64()));
        _ = writeln!(text, "| {} | {time} |", strategy.name());
    }
    text
}

/// The same times as CSV. A strategy that timed out has none.
fn csv_of_set(times: &[EndToEndTime]) -> String {
    let mut text = "pods,strategy,pods Ready s\n".to_owned();
    for (strategy, time) in times {
        let time = time.map(|time| format!("{:.3}", time.as_secs_f64())).unwrap_or_default();
        _ = writeln!(text, "{NODES},{},{time}", strategy.name());
    }
    text
}

/// The medians of all programs divided by that of Grove's strategy, for each size with all of them.
fn factors(measurements: &[Measurement], is_limited: bool) -> String {
    let of = |case: Case, program| Runs::like(Case { program, ..case }, measurements).spread(CONVERGED);
    let mut text = "| nodes | strategy | factor |\n|---:|---|---:|\n".to_owned();
    for case in cases(measurements, is_limited).filter(|case| case.program != thresholds::OURS) {
        let Some((other, ours)) = of(case, case.program).zip(of(case, thresholds::OURS)) else { continue };
        _ = writeln!(text, "| {} | {} | {:.1} |", case.nodes, name(case.program), other.median / ours.median);
    }
    text + "\n"
}

fn times(measurements: &[Measurement], is_limited: bool) -> String {
    table(measurements, is_limited, &TIMES, |runs, figure| {
        let (count, timed_out) = (runs.0.len(), runs.timed_out());
        let note = match figure {
            CONVERGED if timed_out > 0 => format!("timed out: {timed_out} of {count}. "),
            CONVERGED => format!("{count} runs: "),
            _ => String::new(),
        };
        note + &runs
            .spread(figure)
            .map_or(String::new(), |it| format!("{:.2} ({:.2} to {:.2})", it.median, it.lowest, it.highest))
    })
}

fn counts(measurements: &[Measurement], is_limited: bool) -> String {
    let median = |runs: &Runs<'_>, figure| runs.spread(figure).map_or(String::new(), |spread| short(spread.median));
    table(measurements, is_limited, &COUNTS, median)
}

/// A table with a row per size and program, and a column per figure.
fn table(
    measurements: &[Measurement],
    is_limited: bool,
    figures: &[&'static str],
    cell: impl Fn(&Runs<'_>, &'static str) -> String,
) -> String {
    let names = figures.join(" | ");
    let mut text = format!("| nodes | strategy | {names} |\n|---:|---|{}\n", "---:|".repeat(figures.len()));
    for case in cases(measurements, is_limited) {
        let runs = Runs::like(case, measurements);
        let cells: Vec<_> = figures.iter().map(|figure| cell(&runs, figure)).collect();
        _ = writeln!(text, "| {} | {} | {} |", case.nodes, name(case.program), cells.join(" | "));
    }
    text + "\n"
}

/// A number that fits in a table.
fn short(value: f64) -> String {
    match value {
        0.0..10.0 if value.fract() > 0.0 => format!("{value:.2}"),
        10_000.0..10_000_000.0 => format!("{:.0}k", value / 1e3),
        10_000_000.0.. => format!("{:.0}M", value / 1e6),
        _ => format!("{value:.0}"),
    }
}

fn csv(measurements: &[Measurement]) -> String {
    let figures = || TIMES.into_iter().chain(COUNTS);
    let mut text = format!("round,nodes,client limits,strategy,{},lacks\n", figures().collect::<Vec<_>>().join(","));
    for measurement in measurements {
        let Case { round, nodes, is_limited, program } = measurement.case;
        _ = write!(text, "{round},{nodes},{is_limited},{}", name(program));
        for figure in figures() {
            let value = measurement.figures.get(figure).map(|value| format!("{value:.3}")).unwrap_or_default();
            _ = write!(text, ",{value}");
        }
        _ = writeln!(text, ",\"{}\"", measurement.lacks.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::runs;
    use super::*;
    use crate::domain_simulation::daemon::Program;
    use std::time::Duration;

    #[test]
    fn a_run_that_timed_out_is_in_the_table_and_in_the_csv() {
        let mut measurements = runs(Program::Floor, 18, CONFLICTS, &[1.0, 20_000.0, 3.0]);
        measurements[1].figures.remove(CONVERGED);
        measurements[1].lacks = vec!["the domain is not Ready".to_owned()];
        let table = times(&measurements, false);
        assert!(table.ends_with("| 18 | floor |  |  |  |  | timed out: 1 of 3. 1.00 (1.00 to 1.00) |\n\n"), "{table}");
        let csv = csv(&measurements);
        assert!(csv.lines().nth(2).unwrap().ends_with("\"the domain is not Ready\""), "{csv}");
        let header = csv.lines().next().unwrap();
        assert!(csv.lines().all(|line| line.split(',').count() == header.split(',').count()));
    }

    #[test]
    fn the_time_of_a_set_has_a_row_per_strategy() {
        let times = [(Strategy::SsaStatus, None), (Strategy::RmwClique, Some(Duration::from_millis(1500)))];
        assert_eq!(csv_of_set(&times), "pods,strategy,pods Ready s\n72,ssa-status,\n72,rmw-clique,1.500\n");
    }

    #[test]
    fn numbers_are_short() {
        let shortened = [0.0, 2.5, 42.4, 12_345.0, 123_456_789.0].map(short);
        assert_eq!(shortened, ["0", "2.50", "42", "12k", "123M"]);
    }
}
