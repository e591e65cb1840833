//! Updates of a version that the caller knows.

use super::*;

/// S5: an object that was made from a version that the caller knows replaces it only if it is the
/// newest, with the same result as an update through the API.
#[test]
fn a_known_version_is_replaced_only_if_it_is_the_newest() {
    let mut registry = registry();
    let [known, other] = ["a", "b"].map(|name| create(&mut registry, &POD, pod(name)));
    let running = |pod: &Object| {
        let mut updated = pod.value().clone();
        updated["status"] = json!({"phase": "Running"});
        // Only the status is written.
        updated["spec"]["nodeName"] = "node-1".into();
        updated
    };
    let status = Endpoint::Status;
    let updated = registry
        .update_known(&POD, status, &known, running(&known), &options())
        .expect("it is the newest version");
    let through_the_api = registry
        .update_status(&POD, "default", "b", running(&other), &options())
        .expect("it is valid");
    assert_eq!(updated.value()["status"], through_the_api.value()["status"]);
    assert_eq!(updated.value()["spec"], known.value()["spec"]);

    let stale = registry.update_known(&POD, status, &known, running(&known), &options());
    assert_eq!(stale.expect_err("it has changed").reason, Reason::Conflict);
    let now = DeleteOptions::now();
    registry.delete(&POD, "default", "a", &now, &options()).expect("it is there");
    let gone = registry.update_known(&POD, status, &updated, running(&updated), &options());
    assert_eq!(gone.expect_err("it is gone").reason, Reason::Conflict);
}
