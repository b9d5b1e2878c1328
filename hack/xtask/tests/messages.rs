//! The error messages of `cargo xtask` for invalid arguments and missing tools.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates a folder for one test, with a subfolder `given` that has these files.
fn folder(name: &str, files: &[&str]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("grove-messages-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("given")).unwrap();
    for file in files {
        std::fs::write(folder.join("given").join(file), "").unwrap();
    }
    folder
}

/// Compares the error message of `up` with the expected one. The environment is empty, so `up` finds no tool through it.
#[track_caller]
fn check(folder: &Path, flags: &[&str], expected: &str) {
    let given = folder.join("given");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["up", "--no-services", "--dir"]).arg(folder.join("plane")).args(flags).current_dir(&given);
    command.env_clear().env("PATH", &given).env("GROVE_CACHE_DIR", folder.join("cache"));
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let message = String::from_utf8(output.stderr).unwrap().replace(&folder.display().to_string(), "FOLDER");
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(message, expected);
    assert_eq!(printed, "", "`up` has started nothing");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_missing_go_toolchain_is_reported_with_the_alternatives() {
    check(
        &folder("go", &[]),
        &[],
        "error: the control plane is built from source and there is no Go toolchain here.\n\
         Install Go 1.26 or newer (https://go.dev/dl/), or give --kubeconfig FILE (a cluster of your own)\n\
         or --bin-dir DIR (a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubectl)\n",
    );
}

#[test]
fn missing_binaries_of_the_given_folder_are_named() {
    check(
        &folder("binaries", &["etcd", "kube-apiserver", "kube-scheduler", "kubectl"]),
        &["--bin-dir", "."],
        "error: --bin-dir .: missing kube-controller-manager, kwok\n",
    );
}

#[test]
fn a_missing_kubeconfig_is_named() {
    check(
        &folder("kubeconfig", &["kubectl"]),
        &["--kubeconfig", "nowhere"],
        "error: cannot read the kubeconfig nowhere: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_missing_kubectl_is_reported_with_the_alternatives() {
    check(
        &folder("kubectl", &["kubeconfig"]),
        &["--kubeconfig", "kubeconfig"],
        "error: there is no kubectl: install it, or give --bin-dir DIR with one in it\n",
    );
}
