//! The content of the files, and failures to write them.

use std::os::unix::fs::symlink;

use expect_test::expect;
use grove_api_types::compute_domain::entry::Readiness;

use super::*;
use crate::test_fixtures::{Folder, identity};

fn peer(index: i64, ip: &str) -> Entry {
    Entry {
        node_name: format!("node-{index}"),
        ip_address: ip.to_owned(),
        clique_id: "fabric.7".to_owned(),
        index,
        status: Readiness::Ready,
    }
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

#[test]
fn the_files_have_the_names_and_addresses_of_all_indices() {
    let folder = Folder::new("files");
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n10.0.0.9\tcompute-domain-daemon-0f0f0f0f-0000\n").unwrap();
    let peers = [peer(0, "10.0.0.1"), peer(2, "10.0.0.3")];
    write(folder.path(), (&hosts, &mut None), &identity(), &peers).unwrap();
    expect![[r"
        DAEMONIZE=0
        BIND_INTERFACE_IP=10.0.0.1
        SERVER_PORT=50000
        IMEX_CMD_ENABLED=1
        IMEX_CMD_PORT=50005
        IMEX_NODE_CONFIG_FILE=DIR/nodes.cfg
        IMEX_WAIT_FOR_QUORUM=RECOVERY
        IMEX_NODE_DISCONNECTED_GRACE_TIME=-1
    "]]
    .assert_eq(&read(&folder, "imexd.cfg").replace(folder.path().to_str().unwrap(), "DIR"));
    expect![[r"
        compute-domain-daemon-1a2b3c4d-0000
        compute-domain-daemon-1a2b3c4d-0001
        compute-domain-daemon-1a2b3c4d-0002
    "]]
    .assert_eq(&read(&folder, "nodes.cfg"));
    let expected = expect![[r"
        127.0.0.1 localhost
        10.0.0.1	compute-domain-daemon-1a2b3c4d-0000
        127.0.0.2	compute-domain-daemon-1a2b3c4d-0001
        10.0.0.3	compute-domain-daemon-1a2b3c4d-0002
    "]];
    expected.assert_eq(&read(&folder, "hosts"));
    write(folder.path(), (&hosts, &mut None), &identity(), &peers).unwrap();
    expected.assert_eq(&read(&folder, "hosts"));
}

#[test]
fn foreign_lines_stay_also_if_a_write_was_incomplete() {
    let folder = Folder::new("foreign");
    let (hosts, mut foreign) = (folder.path().join("hosts"), None);
    fs::write(&hosts, "127.0.0.1 localhost\n10.0.0.9 x compute-domain-daemon-0f0f0f0f-0000").unwrap();
    write(folder.path(), (&hosts, &mut foreign), &identity(), &[peer(0, "10.0.0.1")]).unwrap();
    let complete = read(&folder, "hosts");
    assert!(complete.starts_with("127.0.0.1 localhost\n10.0.0.1\tcompute-domain-daemon-1a2b3c4d-0000\n"), "{complete}");
    fs::write(&hosts, "127.0").unwrap();
    write(folder.path(), (&hosts, &mut foreign), &identity(), &[peer(0, "10.0.0.1")]).unwrap();
    assert_eq!(read(&folder, "hosts"), complete);
}

#[test]
fn a_failure_names_the_file_and_the_remedy() {
    let folder = Folder::new("full");
    let hosts = folder.path().join("hosts");
    // Each write to this device fails as on a full disk.
    symlink("/dev/full", folder.path().join("nodes.new")).unwrap();
    let error = write(folder.path(), (&hosts, &mut None), &identity(), &[]).unwrap_err().to_string();
    assert!(error.contains("/nodes.cfg: No space left on device"), "{error}");
    assert!(error.ends_with("; the daemon retries, free space on the volume"), "{error}");
    let error = write(Path::new("/nowhere"), (&hosts, &mut None), &identity(), &[]).unwrap_err().to_string();
    assert!(error.starts_with("could not write /nowhere/imexd.cfg: "), "{error}");
    assert!(error.ends_with(", check the mounts of the pod"), "{error}");
}
