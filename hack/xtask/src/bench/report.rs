//! What was measured, for people (tables), for programs (CSV), and for the eye (plots).

use super::bars;
use super::plot;
use super::samples::{Phase, Samples, Who};
use super::workload::PODS_PER_REPLICA;
use crate::args::Scale;
use crate::workspace;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Between these lines of a document the figures stand; what is written around them stays.
const BEGIN: &str = "<!-- figures -->";
const END: &str = "<!-- end of figures -->";

/// Prints the report, and writes it with its CSV and plots into the wished folder.
pub(super) fn write(samples: &Samples, conditions: &[String], rounds: u32, wish: &Scale) -> Result<()> {
    let folder = folder(wish.out.as_ref())?;
    let name = if samples.sizes().len() > 1 { "growth" } else { "scale" };
    let plots = plot::draw(samples, &folder, name)?;
    let text = text(samples, conditions, rounds, &plots);
    println!("\n{text}");
    put(&folder.join(name).with_extension("csv"), &csv(samples))?;
    page(&folder, name, &text)
}

/// Where reports go, made if it is not there.
pub(super) fn folder(wished: Option<&PathBuf>) -> Result<PathBuf> {
    let folder = wished.cloned().unwrap_or_else(|| workspace::root().join("target/bench"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Puts the figures on the page of that name.
pub(super) fn page(folder: &Path, name: &str, text: &str) -> Result<()> {
    let page = folder.join(name).with_extension("md");
    let around = std::fs::read_to_string(&page).unwrap_or_else(|_| format!("# The bench {name}\n\n{BEGIN}\n{END}\n"));
    put(&page, &between(&around, text))?;
    println!("written: {}", page.display());
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn between(around: &str, text: &str) -> String {
    let (before, rest) = around.split_once(BEGIN).unwrap_or((around, ""));
    let after = rest.split_once(END).map_or("\n", |(_, after)| after);
    format!("{before}{BEGIN}\n{text}{END}{after}")
}

fn text(samples: &Samples, conditions: &[String], rounds: u32, plots: &[String]) -> String {
    let mut text = conditions.iter().fold(String::new(), |text, line| text + "- " + line + "\n");
    _ = writeln!(text, "- Rounds: {rounds}, Grove and bare in turn; figures are medians, ratios medians of pairs\n");
    let sizes = samples.sizes();
    if sizes.len() > 1 {
        text += &growth(samples, &sizes);
    }
    for &replicas in sizes.iter().filter(|_| sizes.len() == 1) {
        text += &times(samples, replicas);
        text += &usage(samples, replicas);
        text += &writes(samples, replicas);
    }
    for &replicas in sizes.iter().filter(|&&replicas| sizes.len() == 1 || replicas == bars::SIZE) {
        _ = writeln!(text, "Demands at {replicas} replicas:\n");
        for bar in bars::of(samples, replicas) {
            _ = writeln!(text, "- {bar}");
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
    text += "| phase | until | Grove | bare | ratio |\n|---|---|---:|---:|---:|\n";
    for phase in Phase::ALL {
        let figures = samples.figures(phase).into_iter().filter(|figure| figure.ends_with(" s"));
        let mut rows: Vec<(f64, String)> = figures
            .filter(|figure| !figure.starts_with("cpu "))
            .filter_map(|figure| {
                let grove = samples.median(replicas, Who::Grove, phase, figure)?;
                let bare = samples.median(replicas, Who::Bare, phase, figure);
                let ratio = samples.ratio(replicas, phase, figure);
                let until = figure.trim_end_matches(" s");
                Some((
                    grove,
                    format!("| {} | {until} | {grove:.2} | {} | {} |\n", phase.name(), or_blank(bare), or_blank(ratio)),
                ))
            })
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        text.extend(rows.into_iter().map(|(_, row)| row));
    }
    text + "\n"
}

fn usage(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Processor seconds at {replicas} replicas, and peak memory since the process began:\n\n");
    text += "| phase | process | Grove CPU s | bare CPU s | Grove MB | bare MB |\n|---|---|---:|---:|---:|---:|\n";
    for phase in Phase::ALL {
        let figures = samples.figures(phase);
        for process in figures.iter().filter_map(|figure| figure.strip_prefix("cpu ")?.strip_suffix(" s")) {
            let of = |who, figure: &str| or_blank(samples.median(replicas, who, phase, figure));
            let (cpu, memory) = (format!("cpu {process} s"), format!("peak memory {process} MB"));
            let (grove, bare) = (of(Who::Grove, &cpu), of(Who::Bare, &cpu));
            let (grove_mb, bare_mb) = (of(Who::Grove, &memory), of(Who::Bare, &memory));
            _ = writeln!(text, "| {} | {process} | {grove} | {bare} | {grove_mb} | {bare_mb} |", phase.name());
        }
    }
    text + "\n"
}

fn writes(samples: &Samples, replicas: u32) -> String {
    let mut text = format!("Writes at {replicas} replicas, by the audit log:\n\n");
    text += "| phase | account | verb | resource | outcome | Grove | bare |\n|---|---|---|---|---|---:|---:|\n";
    for phase in Phase::ALL {
        for figure in samples.figures(phase) {
            let words: Vec<&str> = figure.split(' ').collect();
            let [outcome @ ("writes" | "refused"), account, verb, resource] = words[..] else { continue };
            let outcome = if outcome == "writes" { "accepted" } else { outcome };
            let of = |who| samples.median(replicas, who, phase, figure).map_or_else(String::new, |n| format!("{n:.0}"));
            let (grove, bare) = (of(Who::Grove), of(Who::Bare));
            _ = writeln!(text, "| {} | {account} | {verb} | {resource} | {outcome} | {grove} | {bare} |", phase.name());
        }
    }
    text + "\n"
}

fn growth(samples: &Samples, sizes: &[u32]) -> String {
    let mut text = "| replicas | created, ratio | Ready, ratio | deleted, ratio | created s | Ready s | deleted s \
                    | controllers' CPU ms per pod | controllers' MB | writes per pod |\n\
                    |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for &replicas in sizes {
        let pods = f64::from(replicas * PODS_PER_REPLICA);
        let ratio = |phase, figure| or_blank(samples.ratio(replicas, phase, figure));
        let seconds = |phase, figure| or_blank(samples.median(replicas, Who::Grove, phase, figure));
        _ = writeln!(
            text,
            "| {replicas} | {} | {} | {} | {} | {} | {} | {:.2} | {:.0} | {:.2} |",
            ratio(Phase::Deploy, "created s"),
            ratio(Phase::Deploy, "ready s"),
            ratio(Phase::Delete, "gone s"),
            seconds(Phase::Deploy, "created s"),
            seconds(Phase::Deploy, "ready s"),
            seconds(Phase::Delete, "gone s"),
            bars::cpu(samples, replicas) * 1000.0 / pods,
            bars::memory(samples, replicas),
            (bars::other_writes(samples, replicas) + f64::from(replicas * (3 + PODS_PER_REPLICA))) / pods,
        );
    }
    text + "\n"
}

fn or_blank(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

fn csv(samples: &Samples) -> String {
    let mut text = "replicas,round,who,phase,figure,value\n".to_owned();
    for sample in &samples.all {
        let (who, phase) = (sample.who.name(), sample.phase.name());
        let (replicas, round, figure) = (sample.replicas, sample.repetition, &sample.figure);
        _ = writeln!(text, "{replicas},{round},{who},{phase},{figure},{:.3}", sample.value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn what_stands_around_the_figures_stays() {
        let page = "# Scale\nwords\n<!-- figures -->\nold\n<!-- end of figures -->\nmore\n";
        let renewed = between(page, "new\n");
        assert_eq!(renewed, page.replace("old", "new"));
        assert_eq!(between("words\n", "new\n"), "words\n<!-- figures -->\nnew\n<!-- end of figures -->\n");
    }
}
