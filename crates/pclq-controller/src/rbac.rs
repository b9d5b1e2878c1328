//! The permissions of pclq-controller, each with its reason.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::core::v1::Pod;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<Rule> {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    vec![
        Rule::on::<PodClique>(&[Get, List, Watch], "reconcile the cliques; get confirms their deletion"),
        Rule::on::<PodClique>(&[Patch], "update the status").status(),
        Rule::on::<PodClique>(&[Update], "create pods that block the deletion of their clique")
            .subresource("finalizers")
            .implied(),
        Rule::on::<Pod>(
            &[Get, List, Watch, Create, Patch, Delete],
            "create, update and delete the pods of a clique; get reads the owner of a pod whose name conflicts",
        ),
        Rule::on::<PodGang>(&[List, Watch, Patch], "patch the pod references in the pod group of a clique"),
        Rule::lease(),
        Rule::events(),
    ]
}
