//! Runs the command for a small API.

use serde_json::json;

use super::*;

const META: &str = r#"
package v1

import "k8s.io/apimachinery/pkg/types"

// TypeMeta names the type.
type TypeMeta struct {
	Kind string `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind"`
	APIVersion string `json:"apiVersion,omitempty" protobuf:"bytes,2,opt,name=apiVersion"`
}

type ObjectMeta struct {
	UID types.UID `json:"uid,omitempty" protobuf:"bytes,5,opt,name=uid"`
}

// Time has methods.
type Time struct {
	time.Time `protobuf:"-"`
}
"#;

const APPS: &str = r#"/*
A licence.
*/

package v1

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Fast is the default.
	Fast Pace = "fast"
)

// +genclient

// Job runs once.
// TODO: say more.
//
// It has a second paragraph, with
//   - a list
type Job struct {
	v1.TypeMeta `json:",inline"`
	// +optional
	v1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Spec          JobSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"` // not a description
}

type Pace string

// +protobuf.nullable=true
type Extra []string

type Limits map[Pace]int64

type Common struct {
	/*
	   Gone bool `json:"gone"`
	*/
	Finished *v1.Time `json:"finished,omitempty" protobuf:"bytes,1,opt,name=finished"`
}

// +structType=atomic
type Step struct {
	// ---
	// Not for readers.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	Secret []byte `json:"-"`
}

type JobSpec struct {
	Common `json:",inline" protobuf:"bytes,9,opt,name=common"`
	// +default=ref(Fast)
	Pace *Pace `json:"pace" protobuf:"bytes,8,opt,name=pace"`
	// +required
	// +default=3
	Tries int32 `json:"tries,omitempty" protobuf:"varint,1,opt,name=tries"`
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	// +listMapKey=pace
	Steps []Step `json:"steps,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=steps"`
	// +listType=set
	Names []string `json:"names,omitempty" patchStrategy:"merge" protobuf:"bytes,3,rep,name=names"`
	// +mapType=atomic
	Limits Limits `json:"limits,omitempty" protobuf:"bytes,4,rep,name=limits"`
	Extras map[string]Extra `json:"extras,omitempty" protobuf:"bytes,5,rep,name=extras"`
	Data []byte `json:"data,omitempty" protobuf:"bytes,6,opt,name=data"`
	Ready bool `json:"ready" protobuf:"varint,7,opt,name=ready"`
}
"#;

const TYPES: &str = "package types\n\ntype UID string\n";

/// A repository and the modules; in the module `api` one text is replaced by another.
fn folder(from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("modules/api/apps/v1/types.go", &*APPS.replace(from, to)),
        ("modules/apimachinery/pkg/apis/meta/v1/types.go", META),
        ("modules/apimachinery/pkg/types/uid.go", TYPES),
        (ROOTS, "# A comment.\napps/v1: Job\n"),
    ];
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn write_in(folder: &tempfile::TempDir) -> anyhow::Result<Vec<String>> {
    write(folder.path(), "v1.37.0", folder.path().join("modules").to_str().unwrap())
}

#[test]
fn the_table_has_the_types_that_the_roots_refer_to() {
    let folder = folder("", "");
    write_in(&folder).unwrap();
    let table = std::fs::read_to_string(folder.path().join(TABLE)).unwrap();
    assert!(table.starts_with("# Kubernetes v1.37.0\n"), "{table}");
    let rows: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let spec = [
        "apps.v1.JobSpec: 1 tries? int32 =3",
        "2 steps? *apps.v1.Step merge:name keys:name+pace",
        "3 names? *string merge",
        "4 limits? %int64 atomic",
        "5 extras? %apps.v1.Extra",
        "6 data? bytes",
        "7 ready! bool",
        "8 pace!^ string:v1.Pace =fast",
        "9 - apps.v1.Common",
    ];
    assert_eq!(
        rows,
        [
            "apps.v1.Common: 1 finished time",
            "apps.v1.Extra: 1 items *string",
            "apps.v1.Job: 0 apiVersion? string, 0 kind? string, 1 metadata! meta.ObjectMeta, \
             2 spec! apps.v1.JobSpec",
            &spec.join(", "),
            "apps.v1.Step atomic: 1 name! string",
            "meta.ObjectMeta: 5 uid? string:types.UID",
        ]
    );
}

#[test]
fn the_definitions_have_what_upstream_publishes() {
    let folder = folder("", "");
    let roots = roots_of("apps/v1: Job\n").unwrap();
    let types = types::read(&folder.path().join("modules"), &roots).unwrap();
    let found = definitions::definitions(&types);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
    let (object_meta, time) = (format!("{meta}.ObjectMeta"), format!("{meta}.Time"));
    let [job, spec, step] =
        ["Job", "JobSpec", "Step"].map(|name| format!("io.k8s.api.apps.v1.{name}"));
    assert_eq!(names, [&job, &spec, &step, &object_meta, &time]);
    let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    assert_eq!(
        found[&job],
        json!({
            "type": "object",
            "description": "Job runs once.\n\nIt has a second paragraph, with\n  - a list",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": reference(&object_meta),
                "spec": reference(&spec),
            },
            "required": ["spec"],
            "x-kubernetes-group-version-kind":
                [{"group": "apps", "version": "v1", "kind": "Job"}],
        })
    );
    assert_eq!(
        found[&spec],
        json!({
            "type": "object",
            "properties": {
                "data": {"type": "string", "format": "byte"},
                "extras": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"type": "string"}},
                },
                "finished": reference(&time),
                "limits": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "format": "int64"},
                    "x-kubernetes-map-type": "atomic",
                },
                "names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge",
                },
                "pace": {"type": "string", "default": "fast"},
                "ready": {"type": "boolean", "default": false},
                "steps": {
                    "type": "array",
                    "items": reference(&step),
                    "x-kubernetes-list-map-keys": ["name", "pace"],
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-patch-merge-key": "name",
                    "x-kubernetes-patch-strategy": "merge",
                },
                "tries": {"type": "integer", "format": "int32", "default": 3},
            },
            "required": ["pace", "ready", "tries"],
        })
    );
    assert_eq!(found[&step]["properties"]["name"], json!({"type": "string", "default": ""}));
    assert_eq!(found[&step]["x-kubernetes-map-type"], "atomic");
    let expected = json!({
        "description": "Time has methods.", "type": "string", "format": "date-time",
    });
    assert_eq!(found[&time], expected);
}

#[test]
fn a_type_that_is_not_known_is_named_with_its_place() {
    let place = "modules/api/apps/v1/types.go:48";
    for (text, reason) in [
        ("Name chan string `json:\"name\"`", "not a field of an API type"),
        ("Name []*chan `json:\"name\"`", "there is no type k8s.io/api/apps/v1.chan"),
        ("Name func() `json:\"name\"`", "not the type of an API field: func()"),
        ("Name other.Name `json:\"name\"`", "other is not imported"),
        ("Name string", "the field has no name in JSON"),
    ] {
        let whole = "Name string `json:\"name\" protobuf:\"bytes,1,opt,name=name\"`";
        let error = format!("{:#}", write_in(&folder(whole, text)).unwrap_err());
        assert!(error.contains(place) && error.contains(reason), "{error}");
    }
    let error =
        format!("{:#}", write_in(&folder("type Job struct", "type Jobs struct")).unwrap_err());
    assert!(error.contains("apps/v1 has no type Job"), "{error}");
}

#[test]
fn a_generated_file_that_was_edited_is_reported() {
    let folder = folder("", "");
    write_in(&folder).unwrap();
    assert_eq!(check(folder.path()).unwrap(), [""; 0]);
    for path in [TABLE, ROOTS, DEFINITIONS] {
        let file = folder.path().join(path);
        let before = std::fs::read(&file).unwrap();
        std::fs::write(&file, [&*before, b"# more\n"].concat()).unwrap();
        assert_eq!(check(folder.path()).unwrap().len(), 1, "{path}");
        std::fs::write(&file, before).unwrap();
    }
}
