//! Ports that nobody else uses, remembered in DIR/ports.json so that a second `up` finds the same ones.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Below the range that the kernel gives to outgoing connections, which could take a port between choice and use.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// How long a chosen port is kept from other planes: nobody listens on it before its process starts, nor while that is
/// stopped by a test.
const RESERVED: Duration = Duration::from_hours(1);

pub(crate) struct Ports(BTreeMap<String, u16>);

impl Ports {
    /// The ports of these names: those chosen earlier stay, the others are chosen now.
    pub(crate) fn choose(dir: &Path, cache: &Path, names: &[String], api_server: Option<u16>) -> Result<Self> {
        let file = dir.join("ports.json");
        let mut ports: BTreeMap<String, u16> = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?,
            Err(_) => BTreeMap::new(),
        };
        if let Some(port) = api_server {
            match ports.get(crate::control_plane::API_SERVER) {
                Some(old) if *old != port => bail!("the plane runs on port {old}; `cargo xtask down` ends it"),
                _ => ports.insert(crate::control_plane::API_SERVER.to_owned(), port),
            };
        }
        let missing: Vec<&String> = names.iter().filter(|name| !ports.contains_key(*name)).collect();
        let fresh = free(cache, missing.len())?;
        ports.extend(missing.into_iter().cloned().zip(fresh));
        workspace::write_private(&file, &format!("{}\n", serde_json::to_string_pretty(&ports)?))?;
        Ok(Self(ports))
    }

    pub(crate) fn of(&self, name: &str) -> Result<u16> {
        self.0.get(name).copied().with_context(|| format!("no port was chosen for {name}"))
    }
}

/// `count` ports that can be bound now and were not given to another plane in the last hour.
fn free(cache: &Path, count: usize) -> Result<Vec<u16>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    std::fs::create_dir_all(cache)?;
    let lock = File::create(cache.join("ports.lock"))?;
    lock.lock()?;
    let book = cache.join("ports.reserved");
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut reserved: BTreeMap<u16, u64> =
        std::fs::read_to_string(&book).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    reserved.retain(|_, since| Duration::from_secs(*since) + RESERVED > now);

    let width = RANGE.end - RANGE.start;
    let offset = u16::try_from(now.subsec_nanos() % u32::from(width))?;
    let mut found = Vec::new();
    for step in 0..width {
        let port = RANGE.start + (offset + step) % width;
        if !reserved.contains_key(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            reserved.insert(port, now.as_secs());
            found.push(port);
        }
        if found.len() == count {
            std::fs::write(&book, serde_json::to_string(&reserved)?)?;
            return Ok(found);
        }
    }
    bail!("no {count} free ports between {} and {}", RANGE.start, RANGE.end)
}

#[cfg(test)]
mod tests {
    use super::Ports;

    #[test]
    fn ports_are_kept_and_no_two_planes_share_one() {
        let folder = std::env::temp_dir().join(format!("grove-ports-{}", std::process::id()));
        let (one, two) = (folder.join("one"), folder.join("two"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&two).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let first = Ports::choose(&one, &folder, &names, None).unwrap();
        let other = Ports::choose(&two, &folder, &names, None).unwrap();
        let again = Ports::choose(&one, &folder, &names, None).unwrap();
        assert_eq!(first.0, again.0);
        assert!(first.0.values().all(|port| !other.0.values().any(|taken| taken == port)));
        assert!(first.of("c").is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
