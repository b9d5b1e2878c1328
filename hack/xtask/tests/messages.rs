//! What `cargo xtask` says when what it was given cannot be used.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder for one test, with a folder in it that holds these files.
fn folder(name: &str, files: &[&str]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("grove-messages-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("given")).unwrap();
    for file in files {
        std::fs::write(folder.join("given").join(file), "").unwrap();
    }
    folder
}

/// What `up` says, without what differs from run to run. Nothing is found by way of the environment.
#[track_caller]
fn check(folder: &Path, flags: &[&str], expected: &str) {
    let given = folder.join("given");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["up", "--no-services", "--dir"]).arg(folder.join("plane")).args(flags).current_dir(&given);
    command.env_clear().env("PATH", &given).env("GROVE_CACHE_DIR", folder.join("cache"));
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap().replace(&folder.display().to_string(), "FOLDER");
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(said, expected);
    assert_eq!(printed, "", "nothing was begun");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn without_go_it_says_what_to_give_instead() {
    check(
        &folder("go", &[]),
        &[],
        "error: the control plane is built from source and there is no Go toolchain here.\n\
         Install Go 1.26 or newer (https://go.dev/dl/), or give --kubeconfig FILE (a cluster of your own)\n\
         or --bin-dir DIR (a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubectl)\n",
    );
}

#[test]
fn binaries_that_are_not_in_the_given_folder_are_named() {
    check(
        &folder("binaries", &["etcd", "kube-apiserver", "kube-scheduler", "kubectl"]),
        &["--bin-dir", "."],
        "error: --bin-dir .: missing kube-controller-manager, kwok\n",
    );
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    check(
        &folder("kubeconfig", &["kubectl"]),
        &["--kubeconfig", "nowhere"],
        "error: cannot read the kubeconfig nowhere: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_cluster_without_a_kubectl_to_talk_to_it_says_what_to_give() {
    check(
        &folder("kubectl", &["kubeconfig"]),
        &["--kubeconfig", "kubeconfig"],
        "error: there is no kubectl: install it, or give --bin-dir DIR with one in it\n",
    );
}
