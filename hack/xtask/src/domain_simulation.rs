//! A ComputeDomain with many daemons in this process. The daemons are those of compute-domain-daemon: each has its own client, connections,
//! watches and field manager. Only the kubelet and IMEX are simulated: a pod becomes Ready when its daemon starts IMEX.
//!
//! [`domain`] creates a domain and its pods, and [`daemon`] runs their daemons. [`observer`] reports what the API server stores, and
//! [`formation`] decides from all reports how far the domain is, and whether its invariants hold. [`kubelets`] runs the daemons of the
//! domain of a `PodCliqueSet`.

pub(crate) mod cluster;
pub(crate) mod daemon;
pub(crate) mod domain;
mod floor;
pub(crate) mod formation;
pub(crate) mod kubelets;
mod observer;
mod requests;
