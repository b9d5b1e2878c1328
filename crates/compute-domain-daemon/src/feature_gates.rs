//! The feature gates of NVIDIA's driver that the daemon knows.

use std::str::FromStr;

/// The feature gates, from the text `name=true,...`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `ComputeDomainCliques`: the entries of a clique are in an object of their own. Default: false, Alpha since 25.12.
    pub has_cliques: bool,
}

impl FromStr for FeatureGates {
    type Err = String;

    /// Other gates of the driver have no effect on the daemon, except `IMEXDaemonsWithDNSNames`, which must not be disabled.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
            let (name, value) = gate.split_once('=').ok_or_else(|| format!("{gate:?} must have the form name=true"))?;
            let is_enabled = value.parse().map_err(|_| format!("{gate:?} must be true or false"))?;
            match (name, is_enabled) {
                ("ComputeDomainCliques", is_enabled) => gates.has_cliques = is_enabled,
                ("IMEXDaemonsWithDNSNames", false) => {
                    return Err(format!("{gate:?}: the daemon always uses host names; omit this gate"));
                }
                _ => {}
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_gate_of_cliques_has_an_effect() {
        let gates = |text: &str| text.parse::<FeatureGates>().map(|gates| gates.has_cliques);
        assert_eq!(gates(""), Ok(false));
        assert_eq!(gates("MPSSupport=true, ComputeDomainCliques=true,IMEXDaemonsWithDNSNames=true"), Ok(true));
        assert_eq!(gates("ComputeDomainCliques=false"), Ok(false));
        for (text, message) in [
            ("ComputeDomainCliques", "\"ComputeDomainCliques\" must have the form name=true"),
            ("ComputeDomainCliques=yes", "\"ComputeDomainCliques=yes\" must be true or false"),
            ("IMEXDaemonsWithDNSNames=false", "the daemon always uses host names"),
        ] {
            let error = gates(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
