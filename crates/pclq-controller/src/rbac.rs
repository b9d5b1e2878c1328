//! What pclq-controller may do, and why.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::core::v1::Pod;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<Rule> {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    vec![
        Rule::on::<PodClique>(&[Get, List, Watch], "what it reconciles; get confirms that an owner is gone"),
        Rule::on::<PodClique>(&[Patch], "what it says about them").status(),
        Rule::on::<PodClique>(&[Update], "pods block the deletion of their owner").subresource("finalizers").implied(),
        Rule::on::<Pod>(
            &[Get, List, Watch, Create, Patch, Delete],
            "its children; get tells whose pod has a wanted name, patch gives lost owners and labels back",
        ),
        Rule::on::<PodGang>(&[List, Watch, Patch], "patch writes the podReferences of a clique's own group"),
        Rule::lease(),
        Rule::events(),
    ]
}
