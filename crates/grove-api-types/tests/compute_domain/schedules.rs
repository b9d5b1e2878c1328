//! All schedules of a few daemons up to a depth: the order in which watches deliver, tasks run and requests arrive, with a crash, a lost
//! response, a replaced pod or a deleted object at any point.

use std::collections::BTreeSet;

use grove_api_types::compute_domain::entry::{Entry, Readiness, has_duplicate_index};
use grove_api_types::compute_domain::strategy::Strategy;

use super::world::{Step, World};

/// The steps after which every schedule has ended if nothing repeats for ever.
const MANY_STEPS: usize = 2_000;

/// The number of steps of each schedule after the daemons have joined.
const DEPTH: usize = 6;
/// The numbers of daemons and steps with [`Strategy::ControllerClique`]. The first schedule in which two daemons could start with one
/// index needs eleven steps.
const WITH_CONTROLLER: [(usize, usize); 2] = [(2, 11), (3, DEPTH)];

/// So many steps are needed until a daemon has started with an index that an old cache would take from it.
const DEPTH_WITH_OLD_CACHE: usize = 9;

/// What the schedules of a strategy have reached.
#[derive(Debug, Default)]
struct Explored {
    worlds: usize,
    /// The worlds in which two entries have the same index.
    with_duplicates: usize,
    /// The worlds after the last step.
    last: Vec<World>,
}

/// Daemons that have joined the object of the clique, if their strategy does that.
fn joined(strategy: Strategy, disturbances: usize) -> World {
    let mut world = World::new(strategy, 3, disturbances);
    if !strategy.has_cliques() {
        return world;
    }
    while let Some(step) = world.steps().into_iter().find(|step| matches!(step, Step::Execute(_))) {
        world.take(step);
    }
    world
}

/// Takes every possible schedule of `depth` steps. `check` sees each world that they reach.
fn explore(start: World, depth: usize, check: impl Fn(&World)) -> Explored {
    let mut explored = Explored { last: vec![start], ..Explored::default() };
    let mut known = BTreeSet::new();
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &explored.last {
            for step in world.steps() {
                let mut world = world.clone();
                world.take(step);
                if known.insert(world.hash()) {
                    check(&world);
                    explored.worlds += 1;
                    explored.with_duplicates += usize::from(has_duplicate_index(world.server.entries()));
                    next.push(world);
                }
            }
        }
        explored.last = next;
    }
    explored
}

/// Lets one actor after the other take all its steps, without further disturbances, until nothing is left to do.
fn finish(mut world: World) -> World {
    for _ in 0..MANY_STEPS {
        let Some(step) = world.next_step() else { return world };
        world.take(step);
    }
    panic!("the daemons did not converge: {:?}", world.server.entries());
}

/// Never: two processes of IMEX with the same index, or one that starts again because its index has changed.
fn assert_indices_of_imex(world: &World) {
    let mut indices: Vec<_> =
        world.nodes.iter().filter_map(|node| Some(node.daemon.state.imex.as_ref()?.index)).collect();
    indices.sort_unstable();
    let count = indices.len();
    indices.dedup();
    assert_eq!(indices.len(), count, "two processes of IMEX have one index: {world:#?}");
    assert_eq!(world.restarts, 0, "the index of a process changed: {world:#?}");
}

/// At the end, the indices are dense, all daemons are ready, and IMEX knows the same peers everywhere.
fn assert_converged(world: &World) {
    let mut indices: Vec<_> = world.server.entries().iter().map(|entry| entry.index).collect();
    indices.sort_unstable();
    let dense: Vec<_> = (0..i64::try_from(world.nodes.len()).unwrap()).collect();
    assert_eq!(indices, dense, "{world:#?}");
    let are_ready = world.server.entries().iter().all(|entry| entry.status == Readiness::Ready);
    assert!(are_ready, "{world:#?}");
    let mut entries = world.server.entries().to_vec();
    entries.sort_by_key(|entry| entry.index);
    let addresses =
        |entries: &[Entry]| -> Vec<_> { entries.iter().map(|entry| (entry.index, entry.ip_address.clone())).collect() };
    for node in &world.nodes {
        let imex = node.daemon.state.imex.as_ref().expect("a started process");
        assert_eq!(addresses(&imex.peers), addresses(&entries), "{world:#?}");
    }
}

/// In each schedule, no two entries have one index at any time, and the daemons converge in the end.
fn assert_unique_indices(start: World, depth: usize) {
    let explored = explore(start, depth, |world| {
        assert!(!has_duplicate_index(world.server.entries()), "{world:#?}");
        assert_indices_of_imex(world);
    });
    println!("{depth} steps: {} worlds", explored.worlds);
    for world in explored.last {
        assert_converged(&finish(world));
    }
}

#[test]
fn with_read_modify_write_no_schedule_stores_an_index_twice() {
    for strategy in [Strategy::RmwStatus, Strategy::RmwClique] {
        assert_unique_indices(joined(strategy, 1), DEPTH);
    }
}

/// The entries have other indices than those that mnnvl-controller would assign to the same pods now.
#[test]
fn with_the_controller_as_only_writer_no_schedule_stores_an_index_twice() {
    for (daemons, depth) in WITH_CONTROLLER {
        assert_unique_indices(World::with_late_nodes_first(daemons, 1), depth);
    }
}

/// A live LIST contained the second pod, which the cached pods lack. The daemon may have started IMEX with its index before
/// mnnvl-controller knows it.
#[test]
fn with_the_controller_as_only_writer_an_old_cache_removes_no_entry() {
    let explored = explore(World::with_old_cache(), DEPTH_WITH_OLD_CACHE, assert_indices_of_imex);
    println!("{} worlds", explored.worlds);
    for world in explored.last {
        let world = finish(world);
        assert_indices_of_imex(&world);
        assert_eq!(world.server.entries().iter().map(|entry| entry.index).collect::<Vec<_>>(), [0, 2], "{world:#?}");
    }
}

#[test]
fn with_server_side_apply_indices_collide_until_the_daemons_run_one_after_the_other() {
    // A daemon of a clique has joined it before it registers, so its schedules are longer.
    for (strategy, depth) in [(Strategy::SsaStatus, DEPTH - 1), (Strategy::SsaClique, DEPTH)] {
        let explored = explore(joined(strategy, 1), depth, assert_indices_of_imex);
        println!("{strategy:?}: {} worlds, {} with a duplicate", explored.worlds, explored.with_duplicates);
        assert!(explored.with_duplicates > 0);
        for world in explored.last {
            assert_converged(&finish(world));
        }
    }
}

/// All daemons do the same at the same time: they read the newest version, then decide, then write.
fn round(world: &mut World) {
    while let Some(step) =
        world.steps().into_iter().find(|step| matches!(step, Step::DeliverObject(_) | Step::DeliverPod(_)))
    {
        world.take(step);
    }
    let phases: [fn(&Step) -> bool; 2] =
        [|step| matches!(step, Step::Run(..)), |step| matches!(step, Step::Execute(_))];
    for is_of_phase in phases {
        let steps: Vec<_> = world.steps().into_iter().filter(is_of_phase).collect();
        for step in steps {
            world.take(step);
        }
    }
}

#[test]
fn with_server_side_apply_daemons_in_step_choose_the_same_index_for_ever() {
    for strategy in [Strategy::SsaStatus, Strategy::SsaClique] {
        let mut world = World::new(strategy, 4, 0);
        let mut indices = Vec::new();
        for _ in 0..40 {
            round(&mut world);
            indices.push(world.server.entries().iter().map(|entry| entry.index).collect::<Vec<_>>());
        }
        // The first daemon reads its entry before the others have written theirs. The others repeat their choices for ever.
        let has_started = |number: usize| world.nodes[number].daemon.state.imex.is_some();
        assert_eq!([0, 1, 2, 3].map(has_started), [true, false, false, false]);
        let last = &indices[indices.len() - 1];
        assert!(indices.iter().filter(|indices| *indices == last).count() > 5, "{indices:?}");
    }
}

#[test]
fn with_the_other_strategies_daemons_in_step_converge() {
    for strategy in [Strategy::RmwStatus, Strategy::RmwClique] {
        let mut world = World::new(strategy, 3, 0);
        for _ in 0..20 {
            round(&mut world);
        }
        assert_converged(&finish(world));
    }
}

#[test]
fn with_server_side_apply_two_started_daemons_that_lost_their_entries_keep_one_index() {
    for strategy in [Strategy::SsaStatus, Strategy::SsaClique] {
        let mut world = finish(World::new(strategy, 2, 0));
        assert_converged(&world);
        world.server.replace(Vec::new());
        for _ in 0..4 {
            round(&mut world);
        }
        let world = finish(world);
        assert!(has_duplicate_index(world.server.entries()), "{:?}", world.server.entries());
    }
}

#[test]
fn with_the_controller_as_only_writer_a_deleted_object_returns_with_the_same_indices() {
    let mut world = finish(World::new(Strategy::ControllerClique, 3, 1));
    let entries = world.server.entries().to_vec();
    world.take(Step::DeleteClique);
    let world = finish(world);
    assert_eq!(world.server.entries(), entries);
    assert_indices_of_imex(&world);
}
