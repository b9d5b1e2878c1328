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
/// How the names of figures end that count from the time when the last pod became Ready.
const AFTER_READY: [&str; 2] = ["after last Ready pod s", "after last Ready pod"];
/// The resources of which a native report counts the writes per gang.
const OF_NATIVE_GANGS: [&str; 3] = ["podgroups", "podgroups/status", "podgangs/status"];

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
        text += &status_delays(samples, replicas);
        text += &usage(samples, replicas);
        text += &writes(samples, replicas);
    }
    for &replicas in sizes.iter().filter(|_| samples.workload.has_pod_groups()) {
        text += &writes_per_gang(samples, replicas);
    }
    for &replicas in sizes.iter().filter(|&&replicas| sizes.len() == 1 || thresholds::SIZES.contains(&replicas)) {
        _ = writeln!(text, "Thresholds at {replicas} replicas:\n");
        for threshold in thresholds::of(samples, replicas) {
            _ = writeln!(text, "- {threshold}");
        }
        text += "\n";
    }
    for plot in plots {
        _ = writeln!(text, "![{}]({plot})\n", plot.trim_end_matches(".svg"));
    }
    text
}

fn times(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Seconds at {replicas} replicas:\n\n");
    text += "| phase | until | Grove | baseline | ratio |\n|---|---|---:|---:|---:|\n";
    for phase in Phase::ALL {
        let figures = samples.figures(phase).into_iter().filter(|figure| figure.ends_with(" s"));
        let mut rows: Vec<(f64, String)> = figures
            .filter(|figure| !figure.starts_with("cpu ") && !figure.ends_with(AFTER_READY[0]))
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

/// How late the status is, as a client sees it. Writes are counted by the audit log, all else is seen by watches.
fn status_delays(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("After the last pod became Ready, at {replicas} replicas, Grove:\n\n");
    text += "| phase | figure | median | slowest round |\n|---|---|---:|---:|\n";
    for phase in [Phase::Deploy, Phase::ScaleOut, Phase::Double] {
        for figure in samples.figures(phase) {
            let Some(name) = AFTER_READY.iter().find_map(|end| figure.strip_suffix(end)) else { continue };
            let unit = if figure.ends_with(" s") { ", s" } else { "" };
            let Some(median) = samples.median(replicas, Variant::Grove, phase, figure) else { continue };
            let slowest = or_blank(samples.max(replicas, Variant::Grove, phase, figure));
            _ = writeln!(text, "| {} | {}{unit} | {median:.2} | {slowest} |", phase.name(), name.trim_end());
        }
    }
    text + "\n"
}

fn usage(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("CPU seconds at {replicas} replicas, and peak memory since the process started:\n\n");
    text +=
        "| phase | process | Grove CPU s | baseline CPU s | Grove MB | baseline MB |\n|---|---|---:|---:|---:|---:|\n";
    for phase in Phase::ALL {
        let figures = samples.figures(phase);
        for process in figures.iter().filter_map(|figure| figure.strip_prefix("cpu ")?.strip_suffix(" s")) {
            let of = |variant, figure: &str| or_blank(samples.median(replicas, variant, phase, figure));
            let (cpu, memory) = (format!("cpu {process} s"), format!("peak memory {process} MB"));
            let (grove, baseline) = (of(Variant::Grove, &cpu), of(Variant::Baseline, &cpu));
            let (grove_mb, baseline_mb) = (of(Variant::Grove, &memory), of(Variant::Baseline, &memory));
            _ = writeln!(text, "| {} | {process} | {grove} | {baseline} | {grove_mb} | {baseline_mb} |", phase.name());
        }
    }
    text + "\n"
}

fn writes(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Writes at {replicas} replicas, from the audit log:\n\n");
    text += "| phase | account | verb | resource | outcome | Grove | baseline |\n|---|---|---|---|---|---:|---:|\n";
    for phase in Phase::ALL {
        for figure in samples.figures(phase) {
            let Some([outcome, account, verb, resource]) = write_of(figure) else { continue };
            let of = |variant| {
                samples.median(replicas, variant, phase, figure).map_or_else(String::new, |n| format!("{n:.0}"))
            };
            let (grove, baseline) = (of(Variant::Grove), of(Variant::Baseline));
            let phase = phase.name();
            _ = writeln!(text, "| {phase} | {account} | {verb} | {resource} | {outcome} | {grove} | {baseline} |");
        }
    }
    text + "\n"
}

/// Outcome, account, verb and resource, if the figure counts writes.
fn write_of(figure: &str) -> Option<[&str; 4]> {
    let words: Vec<&str> = figure.split(' ').collect();
    <[&str; 4]>::try_from(words).ok().filter(|[outcome, ..]| ["accepted", "rejected"].contains(outcome))
}

/// The writes on the objects through which native gangs are scheduled, accepted and rejected ones, divided by the number of gangs that
/// the phase creates or deletes.
fn writes_per_gang(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Writes per gang at {replicas} replicas, from the audit log:\n\n");
    text += "| phase | resource | controllers of Grove | all accounts, Grove | all accounts, baseline |\n";
    text += "|---|---|---:|---:|---:|\n";
    let is_measured = |phase: &Phase| !samples.rounds(replicas, Variant::Grove, *phase).is_empty();
    for phase in Phase::ALL.into_iter().filter(is_measured) {
        for resource in OF_NATIVE_GANGS {
            let by_controllers =
                |figure: &str| thresholds::controller_write(figure).is_some_and(|(_, of)| of == resource);
            let by_all = |figure: &str| write_of(figure).is_some_and(|[.., of]| of == resource);
            let controllers = per_gang(samples, (replicas, phase), Variant::Grove, by_controllers);
            let grove = per_gang(samples, (replicas, phase), Variant::Grove, by_all);
            let baseline = per_gang(samples, (replicas, phase), Variant::Baseline, by_all);
            _ = writeln!(text, "| {} | {resource} | {controllers} | {grove} | {baseline} |", phase.name());
        }
    }
    text + "\n"
}

/// The chosen writes of a phase per gang; blank if the phase was not measured.
fn per_gang(
    samples: &Samples,
    (replicas, phase): (u32, Phase),
    variant: Variant,
    chosen: impl Fn(&str) -> bool,
) -> String {
    let is_measured = !samples.rounds(replicas, variant, phase).is_empty();
    let gangs = f64::from(phase.changed_replicas(replicas));
    or_blank(is_measured.then(|| samples.sum(replicas, variant, phase, chosen) / gangs))
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
    use super::{Phase, Samples, Variant, replace_figures, writes_per_gang};
    use crate::bench::Round;
    use crate::bench::samples::SampleKey;
    use crate::bench::workload::Workload;

    #[test]
    fn the_text_around_the_figures_stays() {
        let page = "# Scale\nwords\n<!-- figures -->\nold\n<!-- end of figures -->\nmore\n";
        let renewed = replace_figures(page, "new\n");
        assert_eq!(renewed, page.replace("old", "new"));
        assert_eq!(replace_figures("words\n", "new\n"), "words\n<!-- figures -->\nnew\n<!-- end of figures -->\n");
    }

    #[test]
    fn the_writes_per_gang_are_those_of_all_accounts() {
        let mut samples = Samples { workload: Workload::Native, ..Samples::default() };
        let round = Round { replicas: 4, repetition: 1 };
        for (phase, figure, value) in [
            (Phase::Deploy, "accepted topology-controller create podgroups", 4.0),
            (Phase::Deploy, "rejected topology-controller create podgroups", 2.0),
            (Phase::Deploy, "accepted kube-scheduler patch podgroups/status", 4.0),
            (Phase::Deploy, "accepted topology-controller patch podgangs/status", 6.0),
            (Phase::ScaleIn, "accepted topology-controller delete podgroups", 2.0),
        ] {
            samples.add(SampleKey { round, variant: Variant::Grove, phase }, figure, value);
        }
        let text = writes_per_gang(&samples, 4);
        for row in [
            "| deploy | podgroups | 1.50 | 1.50 |  |\n",
            "| deploy | podgroups/status | 0.00 | 1.00 |  |\n",
            "| deploy | podgangs/status | 1.50 | 1.50 |  |\n",
            "| scale-in | podgroups | 1.00 | 1.00 |  |\n",
        ] {
            assert!(text.contains(row), "{row} is not in {text}");
        }
        assert!(!text.contains("scale-out"), "{text}");
    }
}
