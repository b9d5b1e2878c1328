//! The steps that change or delete an existing object: how they are sent, and what the responses mean.

use grove_api_types::ownership::is_adoptable;
use grove_runtime::api_error::ApiError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::{Executor, execution_result::Effect, requests};
use crate::plan::{Adopt, Delete, Patch, PatchBody};

impl Executor {
    pub(super) async fn patch(&self, Patch { target, change }: &Patch) -> Result<Effect, ApiError> {
        let patched = self.write("patch", target, async {
            requests::patch(&self.client, target, change).await.map(|()| Effect::Applied)
        });
        match patched.await {
            // Another client changed the object first. The watch event of its write triggers the next reconcile.
            Err(error) if is_superseded(&error, change) => Ok(Effect::Superseded),
            other => other,
        }
    }

    pub(super) async fn delete(&self, delete: &Delete) -> Result<Effect, ApiError> {
        let deleted = self.write("delete", &delete.target, async {
            requests::delete(&self.client, delete).await.map(|()| Effect::Applied)
        });
        match deleted.await {
            // The object has changed and may have lost its owner, or the name belongs to another object now.
            Err(error) if error.code == 409 && delete.resource_version.is_some() => Ok(Effect::ChangedBeforeDelete),
            // The object was deleted, or the name belongs to another object now.
            Err(error) if matches!(error.code, 404 | 409) => Ok(Effect::Superseded),
            other => other,
        }
    }

    // Two live GETs instead of the cache: a terminating owner may have released its children intentionally, and an object that
    // changes all the time would hardly ever have the observed resourceVersion.
    pub(super) async fn adopt(&self, Adopt { target, owner, reference }: &Adopt) -> Result<Effect, ApiError> {
        let (owning, live) = (self.live_meta(owner).await?, self.live_meta(target).await?);
        let may_adopt = |owning: ObjectMeta| owning.uid == owner.uid && owning.deletion_timestamp.is_none();
        let live = live.filter(|live| live.uid == target.uid && is_adoptable(live) && owning.is_some_and(may_adopt));
        let Some(metadata) = live else { return Ok(Effect::Superseded) };
        let others = metadata.owner_references.into_iter().flatten();
        let others = others.filter(|other| reference.iter().all(|ours| ours.uid != other.uid));
        let references: Vec<_> = others.chain(reference.iter().cloned()).collect();
        let change = json!({ "metadata": {
            "uid": metadata.uid, "resourceVersion": metadata.resource_version, "ownerReferences": references,
        } });
        let patch = Patch { target: target.clone(), change: PatchBody::Merge(change.into()) };
        self.patch(&patch).await
    }
}

/// Whether the API server rejected the patch because the object was deleted, or because an observed value that the patch tests has
/// changed.
pub(super) fn is_superseded(error: &ApiError, change: &PatchBody) -> bool {
    let has_test = match change {
        PatchBody::Json(patch) => {
            patch.0.iter().any(|operation| matches!(operation, json_patch::PatchOperation::Test(_)))
        }
        PatchBody::Merge(_) => false,
    };
    matches!(error.code, 404 | 409) || (error.is_failed_test && has_test)
}
