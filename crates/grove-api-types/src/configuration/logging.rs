//! `logLevel` and `logFormat`.

/// The lowest level of the logged messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// All messages.
    Debug,
    /// Messages for operators.
    #[default]
    Info,
    /// Errors only.
    Error,
}

impl LogLevel {
    pub(super) const ALL: [(&'static str, Self); 3] =
        [("debug", Self::Debug), ("info", Self::Info), ("error", Self::Error)];

    /// The value in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

/// The format of a log message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// Text for humans.
    Text,
}

impl LogFormat {
    pub(super) const ALL: [(&'static str, Self); 2] = [("json", Self::Json), ("text", Self::Text)];
}
