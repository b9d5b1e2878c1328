//! Watches the pods of the gang until all parents are ready, and logs what it waits for.

use anyhow::Context;
use futures::{Stream, StreamExt, pin_mut};
use grove_api_types::labels::{POD_CLIQUE, POD_GANG};
use grove_api_types::startup::Parent;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};

use crate::args::Args;
use crate::client::{self, PodInfo};
use crate::readiness::{Readiness, SlimPod};

/// The selector names at most this many parents.
const MAX_SELECTED: usize = 50;

/// Returns when all parents are ready at the same time. A failed LIST or watch is repeated with backoff, as long as it fails.
///
/// # Errors
/// If the process cannot connect: a file is missing or invalid.
pub async fn wait(args: &Args) -> anyhow::Result<()> {
    let PodInfo { namespace, gang } = PodInfo::read(&args.pod_info_dir)?;
    let pods = Api::<SlimPod>::namespaced(client::connect(args)?, &namespace);
    let parents = args.parents();
    let of_parents = watcher::Config::default().labels(&selector(&gang, &parents));
    let events = kube::runtime::watcher(pods, of_parents).default_backoff();
    let log = |line: &str| println!("{line}");
    wait_for(Readiness::new(parents), events, log).await.context("the watch of the pods has ended")
}

/// Selects the pods of the parents in the gang. Many parents would make a long URL, so then all pods of the gang are selected.
fn selector(gang: &str, parents: &[Parent]) -> String {
    let of_gang = format!("{POD_GANG}={gang}");
    if parents.len() > MAX_SELECTED {
        return of_gang;
    }
    let names: Vec<_> = parents.iter().map(|parent| parent.clique.as_str()).collect();
    format!("{of_gang},{POD_CLIQUE} in ({})", names.join(","))
}

/// Applies the events until all parents are ready; `None` if there are no more events. A line is logged when something else is missing, and when
/// another error occurs.
pub async fn wait_for(
    mut readiness: Readiness,
    events: impl Stream<Item = watcher::Result<Event<SlimPod>>>,
    mut log: impl FnMut(&str),
) -> Option<()> {
    pin_mut!(events);
    let (mut is_listing, mut last_line) = (false, String::new());
    if readiness.missing().is_none() {
        log("there is nothing to wait for");
        return Some(());
    }
    loop {
        let line = match events.next().await? {
            Ok(event) => {
                is_listing = match event {
                    Event::Apply(pod) => {
                        readiness.apply(&pod);
                        is_listing
                    }
                    Event::Delete(pod) => {
                        readiness.delete(&pod);
                        is_listing
                    }
                    // Deletions may have been missed.
                    Event::Init => {
                        readiness.clear();
                        true
                    }
                    Event::InitApply(pod) => {
                        readiness.apply(&pod);
                        true
                    }
                    Event::InitDone => false,
                };
                if is_listing {
                    continue;
                }
                let Some(missing) = readiness.missing() else {
                    log("all parents are ready");
                    return Some(());
                };
                format!("waiting for {missing}")
            }
            Err(error) => format!("cannot read the pods of the gang, and tries again: {error}"),
        };
        if line != last_line {
            log(&line);
            last_line = line;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, clique: &str, ready: &str) -> SlimPod {
        let metadata = json!({ "name": name, "labels": { "grove.io/podclique": clique } });
        let status = json!({ "conditions": [{ "type": "Ready", "status": ready }] });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    /// Whether the wait ended, and its log.
    async fn wait(parents: &[&str], events: Vec<watcher::Result<Event<SlimPod>>>) -> (bool, String) {
        let readiness = Readiness::new(parents.iter().map(|parent| parent.parse().unwrap()).collect());
        let mut lines = Vec::new();
        let ended = wait_for(readiness, stream::iter(events), |line| lines.push(line.to_owned())).await;
        (ended.is_some(), lines.join("\n"))
    }

    #[tokio::test]
    async fn a_line_is_logged_when_something_else_is_missing() {
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(pod("a1", "a", "False"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(pod("a1", "a", "False"))),
            Ok(Event::Apply(pod("a1", "a", "True"))),
            Ok(Event::Apply(pod("own", "c", "True"))),
            Ok(Event::Delete(pod("a1", "a", "True"))),
            Ok(Event::Apply(pod("a2", "a", "True"))),
            Ok(Event::Apply(pod("b1", "b", "True"))),
            Ok(Event::Apply(pod("b2", "b", "True"))),
        ];
        let (ended, log) = wait(&["a:1", "b:2"], events).await;
        let expected = "waiting for a (0 of 1 ready), b (0 of 2 ready)
waiting for b (0 of 2 ready)
waiting for a (0 of 1 ready), b (0 of 2 ready)
waiting for b (0 of 2 ready)
waiting for b (1 of 2 ready)
all parents are ready";
        assert_eq!((ended, log.as_str()), (true, expected));
    }

    /// A watch that begins again may have missed that the pod is no longer ready, or was deleted.
    #[tokio::test]
    async fn a_new_list_replaces_the_pods_when_it_is_complete() {
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(pod("a1", "a", "True"))),
            Ok(Event::InitDone),
            Ok(Event::Init),
            Ok(Event::InitApply(pod("b1", "b", "True"))),
            Ok(Event::InitDone),
        ];
        let (ended, log) = wait(&["a:1", "b:1"], events).await;
        assert_eq!((ended, log.as_str()), (false, "waiting for b (0 of 1 ready)\nwaiting for a (0 of 1 ready)"));
    }

    #[tokio::test]
    async fn an_error_is_logged_once_and_does_not_end_the_wait() {
        let error = || Err(watcher::Error::NoResourceVersion);
        let events = vec![
            error(),
            error(),
            Ok(Event::Init),
            Ok(Event::InitDone),
            error(),
            Ok(Event::Init),
            Ok(Event::InitApply(pod("a1", "a", "True"))),
            Ok(Event::InitDone),
        ];
        let (ended, log) = wait(&["a:1"], events).await;
        let lines: Vec<_> = log.lines().collect();
        assert!(ended && lines.len() == 4, "{log}");
        assert!(
            lines[0].starts_with("cannot read the pods of the gang, and tries again: ") && lines[0] == lines[2],
            "{log}"
        );
        assert_eq!([lines[1], lines[3]], ["waiting for a (0 of 1 ready)", "all parents are ready"]);
    }

    #[test]
    fn the_pods_of_few_parents_are_selected() {
        let parents = |count: usize| (0..count).map(|at| format!("x-0-{at}:1").parse().unwrap()).collect::<Vec<_>>();
        assert_eq!(selector("x-0", &parents(2)), "grove.io/podgang=x-0,grove.io/podclique in (x-0-0,x-0-1)");
        assert_eq!(selector("x-0", &parents(51)), "grove.io/podgang=x-0");
    }

    #[tokio::test]
    async fn without_parents_there_is_nothing_to_wait_for() {
        assert_eq!(wait(&[], vec![]).await, (true, "there is nothing to wait for".to_owned()));
    }
}
