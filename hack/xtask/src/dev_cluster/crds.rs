//! Applies the CRDs of a dev cluster, if they are not as an earlier `up` applied them: the API server compiles the rules of a CRD for each
//! request, also if nothing changes, which takes more processor time than all other manifests.

use crate::{objects, workspace};
use anyhow::{Context, Result};
use grove_dev_harness::state_file;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file with the [`Version`] of each CRD after its apply, by the hash of its manifest.
pub(super) const APPLIED: &str = "crds.json";

/// A CRD whose `spec` nothing has changed has the same version.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
struct Version {
    name: String,
    uid: Option<String>,
    generation: Option<i64>,
}

/// Applies the CRDs of Grove, and those in `files`, and waits until the API server serves them. `dir` is the folder of the dev cluster.
pub(super) async fn apply(client: &Client, dir: &Path, files: &[PathBuf]) -> Result<()> {
    let mut manifests = workspace::kustomization(&workspace::root().join("crds"))?;
    for file in files {
        manifests += &std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        manifests += workspace::NEXT_MANIFEST;
    }
    let state = dir.join(APPLIED);
    let mut applied: BTreeMap<String, Version> = state_file::read(&state)?;
    let live = versions(client).await?;
    applied.retain(|_, version| live.contains(version));
    let is_outdated = |manifest: &&str| !applied.contains_key(&hash(manifest));
    let outdated: Vec<_> = objects::documents(&manifests).filter(is_outdated).collect();
    if outdated.is_empty() {
        return Ok(());
    }
    let names = objects::apply(client, &outdated.join(workspace::NEXT_MANIFEST)).await?;
    objects::wait_until_established(client, &names).await?;
    let live = versions(client).await?;
    applied.extend(outdated.iter().zip(names).filter_map(|(manifest, name)| {
        Some((hash(manifest), live.iter().find(|version| version.name == name)?.clone()))
    }));
    workspace::write_private(&state, &serde_json::to_string_pretty(&applied)?)
}

/// The versions of all CRDs of the cluster.
async fn versions(client: &Client) -> Result<Vec<Version>> {
    let listed = Api::<CustomResourceDefinition>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    let version = |crd: kube::core::PartialObjectMeta<_>| Version {
        name: crd.name_any(),
        uid: crd.uid(),
        generation: crd.metadata.generation,
    };
    Ok(listed.items.into_iter().map(version).collect())
}

fn hash(manifest: &str) -> String {
    workspace::hex(&Sha256::digest(manifest)[..16])
}
