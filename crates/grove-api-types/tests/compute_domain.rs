//! The state of compute domains: summaries, stale entries, the requests of each strategy, and all schedules of a few daemons.

mod crds;
mod daemons;
mod model_server;
mod requests;
mod schedules;
mod summary;
mod world;
