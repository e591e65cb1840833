//! Runs the tables in `tests/admission/`: each case edits a base object, decodes, defaults and
//! validates it as the server does, and compares the result with the text below the case.
//! `UPDATE_EXPECT=1` writes the results into the tables.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use everynode_core::api::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::json::{Value, json};
use crate::kind::Kind;
use crate::kinds::BUILT_IN;
use crate::{defaults, printer, validation};

/// The request that a case makes with its object.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Create,
    Update,
    UpdateStatus,
}

struct Case {
    /// The lines of the case in the table, up to its result.
    text: String,
    verb: Verb,
    base: String,
    edits: Vec<(String, Value)>,
    expected: String,
}

/// S9: every case of the tables has exactly the result or the errors in the table.
#[test]
fn validation_matches_the_tables() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/admission");
    let mut cases_total = 0;
    let mut wrong = String::new();
    for name in [
        "daemon_set",
        "pod_spec",
        "containers",
        "volumes",
        "scheduling",
        "pod",
        "node",
        "simple",
        "roles",
    ] {
        let path = folder.join(format!("{name}.txt"));
        let table = fs::read_to_string(&path).expect("the table is there");
        let (head, cases) = parse(&table);
        cases_total += cases.len();
        let mut updated = head;
        for case in &cases {
            let actual = run(case);
            if actual != case.expected {
                writeln!(wrong, "{name}: {}got:\n{actual}wanted:\n{}", case.text, case.expected)
                    .expect("a String");
            }
            write!(updated, "\n{}----\n{actual}", case.text).expect("a String");
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, updated).expect("the table can be written");
        }
    }
    assert!(wrong.is_empty() || std::env::var_os("UPDATE_EXPECT").is_some(), "\n{wrong}");
    assert!(cases_total >= 60, "{cases_total} cases");
}

/// S4: discouraged fields cause upstream's warnings, unless they were there before.
#[test]
fn templates_warn_about_deprecated_and_ambiguous_fields() {
    let (_, mut object) = bases().swap_remove(0);
    for (pointer, value) in [
        (
            "/spec/template/metadata/annotations",
            json!({"scheduler.alpha.kubernetes.io/critical-pod": ""}),
        ),
        ("/spec/template/spec/nodeSelector", json!({"beta.kubernetes.io/os": "linux"})),
        ("/spec/template/spec/volumes", json!([{"name": "g", "gitRepo": {"repository": "x"}}])),
        ("/spec/template/spec/topologySpreadConstraints", json!([{"topologyKey": "zone"}])),
        (
            "/spec/template/spec/containers/0/env",
            json!([
                {"name": "A", "value": "1"},
                {"name": "A", "value": "$(A)2"},
                {"name": "A", "value": "3"},
            ]),
        ),
        ("/spec/template/spec/containers/0/resources", json!({"requests": {"memory": "0.5"}})),
        (
            "/spec/template/spec/containers/0/ports",
            json!([
                {"containerPort": 80},
                {"containerPort": 80},
                {"containerPort": 80, "hostPort": 80},
            ]),
        ),
    ] {
        edit(&mut object, pointer, &value);
    }
    let kind = kind_of(&object);
    defaults::apply(kind, &mut object);
    let container = "spec.template.spec.containers[0]";
    let expected = [
        "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \
         \"kubernetes.io/os\" instead"
            .to_owned(),
        "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector \
         results in matching no pod"
            .to_owned(),
        "spec.template.metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: \
         non-functional in v1.16+; use the \"priorityClassName\" field instead"
            .to_owned(),
        "spec.template.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in \
         v1.33+"
            .to_owned(),
        format!(
            "{container}.resources.requests[memory]: fractional byte value \"500m\" is \
            invalid, must be an integer"
        ),
        format!(
            "{container}.env[2]: hides previous definition of \"A\", which may be dropped when \
            using apply"
        ),
        format!("{container}.ports[1]: duplicate port definition with {container}.ports[0]"),
        format!("{container}.ports[2]: overlapping port definition with {container}.ports[0]"),
        format!("{container}.ports[2]: overlapping port definition with {container}.ports[1]"),
    ];
    assert_eq!(validation::warnings(kind, &object, None), expected);
    assert_eq!(validation::warnings(kind, &object, Some(&object)), Vec::<String>::new());
}

/// S9: defaulting is idempotent, so that an object can be written back unchanged.
#[test]
fn defaults_applied_twice_are_the_defaults_applied_once() {
    for (_, base) in bases() {
        let kind = kind_of(&base);
        let mut once = base;
        defaults::apply(kind, &mut once);
        let mut twice = once.clone();
        defaults::apply(kind, &mut twice);
        assert_eq!(once, twice, "{}", kind.kind);
        assert_eq!(validation::on_create(kind, &once), vec![], "{}", kind.kind);
    }
}

/// Any small JSON value, with meaningful strings.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-a-z0-9./%=]{0,70}".prop_map(Value::from),
        ".{0,10}".prop_map(Value::from),
        prop::sample::select(vec![
            "Always",
            "In",
            "Exists",
            "NoExecute",
            "1Gi",
            "-1",
            "101%",
            "RollingUpdate",
            "default"
        ])
        .prop_map(Value::from),
    ];
    let field = prop::sample::select(vec![
        "name",
        "key",
        "value",
        "operator",
        "values",
        "effect",
        "spec",
        "metadata",
        "labels",
        "containers",
        "ports",
        "emptyDir",
        "projected",
        "sources",
        "httpGet",
        "limits",
        "requests",
        "cpu",
        "matchLabels",
        "template",
    ]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The JSON pointers to all values of a tree.
fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| pointers(item, &format!("{path}/{index}"), found));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                pointers(field, &format!("{path}/{}", name.replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

proptest! {
    /// S9: any object is decoded or refused, defaulted, validated and printed without a panic, and
    /// defaulting it again changes nothing.
    #[test]
    fn arbitrary_objects_do_not_panic(
        base in any::<Index>(),
        edits in prop::collection::vec((any::<Index>(), any_json()), 1..4),
    ) {
        let bases = bases();
        let (_, original) = &bases[base.index(bases.len())];
        let kind = kind_of(original);
        let mut old = original.clone();
        defaults::apply(kind, &mut old);
        let mut new = old.clone();
        for (place, value) in edits {
            let mut found = Vec::new();
            pointers(&new, "", &mut found);
            *new.pointer_mut(&found[place.index(found.len())]).expect("it was just found") = value;
        }
        let decoded = validation::decode(kind, &new).is_ok();
        validation::unknown_fields(kind, &new);
        printer::cells(kind, &new, Timestamp::from_seconds(0));
        defaults::apply(kind, &mut new);
        validation::on_create(kind, &new);
        validation::warnings(kind, &new, None);
        validation::on_update(kind, &new, &old);
        validation::on_update(kind, &old, &new);
        validation::on_status_update(kind, &new, &old);
        if decoded {
            let once = new.clone();
            defaults::apply(kind, &mut new);
            prop_assert_eq!(once, new);
        }
    }
}

/// Cases are separated by empty lines; the lines before the first one are the head.
fn parse(table: &str) -> (String, Vec<Case>) {
    let (head, rest) = table.split_once("\n\n").expect("a head, and cases");
    let cases = rest.split("\n\n").map(|block| parse_case(block.trim_end())).collect();
    (format!("{head}\n"), cases)
}

fn parse_case(block: &str) -> Case {
    let (text, expected) = block.split_once("\n----").unwrap_or((block, ""));
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let (verb, base) =
        lines.next().and_then(|line| line.split_once(' ')).expect("a verb and a base");
    let verb = match verb {
        "create" => Verb::Create,
        "update" => Verb::Update,
        "status" => Verb::UpdateStatus,
        other => panic!("no verb: {other}"),
    };
    let edits = lines
        .map(|line| {
            let (pointer, value) =
                line.split_once(": ").unwrap_or_else(|| panic!("no edit: {line}"));
            (
                pointer.to_owned(),
                serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}")),
            )
        })
        .collect();
    let expected = match expected.trim_start() {
        "" => String::new(),
        lines => format!("{}\n", lines.trim_end()),
    };
    Case { text: format!("{text}\n"), verb, base: base.to_owned(), edits, expected }
}

fn run(case: &Case) -> String {
    let bases = bases();
    let (_, base) = bases.iter().find(|(name, _)| *name == case.base).expect("the base is known");
    let kind = kind_of(base);
    let mut old = base.clone();
    defaults::apply(kind, &mut old);
    let mut new = if case.verb == Verb::Create { base.clone() } else { old.clone() };
    for (pointer, value) in &case.edits {
        // A pointer that starts with "old" edits the stored object and the one in the request.
        if let Some(pointer) = pointer.strip_prefix("old") {
            edit(&mut old, pointer, value);
            edit(&mut new, pointer, value);
        } else {
            edit(&mut new, pointer, value);
        }
    }
    if let Err(error) = validation::decode(kind, &new) {
        return format!("400 {error}\n");
    }
    let unknown = validation::unknown_fields(kind, &new);
    if !unknown.is_empty() {
        return format!("400 {}\n", validation::DecodeError::strict(kind, &unknown));
    }
    defaults::apply(kind, &mut new);
    let causes = match case.verb {
        Verb::Create => validation::on_create(kind, &new),
        Verb::Update => validation::on_update(kind, &new, &old),
        Verb::UpdateStatus => validation::on_status_update(kind, &new, &old),
    };
    if causes.is_empty() {
        return "ok\n".to_owned();
    }
    causes
        .iter()
        .map(|cause| format!("{} {}: {}\n", cause.reason.as_str(), cause.field, cause.message))
        .collect()
}

/// Sets `value` at `pointer` and creates missing parents; null removes.
fn edit(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    let mut place = object;
    for step in parent.split('/').skip(1) {
        let step = step.replace("~1", "/");
        place = match place {
            Value::Array(items) => &mut items[step.parse::<usize>().expect("an index")],
            other => &mut other[step.as_str()],
        };
    }
    let last = last.replace("~1", "/");
    match place {
        Value::Array(items) => {
            let index: usize = last.parse().expect("an index");
            if index < items.len() {
                items[index] = value.clone()
            } else {
                items.push(value.clone())
            }
        }
        other if value.is_null() => {
            other.as_object_mut().expect("an object").remove(&last);
        }
        other => other[last.as_str()] = value.clone(),
    }
}

fn kind_of(object: &Value) -> &'static Kind {
    let (api_version, name) = (object["apiVersion"].as_str(), object["kind"].as_str());
    BUILT_IN
        .iter()
        .find(|kind| Some(kind.api_version().as_str()) == api_version && Some(kind.kind) == name)
        .expect("the kind is served")
}

/// The valid objects that cases edit.
fn bases() -> Vec<(&'static str, Value)> {
    let template = json!({
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent", "image": "registry.example.com/agent:1.0"}]},
    });
    let meta = json!({"name": "agent", "namespace": "default", "resourceVersion": "1"});
    let object = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": meta});
        for (name, value) in rest.as_object().expect("fields") {
            object[name] = value.clone();
        }
        object
    };
    let cluster_meta = json!({"name": "agent", "resourceVersion": "1"});
    let mut bases = vec![
        (
            "DaemonSet",
            object(
                "apps/v1",
                "DaemonSet",
                json!({"spec": {
                    "selector": {"matchLabels": {"app": "agent"}},
                    "template": template,
                }}),
            ),
        ),
        ("Pod", object("v1", "Pod", json!({"spec": template["spec"]}))),
        ("Node", object("v1", "Node", json!({"metadata": cluster_meta}))),
        ("Namespace", object("v1", "Namespace", json!({"metadata": cluster_meta}))),
        ("ConfigMap", object("v1", "ConfigMap", json!({"data": {"key": "value"}}))),
        ("Secret", object("v1", "Secret", json!({"data": {"key": "dmFsdWU="}}))),
        ("ServiceAccount", object("v1", "ServiceAccount", json!({}))),
        (
            "ControllerRevision",
            object("apps/v1", "ControllerRevision", json!({"data": {"spec": {}}, "revision": 1})),
        ),
        ("Lease", object("coordination.k8s.io/v1", "Lease", json!({"spec": {}}))),
        (
            "Event",
            object(
                "v1",
                "Event",
                json!({
                    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "agent-1"},
                }),
            ),
        ),
        (
            "NewEvent",
            object(
                "events.k8s.io/v1",
                "Event",
                json!({
                    "eventTime": "2026-01-01T00:00:00.000000Z",
                    "reportingController": "example.com/agent",
                    "reportingInstance": "agent-1",
                    "action": "Test",
                    "reason": "Testing",
                    "type": "Normal",
                    "regarding": {"kind": "Pod", "namespace": "default", "name": "agent-1"},
                }),
            ),
        ),
    ];
    bases.extend(role_bases());
    bases
}

fn role_bases() -> [(&'static str, Value); 4] {
    let base = |kind: &'static str, role: &str| {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "agent", "resourceVersion": "1"},
        });
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = "default".into();
        }
        if !role.is_empty() {
            object["roleRef"] = json!({"kind": role, "name": "r"});
        }
        (kind, object)
    };
    [
        base("ClusterRole", ""),
        base("Role", ""),
        base("ClusterRoleBinding", "ClusterRole"),
        base("RoleBinding", "Role"),
    ]
}
