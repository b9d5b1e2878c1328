//! The report of a benchmark: tables as Markdown, all figures as CSV, and plots.

use super::plot;
use super::samples::{Phase, Samples, Variant};
use super::thresholds;
use crate::args::Scale;
use crate::workspace;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The figures are between these lines of a page. The report does not change the text around them.
const BEGIN: &str = "<!-- figures -->";
const END: &str = "<!-- end of figures -->";
/// How the names of figures end that count from the time when the last pod became Ready. The thresholds have them.
const AFTER_READY: &str = "after last Ready pod s";

/// Prints the report, and writes it with the CSV file and the plots to the folder of `--out`.
pub(super) fn write(samples: &Samples, conditions: &[String], rounds: u32, args: &Scale) -> Result<()> {
    let folder = folder(args.folders.out.as_ref())?;
    let [of_one_size, of_several_sizes] = samples.workload.report_names();
    let name = if samples.sizes().len() > 1 { of_several_sizes } else { of_one_size };
    let plots = plot::draw(samples, &folder, name)?;
    let text = text(samples, conditions, rounds, &plots);
    println!("\n{text}");
    write_file(&folder.join(name).with_extension("csv"), &csv(samples))?;
    update_page(&folder, name, &text)
}

/// The folder of reports. Creates the folder if it does not exist.
pub(crate) fn folder(flag: Option<&PathBuf>) -> Result<PathBuf> {
    let folder = flag.cloned().unwrap_or_else(|| workspace::root().join("target/bench"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Writes the figures to the page `name`.
pub(crate) fn update_page(folder: &Path, name: &str, text: &str) -> Result<()> {
    let page = folder.join(name).with_extension("md");
    let old = std::fs::read_to_string(&page).unwrap_or_else(|_| format!("# The bench {name}\n\n{BEGIN}\n{END}\n"));
    write_file(&page, &replace_figures(&old, text))?;
    println!("wrote {}", page.display());
    Ok(())
}

/// The conditions of a measurement as a list.
pub(super) fn list(conditions: &[String]) -> String {
    conditions.iter().fold(String::new(), |text, line| text + "- " + line + "\n")
}

pub(super) fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn replace_figures(page: &str, text: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).unwrap_or((page, ""));
    let after = rest.split_once(END).map_or("\n", |(_, after)| after);
    format!("{before}{BEGIN}\n{text}{END}{after}")
}

fn text(samples: &Samples, conditions: &[String], rounds: u32, plots: &[String]) -> String {
    let mut text = list(conditions);
    _ = writeln!(
        text,
        "- Rounds: {rounds}, Grove and the baseline in turn; values are medians, ratios are medians of the ratios per round\n"
    );
    let sizes = samples.sizes();
    if sizes.len() > 1 {
        text += &growth(samples, &sizes);
    }
    for &replicas in sizes.iter().filter(|_| sizes.len() == 1) {
        text += &times(samples, replicas);
        _ = writeln!(text, "Thresholds at {replicas} replicas:\n");
        for threshold in thresholds::of(samples, replicas) {
            _ = writeln!(text, "- {threshold}");
        }
        text += "\n";
    }
    let plots: Vec<_> = plots.iter().map(|plot| format!("![{}]({plot})", plot.trim_end_matches(".svg"))).collect();
    text + &plots.join(" ") + "\n"
}

/// The times of the phases that the thresholds are about. The CSV file has all phases and figures.
fn times(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Seconds at {replicas} replicas:\n\n");
    text += "| phase | until | Grove | baseline | ratio |\n|---|---|---:|---:|---:|\n";
    for phase in [Phase::Deploy, Phase::Double, Phase::Delete] {
        let figures = samples.figures(phase).into_iter().filter(|figure| figure.ends_with(" s"));
        let mut rows: Vec<(f64, String)> = figures
            .filter(|figure| !figure.starts_with("cpu ") && !figure.ends_with(AFTER_READY))
            .filter_map(|figure| {
                let grove = samples.median(replicas, Variant::Grove, phase, figure)?;
                let baseline = samples.median(replicas, Variant::Baseline, phase, figure);
                let ratio = samples.ratio(replicas, phase, figure);
                let until = figure.trim_end_matches(" s");
                Some((
                    grove,
                    format!(
                        "| {} | {until} | {grove:.2} | {} | {} |\n",
                        phase.name(),
                        or_blank(baseline),
                        or_blank(ratio)
                    ),
                ))
            })
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        text.extend(rows.into_iter().map(|(_, row)| row));
    }
    text + "\n"
}

fn growth(samples: &Samples, sizes: &[u32]) -> String {
    let columns = [
        "replicas",
        "created, ratio",
        "Ready, ratio",
        "deleted, ratio",
        "created s",
        "Ready s",
        "deleted s",
        "Available after Ready s",
        "last status write after Ready s",
        "doubling / deploying",
        "controllers' CPU ms per pod",
        "controllers' MB",
        "writes per pod",
    ];
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
    for &replicas in sizes {
        let pods = f64::from(replicas * samples.workload.pods_per_replica());
        let ratio = |phase, figure| or_blank(samples.ratio(replicas, phase, figure));
        let seconds = |phase, figure| or_blank(samples.median(replicas, Variant::Grove, phase, figure));
        let creates = f64::from(replicas * thresholds::objects_per_replica(samples));
        let writes = thresholds::other_writes(samples, replicas) + creates;
        let cells = [
            replicas.to_string(),
            ratio(Phase::Deploy, "created s"),
            ratio(Phase::Deploy, "ready s"),
            ratio(Phase::Delete, "all deleted s"),
            seconds(Phase::Deploy, "created s"),
            seconds(Phase::Deploy, "ready s"),
            seconds(Phase::Delete, "all deleted s"),
            seconds(Phase::Deploy, "Available after last Ready pod s"),
            seconds(Phase::Deploy, "last status write after last Ready pod s"),
            or_blank(samples.doubling_ratio(replicas, "Available s")),
            format!("{:.2}", thresholds::cpu(samples, replicas) * 1000.0 / pods),
            format!("{:.0}", thresholds::memory(samples, replicas)),
            format!("{:.2}", writes / pods),
        ];
        _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text + "\n"
}

fn or_blank(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

fn csv(samples: &Samples) -> String {
    let mut text = "replicas,round,variant,phase,figure,value\n".to_owned();
    for sample in &samples.all {
        let (variant, phase) = (sample.variant.name(), sample.phase.name());
        let (replicas, round, figure) = (sample.replicas, sample.repetition, &sample.figure);
        _ = writeln!(text, "{replicas},{round},{variant},{phase},{figure},{:.3}", sample.value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::replace_figures;

    #[test]
    fn the_text_around_the_figures_stays() {
        let page = "# Scale\nwords\n<!-- figures -->\nold\n<!-- end of figures -->\nmore\n";
        let renewed = replace_figures(page, "new\n");
        assert_eq!(renewed, page.replace("old", "new"));
        assert_eq!(replace_figures("words\n", "new\n"), "words\n<!-- figures -->\nnew\n<!-- end of figures -->\n");
    }
}
