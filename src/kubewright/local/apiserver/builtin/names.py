"""Names of the built-in definitions: which package of the published document a group is in."""

from __future__ import annotations

from kubewright.api.resource import GroupVersionKind

_PACKAGES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def definition_name(gvk: GroupVersionKind) -> str:
    """Return the name of a built-in kind's definition, such as `io.k8s.api.apps.v1.Deployment`."""
    package = _PACKAGES.get(gvk.group) or f"io.k8s.api.{gvk.group.partition('.')[0]}"
    return f"{package}.{gvk.version}.{gvk.kind}"
