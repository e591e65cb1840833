//! A resource that the server may lack, or refuse to list.

use super::*;

/// G4: a resource that is not installed is an empty list at once; it is asked for again after a
/// pause, and its objects count when it is there.
#[tokio::test]
async fn a_resource_that_is_not_installed_is_looked_for_again() {
    let mut watch = start([Answer::status(404), list_of("a")]).await;
    assert_eq!(watch.list().await, (Vec::new(), 0));
    assert_eq!(watch.list().await.0, ["a"]);
    assert_eq!(watch.script.requests()[..2], ["stream", "stream"]);
    let requests = watch.script.requests.lock().unwrap().clone();
    assert!(requests[1].0 - requests[0].0 >= Duration::from_secs(2), "{requests:?}");
}

/// G4: a missing right counts as a resource that is not there, but only after several refusals: a
/// server that has just started may refuse what it allows later.
#[tokio::test]
async fn a_missing_right_counts_after_several_refusals() {
    let refused = || Answer::status(403);
    let mut soon = start([refused(), refused(), list_of("a")]).await;
    let refusals = [refused(), refused(), refused(), refused(), refused(), list_of("b")];
    let mut late = start(refusals).await;
    assert_eq!(soon.list().await.0, ["a"], "no other list is reported before");
    assert_eq!(late.list().await, (Vec::new(), 0));
    assert_eq!(late.list().await.0, ["b"]);
}

/// G4, G7: objects that are known count on while the right to list them is missing; they end with
/// their definition.
#[tokio::test]
async fn known_objects_end_with_their_definition_only() {
    let list = Answer { stays_open: false, ..list_of("a") };
    let mut watch = start([list, Answer::status(403), Answer::status(404), list_of("b")]).await;
    assert_eq!(watch.list().await.0, ["a"]);
    assert_eq!(watch.list().await, (Vec::new(), 0));
    assert_eq!(watch.script.requests()[..3], ["stream", "watch 5", "page"]);
    assert_eq!(watch.list().await.0, ["b"]);
}

async fn start(answers: impl IntoIterator<Item = Answer>) -> TestWatch<RevisionObject> {
    TestWatch::start_as(true, Revisions::default(), answers).await
}

/// A streaming list with one object, and a watch that stays open.
fn list_of(name: &str) -> Answer {
    Answer::open(line("ADDED", &revision(name, 5)) + &end(5))
}
