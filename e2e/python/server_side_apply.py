# S14: server-side apply with the official Python client
"""Two managers apply one ConfigMap, and one of them gives up a field."""

import json
import sys

from kubernetes import client, config
from kubernetes.client.rest import ApiException

NAMESPACE = sys.argv[1]
NAME = "python-settings"


def apply(core, manager, data, force=None):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
    return core.patch_namespaced_config_map(
        NAME,
        NAMESPACE,
        body,
        field_manager=manager,
        force=force,
        _content_type="application/apply-patch+yaml",
    )


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    created = apply(core, "first", {"color": "blue", "size": "1"})
    assert created.data == {"color": "blue", "size": "1"}, created.data
    try:
        apply(core, "second", {"color": "red"})
        raise SystemExit("an apply took the field of another manager")
    except ApiException as error:
        assert error.status == 409, error
        message = json.loads(error.body)["message"]
        assert message.endswith('conflict with "first": .data.color'), message
    forced = apply(core, "second", {"color": "red"}, force=True)
    assert forced.data == {"color": "red", "size": "1"}, forced.data
    left = apply(core, "first", {})
    assert left.data == {"color": "red"}, left.data
    owners = {entry.manager: entry.fields_v1 for entry in left.metadata.managed_fields}
    assert owners["second"] == {"f:data": {"f:color": {}}}, owners
    core.delete_namespaced_config_map(NAME, NAMESPACE)


main()
