"""The kubeconfig of a local cluster."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from kubewright.api.resource import Object

NAME = "kubewright"


def build_kubeconfig(url: str, ca: str, token: str, *, name: str = NAME) -> Object:
    """Build a kubeconfig with one cluster, one user and one context."""
    cluster: Object = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, config: Object) -> None:
    """Write a kubeconfig that nobody else may read, whole or not at all.

    It is JSON, which is YAML too: no YAML library is loaded to start a cluster.
    """
    import msgspec

    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
    os.replace(fresh, path)
