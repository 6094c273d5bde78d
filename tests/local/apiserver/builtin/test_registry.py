"""The registry: which kinds there are, what discovery tells of them, what it costs to know."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from kubewright.api.resource import GroupVersionKind
from kubewright.local.apiserver.builtin import (
    builtin_kinds,
    definition_of,
    definitions,
    group_versions,
    storage_version_hash,
)
from kubewright.local.apiserver.kind import ServedKind


def kind_of(kind: str, group: str = "") -> ServedKind:
    return next(k for k in builtin_kinds() if (k.resource.group, k.resource.kind) == (group, kind))


def test_serves_each_stored_kind_once() -> None:
    keys = [(k.resource.group, k.resource.version, k.resource.plural) for k in builtin_kinds()]
    assert len(keys) == len(set(keys))
    assert ("apps", "v1", "deployments") in keys
    assert ("events.k8s.io", "v1", "events") in keys


def test_prefers_the_newer_autoscaling_version() -> None:
    versions = [gv.version for gv in group_versions() if gv.group == "autoscaling"]
    assert versions == ["v2", "v1"]


def test_hashes_storage_versions_as_upstream() -> None:
    assert storage_version_hash("apps", "v1", "Deployment") == "8aSe+NMegvE="
    assert storage_version_hash("", "v1", "Pod") == "xPOwRZ+Yhw8="


def test_lists_subresources_after_their_resource() -> None:
    core = next(gv for gv in group_versions() if not gv.group)
    names = [entry["name"] for entry in core.resource_list()["resources"]]
    assert names == sorted(names)
    assert names.index("pods") < names.index("pods/log")
    assert "apiVersion" not in core.resource_list()


def test_aggregated_discovery_nests_subresources() -> None:
    apps = next(gv for gv in group_versions() if gv.group == "apps")
    entries = {entry["resource"]: entry for entry in apps.aggregated()["resources"]}
    scale = entries["deployments"]["subresources"][0]
    assert scale["subresource"] == "scale"
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert entries["deployments"]["shortNames"] == ["deploy"]


def test_definitions_carry_descriptions_and_list_keys() -> None:
    container = definitions()["io.k8s.api.core.v1.Container"]
    ports = container["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["description"]
    port = definitions()["io.k8s.api.core.v1.ContainerPort"]["properties"]
    assert port["protocol"]["default"] == "TCP"
    assert port["containerPort"]["type"] == "integer"


def test_marks_structs_that_are_never_absent() -> None:
    deployment = definitions()["io.k8s.api.apps.v1.Deployment"]["properties"]
    assert deployment["status"]["default"] == {}
    assert deployment["apiVersion"]["type"] == "string"
    assert "enum" not in deployment["apiVersion"]


def test_every_kind_has_a_definition_and_a_schema() -> None:
    for kind in builtin_kinds():
        assert kind.definition in definitions(), kind.resource
        assert "metadata" in kind.schema.fields or kind.verbs == ("create",)


def test_every_kind_has_a_cell_for_each_column() -> None:
    for kind in builtin_kinds():
        obj = kind.strategy.decode({"metadata": {"name": "x"}}).obj
        kind.strategy.default(obj)
        cells = kind.strategy.cells(obj, datetime.now(UTC))
        assert len(cells) == len(kind.strategy.columns()), kind.resource


def test_finds_definitions_by_kind() -> None:
    gvk = GroupVersionKind("apps", "v1", "Deployment")
    assert definition_of(gvk) == "io.k8s.api.apps.v1.Deployment"
    assert definition_of(GroupVersionKind("apps", "v2", "Deployment")) is None


def test_status_writes_may_not_own_the_spec() -> None:
    assert kind_of("Deployment", "apps").reset_fields["status"] == (
        ("spec",),
        ("metadata", "labels"),
    )
    assert kind_of("Deployment", "apps").reset_fields[""] == (("status",),)
    assert not kind_of("ConfigMap").reset_fields


@pytest.mark.processes
def test_importing_loads_no_data() -> None:
    code = (
        "import sys, kubewright.local.apiserver.builtin as b;"
        "d = sys.modules[b.__name__ + '.definitions'];"
        "assert d.structures.cache_info().currsize == 0;"
        "assert sys.modules[b.__name__ + '.shapes']._table.cache_info().currsize == 0;"
        "b.builtin_kinds();"
        "assert d._descriptions.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
