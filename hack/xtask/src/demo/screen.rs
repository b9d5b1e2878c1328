//! Shows a text that changes: a terminal redraws it in place, any other output gets one text after the other.

use std::io::{IsTerminal, Write, stdout};

#[derive(Default)]
pub(crate) struct Screen {
    text: String,
    /// The number of lines on the terminal that the next text overwrites.
    drawn: usize,
}

impl Screen {
    /// Shows the text if it has changed.
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

    /// Leaves the last text on the screen in full length. The next text begins below it.
    pub(crate) fn finish(&mut self) {
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
    // A closed terminal is no reason to stop.
    _ = out.write_all(text.as_bytes());
    _ = out.flush();
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((80, 24), |size| (size.ws_col.into(), usize::from(size.ws_row).max(4)))
}

/// The part of the text that fits. A terminal cannot redraw lines that have scrolled off the top, and a wrapped line takes more
/// than one line.
fn clipped(text: &str, width: usize, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let fits = if lines.len() < height { lines.len() } else { height - 2 };
    let narrow = |line: &&str| line.chars().take(width).chain(['\n']).collect::<String>();
    let shown: String = lines.iter().take(fits).map(narrow).collect();
    match lines.len() - fits {
        0 => shown,
        hidden => format!("{shown}... and {hidden} more lines\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn lines_that_do_not_fit_are_counted() {
        assert_eq!(clipped("a\nb\nc\n", 80, 4), "a\nb\nc\n");
        assert_eq!(clipped("a\nb\nc\nd\n", 80, 4), "a\nb\n... and 2 more lines\n");
    }

    #[test]
    fn lines_that_are_too_wide_are_cut() {
        assert_eq!(clipped("├─ Pod a\n└─ Pod\n", 6, 24), "├─ Pod\n└─ Pod\n");
    }
}
