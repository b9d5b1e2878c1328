//! Free ports, stored in DIR/ports.json so that a second `up` uses the same ports.

use crate::workspace;
use anyhow::{Context, Result, bail};
use grove_dev_harness::state_file::{self, PORTS};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Below the ephemeral ports: the kernel could give one of those to an outgoing connection between choice and use.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// Other dev clusters do not choose a port for this long. A port has no listener before its process starts, and while a test
/// has stopped that process.
const RESERVATION: Duration = Duration::from_hours(1);

pub(crate) struct Ports(BTreeMap<String, u16>);

impl Ports {
    /// The ports of these names. Ports in DIR/ports.json are reused, ports in `fixed` are prescribed, all others are chosen.
    pub(crate) fn choose(dir: &Path, cache: &Path, names: &[String], fixed: &[(&str, u16)]) -> Result<Self> {
        let Self(mut ports) = Self::load(dir)?;
        for (name, port) in fixed {
            match ports.get(*name) {
                Some(used) if used != port => bail!("{name} uses port {used}; end it first with `cargo xtask down`"),
                _ => ports.insert((*name).to_owned(), *port),
            };
        }
        let missing: Vec<&String> = names.iter().filter(|name| !ports.contains_key(*name)).collect();
        let chosen = reserve(cache, missing.len())?;
        ports.extend(missing.into_iter().cloned().zip(chosen));
        workspace::write_private(&dir.join(PORTS), &format!("{}\n", serde_json::to_string_pretty(&ports)?))?;
        Ok(Self(ports))
    }

    /// The ports that an earlier [`Ports::choose`] has stored.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        state_file::read(&dir.join(PORTS)).map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Result<u16> {
        self.0.get(name).copied().with_context(|| format!("{name} has no port"))
    }
}

/// Reserves `count` ports that can be bound now and that no dev cluster has reserved in the last hour.
fn reserve(cache: &Path, count: usize) -> Result<Vec<u16>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    std::fs::create_dir_all(cache)?;
    let lock = File::create(cache.join("ports.lock"))?;
    lock.lock()?;
    let file = cache.join("ports.reserved");
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut reserved: BTreeMap<u16, u64> =
        std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    reserved.retain(|_, since| Duration::from_secs(*since) + RESERVATION > now);

    let width = RANGE.end - RANGE.start;
    let offset = u16::try_from(now.subsec_nanos() % u32::from(width))?;
    let mut chosen = Vec::new();
    for step in 0..width {
        let port = RANGE.start + (offset + step) % width;
        if !reserved.contains_key(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            reserved.insert(port, now.as_secs());
            chosen.push(port);
        }
        if chosen.len() == count {
            std::fs::write(&file, serde_json::to_string(&reserved)?)?;
            return Ok(chosen);
        }
    }
    bail!("fewer than {count} free ports between {} and {}", RANGE.start, RANGE.end)
}

#[cfg(test)]
mod tests {
    use super::Ports;

    #[test]
    fn ports_are_stable_and_two_dev_clusters_share_none() {
        let folder = std::env::temp_dir().join(format!("grove-ports-{}", std::process::id()));
        let (one, two) = (folder.join("one"), folder.join("two"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&two).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let first = Ports::choose(&one, &folder, &names, &[]).unwrap();
        let other = Ports::choose(&two, &folder, &names, &[]).unwrap();
        let again = Ports::choose(&one, &folder, &names, &[]).unwrap();
        assert_eq!(first.0, again.0);
        assert_eq!(first.0, Ports::load(&one).unwrap().0);
        assert!(first.0.values().all(|port| !other.0.values().any(|used| used == port)));
        assert!(first.get("c").is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_fixed_port_must_not_contradict_a_stored_one() {
        let folder = std::env::temp_dir().join(format!("grove-fixed-port-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = ["a".to_owned()];
        let ports = Ports::choose(&folder, &folder, &names, &[("a", 4711)]).unwrap();
        assert_eq!(ports.get("a").unwrap(), 4711);
        assert!(Ports::choose(&folder, &folder, &names, &[("a", 4711)]).is_ok());
        assert!(Ports::choose(&folder, &folder, &names, &[("a", 4712)]).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
