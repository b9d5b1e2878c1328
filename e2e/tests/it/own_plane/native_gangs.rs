//! What `nativeGangs` says of Kubernetes' own gangs: sets yield the same with `off` as with `auto`, which the shared plane's
//! services are told.

use e2e::{Namespace, Plane};

use crate::it::composition::{NAMESPACE, yields_exactly_these_objects};

#[tokio::test(flavor = "multi_thread")]
async fn native_gangs_act_as_off() {
    let file = Plane::shared().dir().join("native-gangs.yaml");
    let written = include_str!("../../../configuration.yaml").replace("nativeGangs: auto", "nativeGangs: 'off'");
    assert!(written.contains("'off'"), "{written}");
    std::fs::write(&file, written).expect("the configuration is written");
    let plane = Plane::own_with("native-gangs", &["--config", &file.display().to_string()]).await;
    yields_exactly_these_objects(&Namespace::create(&plane.client().await, NAMESPACE).await).await;
    plane.down().await;
}
