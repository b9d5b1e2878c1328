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
            self.draw(&clipped(text, height()));
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

fn height() -> usize {
    rustix::termios::tcgetwinsize(stdout()).map_or(24, |size| usize::from(size.ws_row)).max(4)
}

/// What scrolls off the top of a terminal cannot be drawn over, so no more than fits is shown.
fn clipped(text: &str, height: usize) -> String {
    let count = text.lines().count();
    if count < height {
        return text.to_owned();
    }
    let fits = height - 2;
    let shown: String = text.lines().take(fits).flat_map(|line| [line, "\n"]).collect();
    format!("{shown}... and {} lines more\n", count - fits)
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(clipped("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(clipped("a\nb\nc\nd\n", 4), "a\nb\n... and 2 lines more\n");
    }
}
