//! `logLevel` and `logFormat`.

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What operators want to know.
    #[default]
    Info,
    /// Only what needs attention.
    Error,
}

impl LogLevel {
    pub(super) const ALL: [(&'static str, Self); 3] =
        [("debug", Self::Debug), ("info", Self::Info), ("error", Self::Error)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// For people.
    Text,
}

impl LogFormat {
    pub(super) const ALL: [(&'static str, Self); 2] = [("json", Self::Json), ("text", Self::Text)];
}
