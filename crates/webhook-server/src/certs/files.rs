//! Reads the certificate from a folder that somebody else fills, as the kubelet does with a mounted Secret, and again
//! whenever something changes there.

use std::io;
use std::path::Path;
use std::time::Duration;

use grove_runtime::ready::ReadyHandle;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;
use tokio::time::sleep;

use super::observed::{CERTIFICATE, CERTIFICATE_KEY};
use super::{Identity, identity};
use crate::metrics::Counters;

/// Where nothing tells of changes, such as a folder that is not there yet, it is looked so often.
const AGAIN: Duration = Duration::from_secs(1);
/// What is to be done about any trouble.
const REMEDY: &str = "certProvisionMode is manual, so this folder is to hold tls.crt and the tls.key that fits it";
/// Room for some events; which they are does not matter.
const ROOM: usize = 4096;

/// Serves what the folder holds, for ever. What cannot be served changes nothing.
pub(crate) async fn follow(
    folder: &Path,
    identity: &Identity,
    ready: ReadyHandle,
    counters: &Counters,
) -> io::Result<()> {
    let (mut ready, mut told) = (Some(ready), None);
    loop {
        // Listening begins before looking, so that no change falls between the two.
        let watch = watch(folder);
        let trouble =
            read(folder, identity, counters).err().map(|why| format!("{}: {why}; {REMEDY}", folder.display()));
        ready = waiting(ready, trouble.as_deref());
        if trouble != told {
            tell(trouble.as_deref());
            told = trouble;
        }
        match watch {
            Ok(watch) => changed(&watch).await?,
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// The handle, for as long as nothing could be read.
fn waiting(ready: Option<ReadyHandle>, trouble: Option<&str>) -> Option<ReadyHandle> {
    let handle = ready?;
    let Some(why) = trouble else {
        handle.ready();
        return None;
    };
    handle.waits_because(why);
    Some(handle)
}

fn tell(trouble: Option<&str>) {
    let told = trouble.map(|why| format!("no certificate can be read, and what is served stays: {why}"));
    tracing::warn!("{}", told.as_deref().unwrap_or("the certificate can be read again"));
}

fn read(folder: &Path, identity: &Identity, counters: &Counters) -> Result<(), String> {
    let file = |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let (certificate, key) = (file(CERTIFICATE)?, file(CERTIFICATE_KEY)?);
    if identity.assume(&certificate, &key).map_err(|error| error.to_string())? {
        identity::tell(&String::from_utf8_lossy(&certificate), counters);
    }
    Ok(())
}

/// Of a mounted Secret, the link `..data` is exchanged; others write the files themselves.
fn watch(folder: &Path) -> io::Result<Receiver> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let events = WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    inotify::add_watch(&watch, folder, events)?;
    // It is read from like a pipe.
    Receiver::from_owned_fd_unchecked(watch)
}

/// Returns after the next change; which it is does not matter.
async fn changed(watch: &Receiver) -> io::Result<()> {
    loop {
        watch.readable().await?;
        match watch.try_read(&mut [0; ROOM]) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
