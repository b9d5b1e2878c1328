//! Each rule of an update as a film. The files are in `docs/rehearsals/`.

use expect_test::expect_file;
use grove_rehearsal::film::Film;
use grove_rehearsal::model::Model;

fn set(replicas: i32) -> String {
    let clique = |name: &str, replicas: i32| {
        format!(
            "    - {{name: {name}, labels: {{version: a, broken: 'false'}}, spec: {{roleName: {name}, replicas: {replicas}, minAvailable: 1, podSpec: \
             {{containers: [{{name: c}}]}}}}}}\n"
        )
    };
    format!(
        "
metadata: {{name: s}}
spec:
  replicas: {replicas}
  template:
    cliques:
{}{}{}    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1}}
",
        clique("f", 2),
        clique("p", 1),
        clique("d", 1)
    )
}

fn film(title: &str, replicas: i32) -> Film {
    Film::new(title, &set(replicas)).expect("a film")
}

fn control(model: &mut Model, strategy: &str) {
    model.write(|set| set.spec.update_strategy = Some(serde_saphyr::from_str(strategy).expect("a strategy")));
}

#[test]
fn one_replica_after_the_other() {
    let mut film = film("One replica of the set after the other", 2);
    film.user("version B", |model| model.update("b", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/replicas.md"].assert_eq(film.markdown());
}

#[test]
fn a_broken_template_and_its_correction() {
    let mut film = film("A broken template, and its correction", 2);
    film.user("version B, which never becomes ready", |model| model.update("b", true));
    film.settle().unwrap();
    film.user("version C", |model| model.update("c", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/correction.md"].assert_eq(film.markdown());
}

#[test]
fn a_correction_of_a_replica_that_is_partly_available() {
    let set = set(2).replace("replicas: 2, minAvailable: 1, podSpec", "replicas: 2, minAvailable: 2, podSpec");
    let mut film =
        Film::new("A broken template, whose replica is partly available, and its correction", &set).expect("a film");
    film.user("version B, which never becomes ready", |model| model.update("b", true));
    film.settle().unwrap();
    film.user("version C", |model| model.update("c", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/partly-available.md"].assert_eq(film.markdown());
}

#[test]
fn a_change_back_in_the_middle() {
    let mut film = film("A change back in the middle of an update", 2);
    film.user("version B", |model| model.update("b", false));
    film.rounds(4);
    film.user("version A", |model| model.update("a", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/change-back.md"].assert_eq(film.markdown());
}

#[test]
fn a_canary() {
    let mut film = film("A canary: partition, then all replicas", 3);
    film.user("partition 2", |model| control(model, "{type: RollingRecreate, rollingUpdate: {partition: 2}}"));
    film.user("version B", |model| model.update("b", false));
    film.settle().unwrap();
    film.user("one replica", |model| model.write(|set| set.spec.replicas = 1));
    film.settle().unwrap();
    film.user("three replicas", |model| model.write(|set| set.spec.replicas = 3));
    film.settle().unwrap();
    film.user("partition 0", |model| control(model, "{type: RollingRecreate, rollingUpdate: {partition: 0}}"));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/canary.md"].assert_eq(film.markdown());
}

#[test]
fn a_deleted_clique() {
    let mut film = film("A PodClique that is deleted before the turn of its replica", 2);
    film.user("version B", |model| model.update("b", false));
    film.rounds(4);
    film.user("deletes f of replica 1", |model| model.delete_clique("s-1-f"));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/deleted-clique.md"].assert_eq(film.markdown());
}

#[test]
fn two_changes_within_a_moment() {
    let mut film = film("Two changes within a moment, and another in the middle of their update", 1);
    film.user("version B", |model| model.update("b", false));
    film.user("version C", |model| model.update("c", false));
    film.rounds(4);
    film.user("version D", |model| model.update("d", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/quick.md"].assert_eq(film.markdown());
}

#[test]
fn another_strategy_in_the_middle() {
    let mut film = film("OnDelete in the middle of an update", 2);
    film.user("version B", |model| model.update("b", false));
    film.rounds(5);
    film.user("OnDelete", |model| control(model, "{type: OnDelete}"));
    film.settle().unwrap();
    film.user("RollingRecreate", |model| control(model, "{type: RollingRecreate}"));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/strategy.md"].assert_eq(film.markdown());
}

#[test]
fn min_ready_seconds() {
    let mut film = film("minReadySeconds: 60", 1);
    let strategy = "{type: RollingRecreate, rollingUpdate: {minReadySeconds: 60}}";
    film.user("minReadySeconds", |model| control(model, strategy));
    film.user("version B", |model| model.update("b", false));
    for _ in 0..2 {
        film.settle().unwrap();
        film.user("a minute passes", |model| model.wait(60));
    }
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/min-ready-seconds.md"].assert_eq(film.markdown());
}

#[test]
fn a_deadline() {
    let set = set(1).replace("name: f, ", "name: f, rollingUpdate: {progressDeadline: 10m}, ");
    let mut film = Film::new("A broken template, and a progressDeadline of ten minutes", &set).expect("a film");
    film.user("version B, which never becomes ready", |model| model.update("b", true));
    film.settle().unwrap();
    film.user("ten minutes pass", |model| model.wait(600));
    film.settle().unwrap();
    film.user("version C", |model| model.update("c", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/deadline.md"].assert_eq(film.markdown());
}

#[test]
fn a_pause() {
    let mut film = film("A pause", 2);
    film.user("version B", |model| model.update("b", false));
    film.rounds(4);
    film.user("paused", |model| control(model, "{type: RollingRecreate, rollingUpdate: {paused: true}}"));
    film.settle().unwrap();
    film.user("continued", |model| control(model, "{type: RollingRecreate}"));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/pause.md"].assert_eq(film.markdown());
}

#[test]
fn on_delete() {
    let mut film = film("OnDelete: the user replaces the pods", 1);
    film.user("OnDelete", |model| control(model, "{type: OnDelete}"));
    film.user("version B", |model| model.update("b", false));
    film.settle().unwrap();
    film.user("deletes a pod", |model| {
        let name = model.pods().next().and_then(|pod| pod.metadata.name.clone()).expect("a pod");
        model.delete_pod(&name);
    });
    film.settle().unwrap();
    film.user("RollingRecreate", |model| control(model, "{type: RollingRecreate}"));
    film.settle().unwrap();
    film.user("version C", |model| model.update("c", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/on-delete.md"].assert_eq(film.markdown());
}

#[test]
fn one_clique_of_a_group() {
    let mut film = film("The template of one clique of a scaling group", 1);
    film.user("version B of clique p", |model| {
        model.write(|set| {
            set.spec.template.cliques[1].labels.insert("version".to_owned(), "b".to_owned());
        });
    });
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/group.md"].assert_eq(film.markdown());
}

#[test]
fn bounds() {
    let clique = |name: &str, fields: &str| {
        format!(
            "    - {{name: {name}, labels: {{version: a, broken: 'false'}}, {fields}, podSpec: {{containers: [{{name: c}}]}}}}}}\n"
        )
    };
    let cliques = [
        clique("a", "rollingUpdate: {maxUnavailable: 2}, spec: {roleName: a, replicas: 5, minAvailable: 1"),
        clique("b", "rollingUpdate: {maxUnavailable: 2}, spec: {roleName: b, replicas: 3, minAvailable: 2"),
        clique("c", "spec: {roleName: c, replicas: 2, minAvailable: 2"),
    ];
    let set = format!("metadata: {{name: s}}\nspec:\n  replicas: 1\n  template:\n    cliques:\n{}", cliques.concat());
    let title = "Bounds: maxUnavailable 2, with minAvailable 1 of 5 and 2 of 3; and no bounds with minAvailable 2 of 2";
    let mut film = Film::new(title, &set).expect("a film");
    film.user("version B", |model| model.update("b", false));
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/bounds.md"].assert_eq(film.markdown());
}

#[test]
fn scaling_in_the_middle() {
    let mut film = film("Scaling in the middle of an update", 2);
    film.user("version B", |model| model.update("b", false));
    film.rounds(4);
    film.user("three replicas of the set, and three pods of f in the first one", |model| {
        model.write(|set| set.spec.replicas = 3);
        model.scale("s-0-f", 3);
    });
    film.rounds(3);
    film.user("two replicas of the set, and one of group g in the first one", |model| {
        model.write(|set| set.spec.replicas = 2);
        model.scale("s-0-g", 1);
    });
    film.settle().unwrap();
    expect_file!["../../../../docs/rehearsals/scale.md"].assert_eq(film.markdown());
}
