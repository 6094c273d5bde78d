"""Rules of the rbac.authorization.k8s.io group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_selector, check_subdomain, with_faults
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, CREATED_AT, column, format_age
from kubewright.local.apiserver.field_error import invalid, not_supported, required
from kubewright.local.apiserver.objectmeta import IMMUTABLE, path_segment

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _validate_rules(obj: Object, *, namespaced: bool) -> list[Cause]:
    causes: list[Cause] = []
    late: list[Cause] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        field = f"rules[{index}]"
        if not rule.get("verbs"):
            late.append(required(f"{field}.verbs"))
        causes += _validate_rule(rule, field, namespaced=namespaced)
    return causes + late


def _validate_rule(rule: Object, field: str, *, namespaced: bool) -> list[Cause]:
    if urls := rule.get("nonResourceURLs"):
        causes: list[Cause] = []
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{field}.nonResourceURLs", urls, detail))
        if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(f"{field}.nonResourceURLs", urls, detail))
        return causes
    return [
        required(f"{field}.{key}", f"resource rules must supply at least one {text}")
        for key, text in (("apiGroups", "api group"), ("resources", "resource"))
        if not rule.get(key)
    ]


def _validate_role(obj: Object) -> list[Cause]:
    return _validate_rules(obj, namespaced=True)


def _validate_cluster_role(obj: Object) -> list[Cause]:
    causes = _validate_rules(obj, namespaced=False)
    selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if obj.get("aggregationRule") is None:
        return causes
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [*causes, required("aggregationRule.clusterRoleSelectors", detail)]
    for index, selector in enumerate(selectors):
        causes += check_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")
    return causes


def _validate_binding(obj: Object, kinds: tuple[str, ...]) -> list[Cause]:
    reference, causes, late = obj["roleRef"], [], []
    group, name = reference.get("apiGroup") or "", reference.get("name") or ""
    if group != _GROUP:
        causes.append(not_supported("roleRef.apiGroup", group, (_GROUP,)))
    if reference.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", reference.get("kind") or "", kinds))
    if not name:
        late.append(required("roleRef.name"))
    else:
        causes += with_faults("roleRef.name", name, path_segment(name))
    needs_namespace = kinds == ("ClusterRole",)
    for index, subject in enumerate(obj.get("subjects") or ()):
        causes += _validate_subject(subject, f"subjects[{index}]", needs_namespace)
    return causes + late


def _validate_subject(subject: Object, field: str, needs_namespace: bool) -> list[Cause]:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    group = subject.get("apiGroup") or ""
    causes = [] if name else [required(f"{field}.name")]
    if kind == "ServiceAccount":
        if name:
            causes += check_subdomain(name, f"{field}.name")
        if group:
            causes.append(not_supported(f"{field}.apiGroup", group, ("",)))
        if needs_namespace and not subject.get("namespace"):
            causes.append(required(f"{field}.namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            causes.append(not_supported(f"{field}.apiGroup", group, (_GROUP,)))
    else:
        causes.append(not_supported(f"{field}.kind", kind, _SUBJECTS))
    return causes


def _validate_role_binding(obj: Object) -> list[Cause]:
    return _validate_binding(obj, ("Role", "ClusterRole"))


def _validate_cluster_role_binding(obj: Object) -> list[Cause]:
    return _validate_binding(obj, ("ClusterRole",))


def _validate_binding_update(obj: Object, old: Object) -> list[Cause]:
    reference = obj["roleRef"]
    if reference == old["roleRef"]:
        return []
    names = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    shown = {go: reference.get(key) or "" for go, key in names}
    return [invalid("roleRef", shown, IMMUTABLE)]


def _subjects(obj: Object, kind: str) -> str:
    found = []
    for subject in obj.get("subjects") or ():
        if subject.get("kind") == kind:
            name = subject.get("name", "")
            space = subject.get("namespace")
            found.append(f"{space}/{name}" if kind == "ServiceAccount" and space else name)
    return ", ".join(found)


def _binding_cells(obj: Object, now: datetime) -> list[Any]:
    reference = obj["roleRef"]
    role = f"{reference.get('kind', '')}/{reference.get('name', '')}"
    kinds = ("User", "Group", "ServiceAccount")
    return [role, format_age(obj, now), *(_subjects(obj, kind) for kind in kinds)]


_ROLE_TABLE = Table((CREATED_AT,), lambda obj, now: [obj["metadata"].get("creationTimestamp")])
_BINDING_TABLE = Table(
    (
        column("Role"),
        AGE,
        column("Users", wide=True),
        column("Groups", wide=True),
        column("ServiceAccounts", wide=True),
    ),
    _binding_cells,
)
RULES: Mapping[str, Rules] = {
    "Role": Rules(
        name_rule=path_segment,
        allow_create_on_update=True,
        validate=_validate_role,
        table=_ROLE_TABLE,
    ),
    "ClusterRole": Rules(
        name_rule=path_segment,
        allow_create_on_update=True,
        validate=_validate_cluster_role,
        table=_ROLE_TABLE,
    ),
    "RoleBinding": Rules(
        name_rule=path_segment,
        allow_create_on_update=True,
        validate=_validate_role_binding,
        validate_update=_validate_binding_update,
        table=_BINDING_TABLE,
    ),
    "ClusterRoleBinding": Rules(
        name_rule=path_segment,
        allow_create_on_update=True,
        validate=_validate_cluster_role_binding,
        validate_update=_validate_binding_update,
        table=_BINDING_TABLE,
    ),
}
