//! The font of the plots. The machine may have none.

use anyhow::{Result, anyhow};
use plotters::style::{FontStyle, register_font};

/// The name of the font.
pub(super) const FONT: &str = "sans-serif";

/// Makes the font known to plotters.
pub(super) fn register() -> Result<()> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| anyhow!("the font is not valid"))
}
