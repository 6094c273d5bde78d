"""Status and CRD, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import kubewright as kw
from memcached_operator.models import Memcached, MemcachedSpec
from memcached_operator.objects import build_deployment
from memcached_operator.operator import build_children, build_status, operator

CRD = Path(__file__).resolve().parents[1] / "config" / "crd.yaml"


def build_pool() -> Memcached:
    return Memcached(
        metadata=kw.ObjectMeta(name="pool", namespace="ns"),
        spec=MemcachedSpec(size=2, version="1.6.9"),
    )


def build_pod(name: str, *, ready: bool, deleting: bool = False) -> kw.Object:
    metadata: kw.Object = {"name": name}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


def test_generated_crd_is_up_to_date() -> None:
    """`make generate` writes it; the demo and users apply it."""
    assert list(yaml.safe_load_all(CRD.read_text())) == operator.crds()


def test_status_lists_ready_pods_by_name() -> None:
    pool = build_pool()
    pods = [
        build_pod("b", ready=True),
        build_pod("a", ready=True),
        build_pod("c", ready=False),
        build_pod("d", ready=True, deleting=True),
    ]
    deployment = build_deployment(pool) | {"status": {"replicas": 4, "readyReplicas": 2}}
    children = kw.Children([deployment], lambda resource, labels: pods)

    status = build_status(pool, children)

    assert status.nodes == ["a", "b"]
    assert (status.replicas, status.ready_replicas) == (4, 2)
    assert status.selector == "app.kubernetes.io/name=memcached,app.kubernetes.io/instance=pool"


def test_status_before_anything_exists_is_empty() -> None:
    status = build_status(build_pool(), kw.Children([]))

    assert (status.nodes, status.replicas, status.ready_replicas) == ([], 0, 0)


def test_children_are_a_service_and_a_deployment() -> None:
    kinds = [child["kind"] for child in build_children(build_pool())]

    assert kinds == ["Service", "Deployment"]


@pytest.mark.parametrize(
    "spec",
    [{"size": 0, "version": "1"}, {"size": 101, "version": "1"}, {"size": 1}, {"version": "1.6"}],
)
def test_models_refuse_what_the_crd_refuses(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemcachedSpec.model_validate(spec)
