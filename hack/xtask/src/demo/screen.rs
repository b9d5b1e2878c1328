//! Showing a text that changes: drawn over the last one on a terminal, one after the other anywhere else.

use std::io::{IsTerminal, Write, stdout};

#[derive(Default)]
pub(crate) struct Screen {
    text: String,
    /// How many lines of it stand on the terminal and can be drawn over.
    drawn: usize,
}

impl Screen {
    /// Shows the text if it differs from what is shown.
    pub(crate) fn show(&mut self, text: &str) {
        if self.text == text {
            return;
        }
        text.clone_into(&mut self.text);
        if stdout().is_terminal() {
            let (width, height) = size();
            self.draw(&clipped(text, width, height));
        } else {
            put(&format!("{text}\n"));
        }
    }

    /// What was shown last stays, in full; the next text begins below.
    pub(crate) fn settle(&mut self) {
        if stdout().is_terminal() {
            let text = std::mem::take(&mut self.text);
            self.draw(&text);
        }
        *self = Self::default();
    }

    fn draw(&mut self, text: &str) {
        let back = if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\x1b[0J", self.drawn) };
        put(&format!("{back}{text}"));
        self.drawn = text.lines().count();
    }
}

fn put(text: &str) {
    let mut out = stdout();
    // A terminal that has gone away is no reason to stop.
    _ = out.write_all(text.as_bytes());
    _ = out.flush();
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((80, 24), |size| (size.ws_col.into(), usize::from(size.ws_row).max(4)))
}

/// What scrolls off the top of a terminal cannot be drawn over, and a line that is broken takes more of them than are
/// counted: so no more than fits is shown.
fn clipped(text: &str, width: usize, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let fits = if lines.len() < height { lines.len() } else { height - 2 };
    let narrow = |line: &&str| line.chars().take(width).chain(['\n']).collect::<String>();
    let shown: String = lines.iter().take(fits).map(narrow).collect();
    match lines.len() - fits {
        0 => shown,
        left => format!("{shown}... and {left} lines more\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(clipped("a\nb\nc\n", 80, 4), "a\nb\nc\n");
        assert_eq!(clipped("a\nb\nc\nd\n", 80, 4), "a\nb\n... and 2 lines more\n");
    }

    #[test]
    fn what_is_too_wide_is_cut() {
        assert_eq!(clipped("├─ Pod a\n└─ Pod\n", 6, 24), "├─ Pod\n└─ Pod\n");
    }
}
