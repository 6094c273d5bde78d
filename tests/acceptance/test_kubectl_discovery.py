"""How kubectl learns what there is."""

from __future__ import annotations

import pytest

from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes


def test_api_resources_list_built_in_and_custom_kinds(
    kubectl: Kubectl, memcached_crd: None
) -> None:
    table = kubectl("api-resources")

    # The first of a name counts: metrics.k8s.io has pods, too.
    lines = reversed(table.splitlines()[1:])
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["pods"][:2] == ["po", "v1"]
    assert rows["deployments"] == ["deploy", "apps/v1", "true", "Deployment"]
    assert rows["memcacheds"] == ["cache.example.com/v1alpha1", "true", "Memcached"]
    assert rows["nodes"][:3] == ["no", "v1", "false"]


def test_api_versions_and_version(kubectl: Kubectl) -> None:
    assert {"v1", "apps/v1", "batch/v1"} <= set(kubectl("api-versions").split())
    assert "Server Version: v1.37" in kubectl("version", code=None)


def test_explain_knows_built_in_fields(kubectl: Kubectl) -> None:
    text = kubectl("explain", "deployment.spec.replicas")

    assert "KIND:       Deployment" in text
    assert "FIELD: replicas <integer>" in text
    assert "Number of desired pods" in text


def test_explain_knows_custom_fields(kubectl: Kubectl, memcached_crd: None) -> None:
    def explain() -> str:
        return kubectl("explain", "memcached.spec.size", code=None)

    # kube-apiserver publishes a schema some time after it established the kind.
    eventually(lambda: "KIND:       Memcached" in explain(), "the schema is published")
    assert "Number of memcached pods." in explain()
    assert "size\t<integer> -required-" in kubectl("explain", "memcached.spec")


def test_unknown_kinds_are_named(kubectl: Kubectl) -> None:
    text = kubectl("get", "gizmos", code=1)

    assert text == 'error: the server doesn\'t have a resource type "gizmos"\n'
