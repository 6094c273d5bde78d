"""The ClusterRoles, Roles and bindings that every cluster with RBAC begins with."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import Object
from kubewright.local.apiserver.rbac import GROUP

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_BOOTSTRAP = "kubernetes.io/bootstrapping"
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH)
_CONNECT = "pods/attach pods/exec pods/portforward pods/proxy"
_EXTENSIONS = "deployments/scale ingresses networkpolicies replicasets replicasets/scale"

# Verbs, groups, and resources by spaces: what a namespace's reader, writer and owner may do.
_VIEW: tuple[tuple[Sequence[str], Sequence[str], str], ...] = (
    (
        _READ,
        [""],
        (
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
            "services/status"
        ),
    ),
    (
        _READ,
        [""],
        (
            "bindings limitranges namespaces/status pods/log pods/status "
            "replicationcontrollers/status resourcequotas resourcequotas/status"
        ),
    ),
    (_READ, [""], "namespaces"),
    (_READ, ["", "events.k8s.io"], "events"),
    (_READ, ["discovery.k8s.io"], "endpointslices"),
    (
        _READ,
        ["apps"],
        (
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status"
        ),
    ),
    (_READ, ["autoscaling"], "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (_READ, ["batch"], "cronjobs cronjobs/status jobs jobs/status"),
    (
        _READ,
        ["extensions"],
        (
            f"daemonsets daemonsets/status deployments deployments/status {_EXTENSIONS} "
            "ingresses/status replicasets/status replicationcontrollers/scale"
        ),
    ),
    (_READ, ["policy"], "poddisruptionbudgets poddisruptionbudgets/status"),
    (_READ, ["networking.k8s.io"], "ingresses ingresses/status networkpolicies"),
    (
        _READ,
        ["resource.k8s.io"],
        "resourceclaims resourceclaims/status resourceclaimtemplates",
    ),
)
_EDIT: tuple[tuple[Sequence[str], Sequence[str], str], ...] = (
    (_READ, [""], f"{_CONNECT} secrets services/proxy"),
    (("impersonate",), [""], "serviceaccounts"),
    (_WRITE, [""], f"pods {_CONNECT}"),
    (("create",), [""], "pods/eviction"),
    (
        _WRITE,
        [""],
        (
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
            "secrets serviceaccounts services services/proxy"
        ),
    ),
    (("create",), [""], "serviceaccounts/token"),
    (_WRITE, ["", "events.k8s.io"], "events"),
    (
        _WRITE,
        ["apps"],
        (
            "daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale"
        ),
    ),
    (_WRITE, ["autoscaling"], "horizontalpodautoscalers"),
    (_WRITE, ["batch"], "cronjobs jobs"),
    (
        _WRITE,
        ["extensions"],
        f"daemonsets deployments deployments/rollback {_EXTENSIONS} replicationcontrollers/scale",
    ),
    (_WRITE, ["policy"], "poddisruptionbudgets"),
    (_WRITE, ["networking.k8s.io"], "ingresses networkpolicies"),
    (_ALL, ["coordination.k8s.io"], "leases"),
    (_WRITE, ["resource.k8s.io"], "resourceclaims resourceclaimtemplates"),
)
_OWN: tuple[tuple[Sequence[str], Sequence[str], str], ...] = (
    (("create",), ["authorization.k8s.io"], "localsubjectaccessreviews"),
    (_ALL, [GROUP], "rolebindings roles"),
)
_EVERYBODY = ("system:authenticated", "system:unauthenticated")
_BINDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cluster-admin", ("system:masters",)),
    ("system:basic-user", ("system:authenticated",)),
    ("system:discovery", ("system:authenticated",)),
    ("system:monitoring", ("system:monitoring",)),
    ("system:public-info-viewer", _EVERYBODY),
    ("system:service-account-issuer-discovery", ("system:serviceaccounts",)),
)


def bootstrap_objects() -> list[tuple[str, Object]]:
    """Return the roles and bindings, each with the plural of its resource."""
    objects = [("clusterroles", _role(name, rules)) for name, rules in _roles().items()]
    for name, source in (("view", "edit"), ("edit", "admin"), ("admin", "")):
        objects.append(("clusterroles", _aggregated(name, source)))
    objects += [("clusterrolebindings", _binding(*binding)) for binding in _BINDINGS]
    return objects


def _roles() -> dict[str, list[Object]]:
    own_reviews = "selfsubjectaccessreviews selfsubjectrulesreviews"
    health = ("/healthz", "/livez", "/readyz")
    keys = ("/.well-known/openid-configuration", "/openid/v1/jwks")
    seen = ("/flagz", "/metrics", "/metrics/slis", "/statusz", *(f"{p}/*" for p in health), *health)
    return {
        "cluster-admin": [_rule(["*"], ["*"], "*"), _urls(["*"], ["*"])],
        "system:aggregate-to-view": [_rule(*entry) for entry in _VIEW],
        "system:aggregate-to-edit": [_rule(*entry) for entry in _EDIT],
        "system:aggregate-to-admin": [_rule(*entry) for entry in _OWN],
        "system:auth-delegator": [
            _rule(["create"], ["authentication.k8s.io"], "tokenreviews"),
            _rule(["create"], ["authorization.k8s.io"], "subjectaccessreviews"),
        ],
        "system:basic-user": [
            _rule(["create"], ["authorization.k8s.io"], own_reviews),
            _rule(["create"], ["authentication.k8s.io"], "selfsubjectreviews"),
        ],
        "system:discovery": [_urls(["get"], _DISCOVERY)],
        "system:monitoring": [_urls(["get"], sorted(seen)), _rule(["get"], [""], "nodes/metrics")],
        "system:public-info-viewer": [_urls(["get"], _HEALTH)],
        "system:service-account-issuer-discovery": [
            _urls(["get"], [path + end for path in keys for end in ("", "/")])
        ],
    }


def _rule(verbs: Sequence[str], groups: Sequence[str], resources: str) -> Object:
    return {"apiGroups": list(groups), "resources": resources.split(), "verbs": list(verbs)}


def _urls(verbs: Sequence[str], urls: Sequence[str]) -> Object:
    return {"nonResourceURLs": list(urls), "verbs": list(verbs)}


def _role(name: str, rules: list[Object]) -> Object:
    metadata = _metadata(name)
    if name.startswith("system:aggregate-to-"):
        metadata["labels"] |= _aggregates_to(name.removeprefix("system:aggregate-to-"))
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
    }


def _aggregated(name: str, target: str) -> Object:
    """Return a role that is made of others; `target` is the one that it is part of itself."""
    role = _role(name, [])
    if target:
        role["metadata"]["labels"] |= _aggregates_to(target)
    return {
        **role,
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _aggregates_to(name)}]},
    }


def _aggregates_to(name: str) -> dict[str, str]:
    return {f"{GROUP}/aggregate-to-{name}": "true"}


def _binding(name: str, groups: tuple[str, ...]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _metadata(name: str) -> Object:
    return {"name": name, "labels": {_BOOTSTRAP: "rbac-defaults"}, "annotations": _ANNOTATIONS}
