# S4, S6, S7, S10: pods and nodes, paged lists, watches from a resourceVersion, events
"""Pods, nodes and watches, as the Python client's examples write such things."""

import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

NAMESPACE = sys.argv[1]


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"made": "by-python"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
        },
    }


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().major == "1"
    assert "apps" in [group.name for group in client.ApisApi().get_api_versions().groups]

    names = ["python-%d" % number for number in range(5)]
    for name in names:
        core.create_namespaced_pod(NAMESPACE, pod(name))

    seen = set()
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_pod, NAMESPACE, timeout_seconds=60):
        conditions = event["object"].status.conditions or []
        if any(found.type == "Ready" and found.status == "True" for found in conditions):
            seen.add(event["object"].metadata.name)
        if seen.issuperset(names):
            stream.stop()
    assert seen.issuperset(names), seen

    paged, token = [], None
    while True:
        page = core.list_namespaced_pod(NAMESPACE, limit=2, _continue=token)
        assert len(page.items) <= 2
        paged += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert sorted(paged) == names, paged

    one = core.read_namespaced_pod(names[0], NAMESPACE)
    assert one.spec.restart_policy == "Always" and one.status.qos_class == "BestEffort", one
    assert one.status.container_statuses[0].ready, one.status
    here = core.list_namespaced_pod(NAMESPACE, field_selector="spec.nodeName=" + one.spec.node_name)
    assert names[0] in [item.metadata.name for item in here.items]
    none = core.list_namespaced_pod(NAMESPACE, label_selector="made notin (by-python)")
    assert not none.items, none.items

    core.patch_namespaced_pod(names[0], NAMESPACE, {"metadata": {"labels": {"made": "by-hand"}}})
    selected = core.list_namespaced_pod(NAMESPACE, label_selector="made=by-python")
    assert len(selected.items) == 4, selected.items

    # From a resourceVersion on: only what came after.
    version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.delete_namespaced_pod(names[1], NAMESPACE, grace_period_seconds=0)
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=30
    ):
        assert event["object"].metadata.name == names[1], event
        if event["type"] == "DELETED":
            stream.stop()

    try:
        core.create_namespaced_pod(NAMESPACE, {**pod("Not_A_Name")})
        raise SystemExit("an invalid name was taken")
    except ApiException as error:
        assert error.status == 422 and '"Invalid"' in error.body, error

    core.delete_collection_namespaced_pod(NAMESPACE, label_selector="made", grace_period_seconds=0)
    assert not core.list_namespaced_pod(NAMESPACE, label_selector="made").items

    node = core.list_node().items[0]
    labels = {"metadata": {"labels": {"everynode.dev/python": "yes"}}}
    assert core.patch_node(node.metadata.name, labels).metadata.labels["everynode.dev/python"] == "yes"
    labels["metadata"]["labels"]["everynode.dev/python"] = None
    assert "everynode.dev/python" not in core.patch_node(node.metadata.name, labels).metadata.labels
    # Hollow nodes of a test cluster have no version.
    assert isinstance(node.status.node_info.kubelet_version, str), node.status.node_info
    core.list_namespaced_event(NAMESPACE)


main()
