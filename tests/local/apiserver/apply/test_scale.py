from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.scale import build_parent_managers, build_scale_managers

PATHS = {"apps/v1": ("spec", "replicas")}
REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def entry(manager: str, operation: str, fields: Object, **more: Any) -> Object:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


ONE = entry("one", "Apply", {"f:spec": {"f:replicas": {}, "f:selector": {}}})


def test_scale_shows_who_owns_the_replicas() -> None:
    other = entry("x", "Update", {"f:spec": {"f:paused": {}}})
    unknown = entry("y", "Update", REPLICAS, apiVersion="apps/v1beta1")
    assert build_scale_managers([ONE, other, unknown], PATHS) == [
        entry("one", "Apply", REPLICAS, apiVersion="autoscaling/v1")
    ]


def test_scaling_takes_the_replicas_from_the_applier() -> None:
    scaler = entry("scaler", "Update", REPLICAS, apiVersion="autoscaling/v1", subresource="scale")
    after = build_parent_managers([ONE], [scaler], api_version="apps/v1", paths=PATHS)

    taken = entry("scaler", "Update", REPLICAS, subresource="scale")
    del taken["time"]
    assert after == [entry("one", "Apply", {"f:spec": {"f:selector": {}}}), taken]


def test_write_that_takes_nothing_leaves_appliers_as_they_are() -> None:
    scale = build_scale_managers([ONE], PATHS)
    assert build_parent_managers([ONE], scale, api_version="apps/v1", paths=PATHS) == [ONE]
