//! What Kubernetes lets names and label keys look like.

/// Whether these are lower-case letters, digits, `-` and `.`, each part between dots beginning and ending with a letter or digit.
pub fn is_dns_subdomain(name: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let within = |byte: u8| byte == b'-' || is_end(Some(byte));
        is_end(part.bytes().next()) && is_end(part.bytes().last()) && part.bytes().all(within)
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// An optional DNS prefix before a slash, and a name of at most 63 letters.
pub(super) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let within = |byte: u8| is_end(Some(byte)) || b"-_.".contains(&byte);
    let is_named = is_end(name.bytes().next()) && is_end(name.bytes().last()) && name.bytes().all(within);
    name.len() <= 63 && is_named && prefix.is_none_or(is_dns_subdomain)
}
