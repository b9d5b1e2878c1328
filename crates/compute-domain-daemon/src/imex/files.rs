//! The files that IMEX reads: `imexd.cfg`, `nodes.cfg` with the host names of all indices of the clique, and the hosts file with their
//! addresses. IMEX reads `nodes.cfg` only when it starts, so the names never change; it resolves them again after a signal.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::names::ImexHostName;

/// The address of an index without daemon. It is on no node, and a name with an address is not searched in DNS.
const UNUSED: &str = "127.0.0.2";
const SERVER_PORT: u16 = 50000;
const COMMAND_PORT: u16 = 50005;

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("could not write {}: {source}; the daemon retries{}", file.display(), remedy(source))]
pub(crate) struct FileError {
    file: PathBuf,
    source: io::Error,
}

fn remedy(source: &io::Error) -> &'static str {
    let kind = source.kind();
    if kind == io::ErrorKind::StorageFull {
        ", free space on the volume"
    } else if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) {
        ", check the mounts of the pod"
    } else {
        ""
    }
}

/// Writes the files. A file with the right content stays untouched. `foreign` are the lines of the hosts file that are not of the daemon,
/// from the first read: a write to a full disk may lose them.
pub(crate) fn write(
    dir: &Path,
    (hosts_file, foreign): (&Path, &mut Option<String>),
    identity: &Identity,
    peers: &[Entry],
) -> Result<(), FileError> {
    replace(&dir.join("imexd.cfg"), &config(dir, &identity.pod_ip))?;
    replace(&dir.join("nodes.cfg"), &nodes(identity))?;
    let of_hosts = |source| FileError { file: hosts_file.to_owned(), source };
    let current = match fs::read_to_string(hosts_file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(of_hosts)?,
    };
    let foreign = foreign.get_or_insert_with(|| foreign_lines(&current));
    let content = hosts(foreign, identity, peers);
    if content != current {
        // The file is a mount, which cannot be replaced.
        fs::write(hosts_file, content).map_err(of_hosts)?;
    }
    Ok(())
}

/// Replaces the file in one step, so that no reader sees a part of it.
fn replace(file: &Path, content: &str) -> Result<(), FileError> {
    if fs::read_to_string(file).is_ok_and(|current| current == content) {
        return Ok(());
    }
    let temporary = file.with_extension("new");
    let replaced = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, file));
    replaced.map_err(|source| FileError { file: file.to_owned(), source })
}

/// The configuration of IMEX. Its keys: <https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/config.html>.
fn config(dir: &Path, pod_ip: &str) -> String {
    let nodes = dir.join("nodes.cfg");
    format!(
        "DAEMONIZE=0\nBIND_INTERFACE_IP={pod_ip}\nSERVER_PORT={SERVER_PORT}\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT={COMMAND_PORT}\n\
         IMEX_NODE_CONFIG_FILE={}\nIMEX_WAIT_FOR_QUORUM=RECOVERY\nIMEX_NODE_DISCONNECTED_GRACE_TIME=-1\n",
        nodes.display()
    )
}

/// The host names of all indices.
fn nodes(identity: &Identity) -> String {
    host_names(identity).fold(String::new(), |text, name| text + name.as_str() + "\n")
}

/// The lines without a name of a daemon.
fn foreign_lines(hosts: &str) -> String {
    let is_foreign = |line: &&str| !line.split_whitespace().any(ImexHostName::is_one);
    hosts.lines().filter(is_foreign).fold(String::new(), |text, line| text + line + "\n")
}

/// The hosts file: the foreign lines, and the addresses of the peers.
fn hosts(foreign: &str, identity: &Identity, peers: &[Entry]) -> String {
    let mut text = foreign.to_owned();
    for (index, name) in (0..).zip(host_names(identity)) {
        let peer = peers.iter().find(|peer| peer.index == index);
        let address = peer.map_or(UNUSED, |peer| &peer.ip_address);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{address}\t{name}");
    }
    text
}

fn host_names(identity: &Identity) -> impl Iterator<Item = ImexHostName> {
    (0..).take(identity.max_nodes).map(|index| ImexHostName::of_daemon(&identity.domain_uid, index))
}

#[cfg(test)]
mod tests;
