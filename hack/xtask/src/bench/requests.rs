//! The writes of a phase, counted from the API server's audit log as it grows.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One way to write: by whom, how, what, and whether the server took it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) account: String,
    pub(super) verb: String,
    /// The plural, with the subresource behind a slash.
    pub(super) resource: String,
    pub(super) accepted: bool,
}

pub(super) type Writes = BTreeMap<Write, u32>;

/// Reads the audit log on from where it stopped, over rotations.
pub(super) struct AuditLog {
    path: PathBuf,
    open: BufReader<File>,
    /// The begin of a line whose end is not written yet.
    partial: String,
}

impl AuditLog {
    /// Begins at the end of the log.
    pub(super) fn from_here(path: &Path) -> Result<Self> {
        let mut log = Self { path: path.to_owned(), open: open(path)?, partial: String::new() };
        log.new_writes()?;
        Ok(log)
    }

    /// The writes since the last call.
    pub(super) fn new_writes(&mut self) -> Result<Writes> {
        let mut writes = Writes::new();
        loop {
            while self.open.read_line(&mut self.partial)? > 0 && self.partial.ends_with('\n') {
                if let Some(write) = write(&self.partial) {
                    *writes.entry(write).or_default() += 1;
                }
                self.partial.clear();
            }
            let next = open(&self.path)?;
            if next.get_ref().metadata()?.ino() == self.open.get_ref().metadata()?.ino() {
                return Ok(writes);
            }
            self.open = next;
        }
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read the audit log {}", path.display()))?;
    Ok(BufReader::new(file))
}

/// The write of a line of the log; leases, reviews and tokens are no writes of objects.
fn write(line: &str) -> Option<Write> {
    if !["\"verb\":\"create\"", "\"verb\":\"update\"", "\"verb\":\"patch\"", "\"verb\":\"delete"]
        .iter()
        .any(|verb| line.contains(verb))
    {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    let object = &event["objectRef"];
    let resource = object["resource"].as_str()?;
    let group = object["apiGroup"].as_str().unwrap_or_default();
    let resource = match object["subresource"].as_str() {
        Some("token") => return None,
        Some(subresource) => [resource, subresource].join("/"),
        None => resource.to_owned(),
    };
    if ["coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"].contains(&group) {
        return None;
    }
    let user = event["user"]["username"].as_str()?;
    let account = user.rsplit(':').next().unwrap_or(user).to_owned();
    let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
    Some(Write { account, verb: event["verb"].as_str()?.to_owned(), resource, accepted: (200..300).contains(&code) })
}

#[cfg(test)]
mod tests {
    use super::{AuditLog, write};
    use std::io::Write as _;

    fn line(verb: &str, resource: &str, code: u32) -> String {
        format!(
            "{{\"verb\":\"{verb}\",\"user\":{{\"username\":\"system:serviceaccount:grove-system:a\"}},\
             \"objectRef\":{{\"resource\":\"{resource}\"}},\"responseStatus\":{{\"code\":{code}}}}}\n"
        )
    }

    #[test]
    fn writes_are_told_from_reads_and_refusals() {
        assert_eq!(write(&line("get", "pods", 200)), None);
        let refused = write(&line("create", "pods", 409)).unwrap();
        assert!(refused.account == "a" && refused.verb == "create" && !refused.accepted);
        assert!(write(&line("deletecollection", "pods", 200)).unwrap().accepted);
    }

    #[test]
    fn the_log_is_read_on_over_half_lines_and_rotations() {
        let folder = std::env::temp_dir().join(format!("grove-audit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.log");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(line("create", "pods", 201).as_bytes()).unwrap();
        let mut log = AuditLog::from_here(&path).unwrap();
        let (begin, end) = (line("patch", "pods", 200), line("delete", "pods", 200));
        let (half, rest) = begin.split_at(20);
        file.write_all(half.as_bytes()).unwrap();
        assert!(log.new_writes().unwrap().is_empty());
        file.write_all(rest.as_bytes()).unwrap();
        std::fs::rename(&path, folder.join("audit-1.log")).unwrap();
        std::fs::write(&path, end).unwrap();
        let verbs: Vec<String> = log.new_writes().unwrap().into_keys().map(|write| write.verb).collect();
        assert_eq!(verbs, ["delete", "patch"]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
