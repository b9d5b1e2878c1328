//! Reads the file with the `OperatorConfiguration`. `grove_api_types::configuration` defines its content.

use std::path::Path;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::field_error::FieldError;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A configuration file that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedConfiguration {
    /// The configuration.
    pub configuration: OperatorConfiguration,
    /// The parts of the file that have no effect.
    pub warnings: Vec<String>,
    /// The first 16 hexadecimal digits of the file's SHA-256; empty without a file.
    pub hash: String,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("could not read the configuration {file}")]
    Unreadable {
        /// The path of the file.
        file: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The file is neither YAML nor JSON.
    #[error("the configuration {file} is not valid YAML: {message}")]
    Syntax {
        /// The path of the file.
        file: String,
        /// The position and the reason.
        message: String,
    },
    /// Some values are invalid.
    #[error("the configuration {file} cannot be used:{}", error_lines(errors))]
    Invalid {
        /// The path of the file.
        file: String,
        /// All invalid values.
        errors: Vec<FieldError>,
    },
}

fn error_lines(errors: &[FieldError]) -> String {
    errors.iter().fold(String::new(), |lines, error| lines + &format!("\n  {error}"))
}

/// Reads the file. Without a file every setting has its default.
pub fn load(file: Option<&Path>) -> Result<LoadedConfiguration, Error> {
    let Some(path) = file else { return Ok(LoadedConfiguration::default()) };
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(file, &text),
        Err(source) => Err(Error::Unreadable { file, source }),
    }
}

fn parse(file: String, text: &str) -> Result<LoadedConfiguration, Error> {
    let content: Value = match serde_saphyr::from_str(text) {
        Ok(content) => content,
        Err(error) => return Err(Error::Syntax { file, message: error.to_string() }),
    };
    let digest = Sha256::digest(text);
    let hash = digest.iter().take(8).fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
    match OperatorConfiguration::read(&content) {
        Ok((configuration, warnings)) => Ok(LoadedConfiguration { configuration, warnings, hash }),
        Err(errors) => Err(Error::Invalid { file, errors }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";

    #[test]
    fn without_a_file_every_setting_has_its_default() {
        assert_eq!(load(None).unwrap(), LoadedConfiguration::default());
    }

    #[test]
    fn a_file_is_loaded_with_its_warnings_and_its_hash() {
        let loaded = parse("f".into(), &format!("{HEAD}logFormat: text\nlogLevl: debug\n")).unwrap();
        assert_eq!(loaded.warnings, ["logLevl: unknown key, ignored; did you mean logLevel?"]);
        // printf … | sha256sum
        assert_eq!(loaded.hash, "40500f97b0d4efaf");
    }

    #[test]
    fn the_error_lists_each_problem_on_its_own_line() {
        let error = parse("c.yaml".into(), &format!("{HEAD}logFormat: xml\nlogLevel: loud\n")).unwrap_err().to_string();
        let expected = "the configuration c.yaml cannot be used:\n  \
            logLevel: Unsupported value: \"loud\": supported values: debug, info, error\n  \
            logFormat: Unsupported value: \"xml\": supported values: json, text";
        assert_eq!(error, expected);
    }

    #[test]
    fn the_error_names_a_file_that_is_missing_or_not_yaml() {
        let error = parse("c.yaml".into(), "a: [").unwrap_err().to_string();
        assert!(error.starts_with("the configuration c.yaml is not valid YAML: "), "{error}");
        let error = load(Some(Path::new("/nowhere/c.yaml"))).unwrap_err().to_string();
        assert_eq!(error, "could not read the configuration /nowhere/c.yaml");
    }
}
