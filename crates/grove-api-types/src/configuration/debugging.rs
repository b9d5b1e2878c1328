//! `debugging`: accepted for files of the Go operator.

use super::document::Section;

/// Profiling as the Go operator offers it. The services serve no profiles, and say so when it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debugging {
    /// `enableProfiling`
    pub enable_profiling: bool,
}

impl Debugging {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let enable_profiling = section.flag("enableProfiling").unwrap_or_default();
        section.text("pprofBindHost");
        if section.whole("pprofBindPort").is_some_and(|port| u16::try_from(port).is_err()) {
            section.invalid("pprofBindPort", "must be between 0 and 65535");
        }
        if enable_profiling {
            section.warn(
                "enableProfiling",
                "has no effect, the services serve no profiles; perf works on their processes",
            );
        }
        Self { enable_profiling }
    }
}
