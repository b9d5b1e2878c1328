//! What Kubernetes lets names, labels and environment variables look like, in its own words.

use serde_json::Value;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
    end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
    must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
    'example.com/MyName')";
const ENVIRONMENT: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
    and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation \
    is '[-._a-zA-Z][-._a-zA-Z0-9]*')";

/// The longest label of DNS, value of a label, and name within a key.
pub(crate) const MAX_LABEL_LENGTH: usize = 63;
/// The longest name of an object.
pub(crate) const MAX_NAME_LENGTH: usize = 253;

fn is_end(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_spelt(text: &str, is_end: fn(u8) -> bool, within: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|byte| byte.copied().is_some_and(is_end));
    ends && bytes.iter().all(|byte| is_end(*byte) || within.contains(byte))
}

/// What is wrong with a name that must be a DNS label.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > MAX_LABEL_LENGTH {
        return Err(format!("must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    if is_spelt(name, is_end, b"-") { Ok(()) } else { Err(LABEL.to_owned()) }
}

/// What is wrong with a name that must be a DNS subdomain, as the names of most objects.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_LENGTH {
        return Err(format!("must be no more than {MAX_NAME_LENGTH} bytes"));
    }
    if name.split('.').all(|part| is_spelt(part, is_end, b"-")) { Ok(()) } else { Err(SUBDOMAIN.to_owned()) }
}

/// Whether it is a DNS subdomain: at most 253 lower-case letters, digits, `-` and `.`, each part between dots beginning and
/// ending with a letter or digit.
pub fn is_dns_subdomain(name: &str) -> bool {
    dns_subdomain(name).is_ok()
}

/// What is wrong with the key of a label or annotation.
pub(crate) fn key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return Err(KEY.to_owned());
    }
    if let Some(prefix) = prefix {
        dns_subdomain(prefix).map_err(|said| format!("prefix part {said}"))?;
    }
    if name.len() > MAX_LABEL_LENGTH {
        return Err(format!("name part must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    if is_spelt(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") { Ok(()) } else { Err(KEY_NAME.to_owned()) }
}

/// Whether it can be the key of a label or annotation.
pub(crate) fn is_label_key(text: &str) -> bool {
    key(text).is_ok()
}

/// What is wrong with the value of a label.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_LABEL_LENGTH {
        return Err(format!("must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    let is_fine = value.is_empty() || is_spelt(value, |byte| byte.is_ascii_alphanumeric(), b"-_.");
    if is_fine { Ok(()) } else { Err(LABEL_VALUE.to_owned()) }
}

/// What is wrong with the name of an environment variable.
pub(crate) fn environment_variable(name: &str) -> Result<(), String> {
    let is_begin = |byte: u8| byte.is_ascii_alphabetic() || b"-._".contains(&byte);
    let begins = name.bytes().next().is_some_and(is_begin);
    let is_fine = begins && name.bytes().all(|byte| is_begin(byte) || byte.is_ascii_digit());
    match name {
        "." | ".." => Err(format!("must not be '{name}'")),
        _ if is_fine => Ok(()),
        _ => Err(ENVIRONMENT.to_owned()),
    }
}

/// Whether a value is absent or a text of nothing but white space.
pub(crate) fn is_blank(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()))
}
