# S4, S5, S6, S8: create, read, list, patch, replace, delete DaemonSets with the official Python client
"""The life of a DaemonSet, as the Python client's examples write such things."""

import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

NAMESPACE = sys.argv[1]
NAME = "python-agent"


def manifest(image):
    container = client.V1Container(
        name="agent",
        image=image,
        ports=[client.V1ContainerPort(container_port=9100)],
        resources=client.V1ResourceRequirements(requests={"cpu": "10m", "memory": "16Mi"}),
    )
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": NAME}),
        spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1),
    )
    return client.V1DaemonSet(
        api_version="apps/v1",
        kind="DaemonSet",
        metadata=client.V1ObjectMeta(name=NAME),
        spec=client.V1DaemonSetSpec(
            selector=client.V1LabelSelector(match_labels={"app": NAME}), template=template
        ),
    )


def wait_until_rolled_out(apps):
    stream = watch.Watch()
    for event in stream.stream(
        apps.list_namespaced_daemon_set,
        NAMESPACE,
        field_selector="metadata.name=" + NAME,
        timeout_seconds=60,
    ):
        ds = event["object"]
        wanted = ds.status.desired_number_scheduled
        if (
            ds.status.observed_generation == ds.metadata.generation
            and wanted
            and ds.status.updated_number_scheduled == wanted
            and ds.status.number_available == wanted
        ):
            stream.stop()
            return wanted
    raise SystemExit("the DaemonSet was not rolled out")


def main():
    config.load_kube_config()
    apps = client.AppsV1Api()
    core = client.CoreV1Api()

    created = apps.create_namespaced_daemon_set(NAMESPACE, manifest("registry.k8s.io/pause:3.9"))
    assert created.metadata.generation == 1, created.metadata
    assert created.spec.update_strategy.rolling_update.max_unavailable == 1, created.spec
    wanted = wait_until_rolled_out(apps)

    try:
        apps.create_namespaced_daemon_set(NAMESPACE, manifest("registry.k8s.io/pause:3.9"))
        raise SystemExit("a second one of the same name was created")
    except ApiException as error:
        assert error.status == 409 and '"AlreadyExists"' in error.body, error

    listed = apps.list_daemon_set_for_all_namespaces()
    assert NAME in [ds.metadata.name for ds in listed.items]
    assert len(core.list_namespaced_pod(NAMESPACE, label_selector="app=" + NAME).items) == wanted

    # A strategic merge patch, as the client sends for a dict.
    patched = apps.patch_namespaced_daemon_set(
        NAME,
        NAMESPACE,
        {"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "registry.k8s.io/pause:3.10"}]}}}},
    )
    container = patched.spec.template.spec.containers[0]
    assert container.image == "registry.k8s.io/pause:3.10", container
    assert container.ports[0].container_port == 9100, "the patch lost the port"
    wait_until_rolled_out(apps)

    # A JSON patch, as it sends for a list.
    labelled = apps.patch_namespaced_daemon_set(
        NAME, NAMESPACE, [{"op": "add", "path": "/metadata/labels", "value": {"patched": "json"}}]
    )
    assert labelled.metadata.labels == {"patched": "json"}, labelled.metadata

    current = apps.read_namespaced_daemon_set(NAME, NAMESPACE)
    current.metadata.labels["replaced"] = "yes"
    apps.replace_namespaced_daemon_set(NAME, NAMESPACE, current)
    try:
        apps.replace_namespaced_daemon_set(NAME, NAMESPACE, current)
        raise SystemExit("an outdated replace went through")
    except ApiException as error:
        assert error.status == 409 and '"Conflict"' in error.body, error

    status = apps.read_namespaced_daemon_set_status(NAME, NAMESPACE)
    assert status.status.number_ready == wanted, status.status

    apps.delete_namespaced_daemon_set(
        NAME, NAMESPACE, body=client.V1DeleteOptions(propagation_policy="Foreground")
    )
    for event in watch.Watch().stream(
        core.list_namespaced_pod, NAMESPACE, label_selector="app=" + NAME, timeout_seconds=1
    ):
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
    stream = watch.Watch()
    while apps.list_namespaced_daemon_set(NAMESPACE).items:
        for event in stream.stream(
            apps.list_namespaced_daemon_set, NAMESPACE, timeout_seconds=5
        ):
            if event["type"] == "DELETED":
                stream.stop()
    assert not core.list_namespaced_pod(NAMESPACE, label_selector="app=" + NAME).items

    try:
        apps.read_namespaced_daemon_set(NAME, NAMESPACE)
        raise SystemExit("a deleted DaemonSet was read")
    except ApiException as error:
        assert error.status == 404 and '"NotFound"' in error.body, error


main()
