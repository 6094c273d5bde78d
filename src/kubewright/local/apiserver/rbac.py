"""Role-based access control: what Roles and their bindings allow (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.authentication import MASTERS
from kubewright.local.apiserver.exchange import User
from kubewright.local.apiserver.request import RequestInfo
from kubewright.local.apiserver.selectors import build_label_selector
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import Change, VersionedStore

GROUP = "rbac.authorization.k8s.io"
_PREFIX = f"/registry/{GROUP}/"
_ALL = "*"


class Rule(msgspec.Struct, frozen=True):
    """One PolicyRule."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: tuple[str, ...]

    @classmethod
    def of(cls, rule: Object) -> Rule:
        """Read a rule of a Role."""
        return cls(
            verbs=frozenset(rule.get("verbs") or ()),
            groups=frozenset(rule.get("apiGroups") or ()),
            resources=frozenset(rule.get("resources") or ()),
            names=frozenset(rule.get("resourceNames") or ()),
            urls=tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, info: RequestInfo, path: str) -> bool:
        """Tell whether the rule allows a request."""
        if info.verb not in self.verbs and _ALL not in self.verbs:
            return False
        if not info.is_resource:
            return any(_is_url(path, url) for url in self.urls)
        if info.group not in self.groups and _ALL not in self.groups:
            return False
        if self.names and info.name not in self.names:
            return False
        return self._names_resource(info)

    def _names_resource(self, info: RequestInfo) -> bool:
        if _ALL in self.resources or info.resource_path in self.resources:
            return True
        return bool(info.subresource) and f"{_ALL}/{info.subresource}" in self.resources


def _is_url(path: str, pattern: str) -> bool:
    if pattern.endswith(_ALL):
        return path.startswith(pattern[:-1])
    return path == pattern


class Grant(msgspec.Struct, frozen=True):
    """Rules that a subject holds in a namespace, or everywhere where `namespace` is empty.

    `order` is the place of the binding among all bindings, `description` says what was bound.
    """

    order: int
    namespace: str
    rules: tuple[Rule, ...]
    sources: tuple[Object, ...]
    description: str = ""


class RBACAuthorizer:
    """Allows what Roles and ClusterRoles bound to the user or a group of his allow.

    Members of system:masters may do everything. The bindings are read again only after a change of
    one of them or of a role.
    """

    def __init__(self, store: VersionedStore) -> None:
        self._store = store
        self._grants: dict[tuple[str, str], list[Grant]] | None = None
        store.subscribe(self._on_change)

    def allows(self, user: User, info: RequestInfo, path: str) -> bool:
        """Tell whether the user may make the request."""
        return MASTERS in user.groups or self._find(user, info, path) is not None

    def reason(self, user: User, info: RequestInfo, path: str) -> str:
        """Name the binding that allows a request; members of system:masters need none."""
        found = None if MASTERS in user.groups else self._find(user, info, path)
        return f"RBAC: allowed by {found.description}" if found else ""

    def role_rules(self, reference: Object, namespace: str) -> list[Object] | None:
        """Return the rules of the role that a roleRef names; None where it is missing."""
        name = reference.get("name") or ""
        if reference.get("kind") == "ClusterRole":
            key = key_prefix(GROUP, "clusterroles") + name
        else:
            key = f"{key_prefix(GROUP, 'roles')}{namespace}/{name}"
        version = self._store.get(key)
        if version is None:
            return None
        role = decode_json(version.value or b"{}")
        rules: list[Object] = list(role.get("rules") or ())
        return rules + self._aggregated(role, {name})

    def _aggregated(self, role: Object, seen: set[str]) -> list[Object]:
        """Return the rules of the ClusterRoles that another one is made of."""
        aggregation = role.get("aggregationRule")
        if not aggregation:
            return []
        selectors = [build_label_selector(s) for s in aggregation["clusterRoleSelectors"]]
        rules: list[Object] = []
        for item in self._store.scan(key_prefix(GROUP, "clusterroles")):
            other = decode_json(item.value)
            metadata = other["metadata"]
            labels = metadata.get("labels") or {}
            if metadata["name"] in seen or not any(s.matches(labels) for s in selectors):
                continue
            seen.add(metadata["name"])
            rules += [*(other.get("rules") or ()), *self._aggregated(other, seen)]
        return rules

    def _find(self, user: User, info: RequestInfo, path: str) -> Grant | None:
        for grant in self._grants_of(user):
            if grant.namespace and grant.namespace != info.namespace:
                continue
            if any(rule.allows(info, path) for rule in grant.rules):
                return grant
        return None

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return the PolicyRules that hold for a user in a namespace, in the order of bindings.

        What members of system:masters may do without a binding is not among them.
        """
        held = [grant for grant in self._grants_of(user) if grant.namespace in ("", namespace)]
        held.sort(key=lambda grant: grant.order)
        return [rule for grant in held for rule in grant.sources]

    def _grants_of(self, user: User) -> Iterator[Grant]:
        """Iterate over what is granted to a user and to the groups that he is in."""
        if self._grants is None:
            self._grants = self._read()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            yield from self._grants.get(subject, ())

    def _on_change(self, change: Change) -> None:
        if change.key.startswith(_PREFIX):
            self._grants = None

    def _read(self) -> dict[tuple[str, str], list[Grant]]:
        grants: dict[tuple[str, str], list[Grant]] = {}
        order = itertools.count()
        for plural in ("clusterrolebindings", "rolebindings"):
            for item in self._store.scan(key_prefix(GROUP, plural)):
                binding = decode_json(item.value)
                namespace = binding["metadata"].get("namespace") or ""
                sources = self.role_rules(binding.get("roleRef") or {}, namespace) or []
                rules, number = tuple(map(Rule.of, sources)), next(order)
                for subject in binding.get("subjects") or ():
                    text = _describe(binding, subject, namespace)
                    grant = Grant(number, namespace, rules, tuple(sources), text)
                    grants.setdefault(_subject(subject, namespace), []).append(grant)
        return grants


def _describe(binding: Object, subject: Object, namespace: str) -> str:
    """Say what a binding gives to whom, as access reviews tell it."""
    name, role = binding["metadata"]["name"], binding.get("roleRef") or {}
    kind, whom = subject.get("kind") or "", subject.get("name") or ""
    if kind == "ServiceAccount":
        whom += f"/{subject.get('namespace') or namespace}"
    what = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    return f'{what} of {role.get("kind")} "{role.get("name")}" to {kind} "{whom}"'


def _subject(subject: Object, namespace: str) -> tuple[str, str]:
    """Return the user or group that a subject is; a ServiceAccount is a user."""
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return kind, name
