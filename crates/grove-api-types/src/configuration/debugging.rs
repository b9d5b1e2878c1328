//! `debugging`: keys of the Go operator without effect.

use super::document::Section;

/// Profiling, as in the Go operator. The services serve no profiles; if the file enables profiling, they log a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debugging {
    /// Whether the file enables profiling. Default: false.
    pub enable_profiling: bool,
}

impl Debugging {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let enable_profiling = section.bool("enableProfiling").unwrap_or_default();
        section.string("pprofBindHost");
        if section.integer("pprofBindPort").is_some_and(|port| u16::try_from(port).is_err()) {
            section.invalid("pprofBindPort", "must be between 0 and 65535");
        }
        if enable_profiling {
            section
                .warn("enableProfiling", "has no effect: the services serve no profiles; use perf on their processes");
        }
        Self { enable_profiling }
    }
}
