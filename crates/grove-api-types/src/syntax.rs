//! The syntax of names, labels and environment variables, with the messages of Kubernetes.

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

/// The length limit of a DNS label, of the value of a label, and of the name part of a key.
pub(crate) const MAX_LABEL_LENGTH: usize = 63;
/// The length limit of the name of an object.
pub(crate) const MAX_NAME_LENGTH: usize = 253;

fn is_end(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether all bytes satisfy `is_end` or are one of `within`, and the first and the last byte satisfy `is_end`.
fn is_spelled(text: &str, is_end: fn(u8) -> bool, within: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|byte| byte.copied().is_some_and(is_end));
    ends && bytes.iter().all(|byte| is_end(*byte) || within.contains(byte))
}

/// Checks that a name is a DNS label; otherwise returns the message.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > MAX_LABEL_LENGTH {
        return Err(format!("must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    if is_spelled(name, is_end, b"-") { Ok(()) } else { Err(LABEL.to_owned()) }
}

/// Checks that a name is a DNS subdomain, as the names of most objects are; otherwise returns the message.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_LENGTH {
        return Err(format!("must be no more than {MAX_NAME_LENGTH} bytes"));
    }
    if name.split('.').all(|part| is_spelled(part, is_end, b"-")) { Ok(()) } else { Err(SUBDOMAIN.to_owned()) }
}

/// Whether a name is a DNS subdomain: at most 253 lower-case letters, digits, `-` and `.`; each part between dots begins and ends
/// with a letter or digit.
pub fn is_dns_subdomain(name: &str) -> bool {
    dns_subdomain(name).is_ok()
}

/// Checks the key of a label or annotation; otherwise returns the message.
pub(crate) fn key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return Err(KEY.to_owned());
    }
    if let Some(prefix) = prefix {
        dns_subdomain(prefix).map_err(|message| format!("prefix part {message}"))?;
    }
    if name.len() > MAX_LABEL_LENGTH {
        return Err(format!("name part must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    if is_spelled(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") { Ok(()) } else { Err(KEY_NAME.to_owned()) }
}

/// Whether a text is a valid key of a label or annotation.
pub(crate) fn is_label_key(text: &str) -> bool {
    key(text).is_ok()
}

/// Checks the value of a label; otherwise returns the message.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_LABEL_LENGTH {
        return Err(format!("must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    let is_valid = value.is_empty() || is_spelled(value, |byte| byte.is_ascii_alphanumeric(), b"-_.");
    if is_valid { Ok(()) } else { Err(LABEL_VALUE.to_owned()) }
}

/// Checks the name of an environment variable; otherwise returns the message.
pub(crate) fn environment_variable(name: &str) -> Result<(), String> {
    let is_initial = |byte: u8| byte.is_ascii_alphabetic() || b"-._".contains(&byte);
    let begins = name.bytes().next().is_some_and(is_initial);
    let is_valid = begins && name.bytes().all(|byte| is_initial(byte) || byte.is_ascii_digit());
    match name {
        "." | ".." => Err(format!("must not be '{name}'")),
        _ if is_valid => Ok(()),
        _ => Err(ENVIRONMENT.to_owned()),
    }
}

/// Whether a value is absent, null, or a string of white space only.
pub(crate) fn is_blank(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()))
}
