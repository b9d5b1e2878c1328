//! Building blocks of Grove's reconcilers. A reconciler writes to the API server only through the executor; this crate also
//! writes the events.
//!
//! Modules in reading order: a service creates its [`manager::Manager`] and builds each controller with
//! [`controller::ControllerBuilder`]; the reconciler computes a [`plan::Plan`], and the [`executor::Executor`] executes it.
//! This crate has no rule of the Grove API and depends on none of its kinds.

#![deny(missing_docs)]

pub mod controller;
pub mod manager;
pub mod predicates;
pub mod triggers;
mod work_queue_metrics;

pub mod children;
pub mod shared_informer_factory;

pub mod plan;
pub mod reconciler;

pub mod executor;

pub mod events;

pub mod conditions;
pub mod create_backoff;
pub mod create_state;
pub mod expectations;
pub mod group_kind;
pub mod json_patch;
pub mod merge_patch;
pub mod name_conflict;
pub mod orphan_deletions;
pub mod rejections;
pub mod update_in_progress;

pub mod reconcile_error;
pub mod requeue;
pub mod status_limiter;
pub mod status_patch;
pub mod status_writer;

pub mod scraped_gauge;
pub mod state_metrics;

pub mod resource_claims;
pub mod slim_pod;
pub mod template_access;
pub mod terminating_namespaces;
pub mod workload_api;
