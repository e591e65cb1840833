//! Lists and watches.

use super::*;

/// S2: Events are stored once and served in two forms; selectors and watches work in either.
#[test]
fn events_have_two_forms_and_one_store() {
    let mut registry = registry();
    let event = json!({
        "metadata": {"name": "a", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "source": {"component": "kubelet"},
        "reason": "Pulled", "message": "m", "type": "Normal",
    });
    create(&mut registry, &EVENT, event);
    let newer = registry.store().get(&EVENTS_EVENT, "default", "a").expect("it is there");
    assert_eq!(newer.value()["apiVersion"], "events.k8s.io/v1");
    assert_eq!(newer.text(&["regarding", "name"]), "p");
    let patch = merge(json!({"message": "changed"}));
    registry.patch(&EVENT, "default", "a", &patch, &options()).expect("it is valid");
    let newer = registry.store().get(&EVENTS_EVENT, "default", "a").expect("it is there");
    assert_eq!(newer.text(&["note"]), "changed");
    let names = |kind, fields| {
        let selector = Selector {
            fields: FieldSelector::parse(fields).expect("it parses"),
            ..Selector::default()
        };
        let list = registry.store().list(kind, &ListOptions { selector, ..ListOptions::default() });
        list.map(|list| list.items.len()).map_err(|status| status.message.clone())
    };
    assert_eq!(names(&EVENT, "involvedObject.name=p,source=kubelet"), Ok(1));
    assert_eq!(names(&EVENTS_EVENT, "regarding.name=p"), Ok(1));
    assert_eq!(names(&EVENTS_EVENT, "regarding.name=q"), Ok(0));
}

/// S6: lists are selected by labels and fields; an unsupported field is refused with upstream's
/// message.
#[test]
fn lists_are_selected() {
    let mut registry = registry();
    for name in ["a", "b", "c"] {
        create(&mut registry, &POD, pod(name));
    }
    let binding = json!({"target": {"name": "node-1"}});
    registry.bind("default", "b", &binding, &options()).expect("it is free");
    let list = |namespace: Option<&str>, labels: &str, fields: &str| {
        let selector = Selector {
            namespace: namespace.map(str::to_string),
            labels: LabelSelector::parse(labels).expect("it parses"),
            fields: FieldSelector::parse(fields).expect("it parses"),
        };
        let list = registry.store().list(&POD, &ListOptions { selector, ..ListOptions::default() });
        list.map(|list| list.items.iter().map(|pod| pod.name().to_string()).collect::<String>())
            .map_err(|status| status.message.clone())
    };
    let found = |names: &str| Ok(names.to_string());
    assert_eq!(list(None, "", ""), found("abc"));
    assert_eq!(list(Some("kube-system"), "", ""), found(""));
    assert_eq!(list(None, "app=a,!x", "metadata.name!=a"), found("bc"));
    assert_eq!(list(None, "", "spec.nodeName=node-1"), found("b"));
    assert_eq!(list(None, "", "spec.hostNetwork=false,status.podIPs="), found("abc"));
    assert_eq!(list(None, "", "spec.hostNetwork=true"), found(""));
    assert_eq!(list(Some("kube-system"), "", "spec.nodeName=node-1"), found(""));
    assert_eq!(list(None, "", "spec.nodeName="), found("ac"));
    assert_eq!(list(None, "", "status.phase=Pending"), found("abc"));
    assert_eq!(
        list(None, "app=a", "spec.color=red"),
        Err("field label not supported: spec.color".to_string())
    );
}

/// S6: the pages of a list show one state, whatever is written between them. When the log no
/// longer contains that state, the error 410 has a token for the rest of the current state.
#[test]
fn pages_show_one_snapshot() {
    let mut registry = registry();
    for name in ["a", "b", "d", "e"] {
        create(&mut registry, &POD, pod(name));
    }
    let page = |store: &Store, token: Option<String>| {
        let options = ListOptions { limit: 2, continue_token: token, ..ListOptions::default() };
        store.list(&POD, &options)
    };
    let names = |list: &List| list.items.iter().map(|pod| pod.name()).collect::<Vec<_>>().concat();
    let labels = LabelSelector::parse("app=a").expect("it parses");
    let selector = Selector { labels, ..Selector::default() };
    let selected = ListOptions { limit: 1, selector, ..ListOptions::default() };
    let selected = registry.store().list(&POD, &selected).expect("it is a list");
    assert!(selected.continue_token.is_some());
    assert_eq!(selected.remaining_item_count, None, "it is not counted what is selected");
    let first = page(registry.store(), None).expect("it is a list");
    assert_eq!((names(&first).as_str(), first.remaining_item_count), ("ab", Some(2)));
    let token = first.continue_token.clone();
    create(&mut registry, &POD, pod("c"));
    registry.delete(&POD, "default", "d", &DeleteOptions::now(), &options()).expect("it is there");
    let second = page(registry.store(), token.clone()).expect("the snapshot is kept");
    assert_eq!((names(&second).as_str(), second.continue_token), ("de", None));
    assert_eq!(second.resource_version, first.resource_version);
    let newest = registry.store().resource_version();
    registry.store_mut().compact(newest);
    let gone = page(registry.store(), token).expect_err("the window has passed");
    assert_eq!((gone.code(), gone.reason), (410, Reason::Expired));
    let token = gone.to_value()["metadata"]["continue"].as_str().map(str::to_string);
    let rest = page(registry.store(), token).expect("it goes on");
    assert_eq!(
        (names(&rest).as_str(), rest.resource_version),
        ("ce", registry.store().resource_version())
    );
    for forged in ["", "z", "zz", "é", "ff", "20", "3939393939392061"] {
        let refused = page(registry.store(), Some(forged.to_string())).expect_err("it is no token");
        assert_eq!(refused.code(), 400, "{forged}");
    }
}

/// S6: a list at a resourceVersion shows exactly that state, or one that is not older.
#[test]
fn lists_can_request_a_resource_version() {
    let mut registry = registry();
    let first = create(&mut registry, &POD, pod("a")).resource_version();
    create(&mut registry, &POD, pod("b"));
    let count = |version, matching| {
        let options = ListOptions {
            resource_version: Some(version),
            resource_version_match: matching,
            ..ListOptions::default()
        };
        registry
            .store()
            .list(&POD, &options)
            .map(|list| list.items.len())
            .map_err(|status| status.code())
    };
    assert_eq!(count(first, Some(ResourceVersionMatch::Exact)), Ok(1));
    assert_eq!(count(first, Some(ResourceVersionMatch::NotOlderThan)), Ok(2));
    assert_eq!(count(0, None), Ok(2));
    assert_eq!(count(first + 100, None), Err(504));
}

/// S7: a change depends on the watcher's selector; an object that stops matching is deleted for the
/// watcher.
#[test]
fn a_selector_determines_the_type_of_a_change() {
    let mut registry = registry();
    let start = registry.store().resource_version();
    create(&mut registry, &POD, pod("a"));
    for value in ["b", "b2", "a"] {
        let patch = merge(json!({"metadata": {"labels": {"app": value}}}));
        registry.patch(&POD, "default", "a", &patch, &options()).expect("it is valid");
    }
    registry.delete(&POD, "default", "a", &DeleteOptions::now(), &options()).expect("it is there");
    let selector = Selector {
        labels: LabelSelector::parse("app=a").expect("it parses"),
        ..Selector::default()
    };
    let changes = registry.store().changes_since(&POD, start, 100).expect("the window is open");
    let events: Vec<_> = changes
        .iter()
        .filter_map(|change| watch_event(&POD, change, &selector))
        .map(|event| (event.action, event.object.label("app").map(str::to_string)))
        .collect();
    let a = || Some("a".to_string());
    assert_eq!(
        events,
        [
            (Action::Added, a()),
            (Action::Deleted, a()),
            (Action::Added, a()),
            (Action::Deleted, a())
        ]
    );
}

/// S7, S12: the changes of all kinds have a limit in bytes: the oldest ones of the kind with the
/// most are dropped. A watcher that is older gets an error, and the others don't.
#[test]
fn the_log_is_limited_in_bytes() {
    let options = Options { log_bytes_max: 50_000, ..Options::default() };
    let mut registry = Registry::new(&options, START);
    create(&mut registry, &LEASE, json!({"metadata": {"name": "l"}}));
    let start = registry.store().resource_version();
    let mut map = config_map("m");
    map["data"]["k"] = Value::from("x".repeat(1_000));
    create(&mut registry, &CONFIG_MAP, map);
    let mut since = start;
    for n in 0..200 {
        since = registry.store().resource_version();
        let patch = merge(json!({"data": {"n": n.to_string()}}));
        registry.patch(&CONFIG_MAP, "default", "m", &patch, &self::options()).expect("valid");
    }
    let changes = |kind, since| registry.store().changes_since(kind, since, usize::MAX);
    let expired = changes(&CONFIG_MAP, start).expect_err("more than the limit");
    let kept = changes(&CONFIG_MAP, expired.oldest).expect("these are kept").len();
    // Each has the object before and after it, of some 1,300 bytes.
    assert!((15..20).contains(&kept), "{kept} changes are kept");
    assert_eq!(changes(&CONFIG_MAP, since).expect("the newest one is kept").len(), 1);
    assert_eq!(changes(&LEASE, 0).expect("few bytes are kept").len(), 1);
}

/// S8, S12: the store takes no more than its quota, in etcd's words; deletions make room.
#[test]
fn the_store_is_limited_in_bytes() {
    let options = Options { bytes_max: 10_000, ..Options::default() };
    let mut registry = Registry::new(&options, START);
    let mut create = |name: &str| {
        let mut map = config_map(name);
        map["data"]["k"] = Value::from("x".repeat(3_000));
        registry.create(&CONFIG_MAP, "default", map, &self::options()).map(drop)
    };
    assert!(create("a").is_ok());
    let refused = create("b").and_then(|()| create("c"));
    let message_of_etcd = "etcdserver: mvcc: database space exceeded";
    assert_eq!(message(refused), (500, message_of_etcd.to_string()));
    let delete = DeleteOptions::default();
    registry.delete(&CONFIG_MAP, "default", "a", &delete, &self::options()).expect("it is there");
    let mut map = config_map("d");
    map["data"]["k"] = Value::from("x".repeat(3_000));
    assert!(registry.create(&CONFIG_MAP, "default", map, &self::options()).is_ok());
}

/// S7: a watcher that is behind the window gets an error, and does not delay the others.
#[test]
fn slow_watchers_expire() {
    let mut registry = Registry::new(&Options { seed: 0, window: 3, ..Options::default() }, START);
    let start = registry.store().resource_version();
    for name in ["a", "b", "c", "d"] {
        create(&mut registry, &POD, pod(name));
    }
    assert!(registry.store().changes_since(&POD, start, 10).is_err());
    assert_eq!(
        registry.store().changes_since(&POD, start + 1, 10).map(|changes| changes.len()),
        Ok(3)
    );
    assert_eq!(
        registry.store().changes_since(&POD, start + 1, 2).map(|changes| changes.len()),
        Ok(2)
    );
}

/// S25: an object that was not written for a while is kept as bytes, and reads the same.
#[test]
fn an_object_kept_as_bytes_reads_the_same() {
    let mut registry = registry();
    let fresh = create(&mut registry, &POD, pod("a"));
    for index in 0..TREE_CHANGES + 500 {
        let patch = merge(json!({"metadata": {"labels": {"index": index.to_string()}}}));
        if index == 0 {
            create(&mut registry, &POD, pod("b"));
        }
        registry.patch(&POD, "default", "b", &patch, &options()).expect("it is valid");
    }
    let old = registry.store().find(&POD, "default", "a").expect("it is there");
    assert!(fresh.has_tree() && !old.has_tree());
    assert_eq!(old.json(), fresh.json());
    assert_eq!(old.label("app"), Some("a"));
    assert_eq!((old.name(), old.uid()), (fresh.name(), fresh.uid()));
    assert!(!old.has_tree());
    assert_eq!(old.read().as_ref(), fresh.value());
    assert!(!old.has_tree());
    assert_eq!(old.value(), fresh.value());
    assert!(old.has_tree());
}
