"""Objects that these tests write."""

from __future__ import annotations

from kubewright.api.resource import Object


def build_config_map(namespace: str, name: str = "settings", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }
