"""The ClusterRoles and bindings that every cluster with RBAC begins with."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.rbac import GROUP

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH]
_WORKLOADS: tuple[tuple[str, list[str]], ...] = (
    (
        "",
        [
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "apps",
        [
            "daemonsets",
            "deployments",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("policy", ["poddisruptionbudgets"]),
    ("networking.k8s.io", ["ingresses", "networkpolicies"]),
)
_STATUS = ("events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas")


def bootstrap_objects() -> list[tuple[str, Object]]:
    """Return the roles and bindings, each with the plural of its resource."""
    objects = [("clusterroles", _role(name, rules)) for name, rules in _roles().items()]
    objects += [("clusterrolebindings", _binding(*binding)) for binding in _BINDINGS]
    return objects


_BINDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cluster-admin", ("system:masters",)),
    ("system:basic-user", ("system:authenticated",)),
    ("system:discovery", ("system:authenticated",)),
    ("system:public-info-viewer", ("system:authenticated", "system:unauthenticated")),
)


def _roles() -> dict[str, list[Object]]:
    view = [_rule([group], names, _READ) for group, names in _WORKLOADS]
    view.append(_rule([""], list(_STATUS), _READ))
    edit = [_rule([group], names, _WRITE) for group, names in _WORKLOADS]
    edit.append(_rule([""], ["secrets"], [*_READ, *_WRITE]))
    pods = ["pods/attach", "pods/eviction", "pods/exec", "pods/portforward", "pods/proxy"]
    edit.append(_rule([""], pods, [*_READ, "create", "delete", "patch", "update"]))
    edit.append(_rule(["coordination.k8s.io"], ["leases"], [*_READ, *_WRITE]))
    roles = _rule([GROUP], ["rolebindings", "roles"], [*_READ, *_WRITE])
    reviews = _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"])
    return {
        "cluster-admin": [_rule(["*"], ["*"], ["*"]), _urls(["*"], ["*"])],
        "admin": [*edit, *view, roles, reviews],
        "edit": [*edit, *view],
        "view": view,
        "system:basic-user": [
            _rule(
                ["authorization.k8s.io"],
                ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ["create"],
            ),
            _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
        ],
        "system:discovery": [_urls(_DISCOVERY, ["get"])],
        "system:public-info-viewer": [_urls(_HEALTH, ["get"])],
    }


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _urls(urls: list[str], verbs: list[str]) -> Object:
    return {"nonResourceURLs": urls, "verbs": verbs}


def _role(name: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name),
        "rules": rules,
    }


def _binding(name: str, groups: tuple[str, ...]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _metadata(name: str) -> Object:
    return {"name": name, "labels": _LABELS, "annotations": _ANNOTATIONS}
