"""What no package tells of the built-in resources: order, short names, categories.

Facts of a default kube-apiserver 1.37.
"""

from __future__ import annotations

from typing import Any

# Discovery lists groups in this order, and versions with the preferred one first.
GROUP_VERSIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("v1",)),
    ("apiregistration.k8s.io", ("v1",)),
    ("apps", ("v1",)),
    ("events.k8s.io", ("v1",)),
    ("authentication.k8s.io", ("v1",)),
    ("authorization.k8s.io", ("v1",)),
    ("autoscaling", ("v2", "v1")),
    ("batch", ("v1",)),
    ("certificates.k8s.io", ("v1",)),
    ("networking.k8s.io", ("v1",)),
    ("policy", ("v1",)),
    ("rbac.authorization.k8s.io", ("v1",)),
    ("storage.k8s.io", ("v1",)),
    ("admissionregistration.k8s.io", ("v1",)),
    ("apiextensions.k8s.io", ("v1",)),
    ("scheduling.k8s.io", ("v1",)),
    ("coordination.k8s.io", ("v1",)),
    ("node.k8s.io", ("v1",)),
    ("discovery.k8s.io", ("v1",)),
    ("resource.k8s.io", ("v1",)),
    ("flowcontrol.apiserver.k8s.io", ("v1",)),
    ("storagemigration.k8s.io", ("v1",)),
)

SHORT_NAMES: dict[str, tuple[str, ...]] = {
    "certificatesigningrequests": ("csr",),
    "componentstatuses": ("cs",),
    "configmaps": ("cm",),
    "cronjobs": ("cj",),
    "customresourcedefinitions": ("crd", "crds"),
    "daemonsets": ("ds",),
    "deployments": ("deploy",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "horizontalpodautoscalers": ("hpa",),
    "ingresses": ("ing",),
    "ipaddresses": ("ip",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "networkpolicies": ("netpol",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "poddisruptionbudgets": ("pdb",),
    "pods": ("po",),
    "priorityclasses": ("pc",),
    "replicasets": ("rs",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "statefulsets": ("sts",),
    "storageclasses": ("sc",),
    "volumeattributesclasses": ("vac",),
}

CATEGORIES: dict[str, frozenset[str]] = {
    "all": frozenset(
        {
            "cronjobs",
            "daemonsets",
            "deployments",
            "horizontalpodautoscalers",
            "jobs",
            "pods",
            "replicasets",
            "replicationcontrollers",
            "services",
            "statefulsets",
        }
    ),
    "api-extensions": frozenset(
        {
            "apiservices",
            "customresourcedefinitions",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        }
    ),
}

# The kind that a connecting subresource names in discovery.
SUBRESOURCE_KINDS: dict[tuple[str, str], str] = {
    ("", "nodes/proxy"): "NodeProxyOptions",
    ("", "pods/attach"): "PodAttachOptions",
    ("", "pods/exec"): "PodExecOptions",
    ("", "pods/portforward"): "PodPortForwardOptions",
    ("", "pods/proxy"): "PodProxyOptions",
    ("", "services/proxy"): "ServiceProxyOptions",
}

# The OpenAPI document promises a watch that the server does not serve.
UNSUPPORTED_VERBS: dict[str, frozenset[str]] = {"componentstatuses": frozenset({"watch"})}


def _connect(name: str, kind: str, namespaced: bool, *verbs: str) -> dict[str, dict[str, Any]]:
    entry = {
        "name": name,
        "singularName": "",
        "namespaced": namespaced,
        "kind": kind,
        "verbs": sorted(verbs),
    }
    return {name: entry}


_PROXY = ("create", "delete", "get", "patch", "update")

# Subresources that lightkube leaves out, since they are not plain REST.
VIRTUAL_SUBRESOURCES: dict[str, dict[str, dict[str, Any]]] = {
    "v1": {
        **_connect("nodes/proxy", "NodeProxyOptions", False, *_PROXY),
        **_connect("pods/attach", "PodAttachOptions", True, "create", "get"),
        **_connect("pods/exec", "PodExecOptions", True, "create", "get"),
        **_connect("pods/portforward", "PodPortForwardOptions", True, "create", "get"),
        **_connect("pods/proxy", "PodProxyOptions", True, *_PROXY),
        **_connect("services/proxy", "ServiceProxyOptions", True, *_PROXY),
    },
}
