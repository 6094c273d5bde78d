"""Definitions that the tests of this room share."""

from __future__ import annotations

from typing import Any

from kubewright.local.apiserver.crd.accepted_names import plan_names

NOW = "2026-01-01T00:00:00Z"


def version(schema: dict[str, Any] | None = None, /, **parts: Any) -> dict[str, Any]:
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
        **parts,
    }


def definition(*versions: dict[str, Any], plural: str = "widgets", **spec: Any) -> dict[str, Any]:
    kind = plural[:-1].capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": plural[:-1],
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": list(versions) or [version()],
            **spec,
        },
        "status": {"storedVersions": ["v1"]},
    }


def established(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    crd = definition(*versions, **spec)
    crd["status"] = plan_names(crd, [], NOW)
    return crd
