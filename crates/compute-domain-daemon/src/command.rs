//! A command and its arguments.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use tokio::process;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
}

impl FromStr for Command {
    type Err = &'static str;

    /// The words of the text. There are no quotes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or("must name a program")?;
        Ok(Self { program, arguments: words.collect() })
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

impl Command {
    /// The process that runs the command.
    pub fn to_process(&self) -> process::Command {
        let mut process = process::Command::new(&self.program);
        process.args(&self.arguments);
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_at_spaces() {
        let command: Command = " nvidia-imex  -c /imexd/imexd.cfg".parse().unwrap();
        assert_eq!((command.program.as_str(), command.arguments.len()), ("nvidia-imex", 2));
        assert_eq!(command.to_string(), "nvidia-imex -c /imexd/imexd.cfg");
        assert_eq!(" ".parse::<Command>(), Err("must name a program"));
    }
}
