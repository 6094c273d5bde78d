"""Nobody grants more than he holds: checked when roles and bindings are written (RBAC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from kubewright.api.errors import Forbidden, NotFound, StatusDetails
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.authentication import MASTERS
from kubewright.local.apiserver.field_error import show
from kubewright.local.apiserver.rbac import GROUP, RBACAuthorizer, Rule
from kubewright.local.apiserver.request import RequestInfo

_FIELDS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)
_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})


class EscalationCheck:
    """Refuses roles and bindings that grant what their writer does not hold himself.

    He may all the same with the verb `escalate` on the roles, or `bind` on the role bound.
    """

    def __init__(self, authorizer: RBACAuthorizer) -> None:
        self._authorizer = authorizer

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Compare what the object grants with what its writer holds.

        Raises:
            Forbidden: it grants more.
            NotFound: it binds a role that is not there.
        """
        resource, obj = attributes.kind.resource, attributes.obj
        if resource.group != GROUP or obj is None or MASTERS in attributes.user.groups:
            return
        if resource.plural in _ROLES:
            if not self._may(attributes, "escalate", resource.plural, attributes.name):
                self._check(attributes, obj.get("rules") or [])
        elif resource.plural in _BINDINGS:
            reference = obj.get("roleRef") or {}
            plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            name = reference.get("name") or ""
            if self._may(attributes, "bind", plural, name):
                return
            rules = self._authorizer.role_rules(reference, attributes.namespace)
            if rules is None:
                raise NotFound.of(GROUP, resource.plural, name)
            self._check(attributes, rules)

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        info = RequestInfo(
            True, verb, GROUP, "v1", attributes.namespace, resource=plural, name=name
        )
        return self._authorizer.allows(attributes.user, info, "")

    def _check(self, attributes: Attributes, rules: list[Object]) -> None:
        user, resource = attributes.user, attributes.kind.resource
        held = [Rule.of(rule) for rule in self._authorizer.rules(user, attributes.namespace)]
        missing = find_missing(rules, held)
        if not missing:
            return
        groups = " ".join(map(show, user.groups))
        shown = "\n".join(sorted(_show_rule(rule) for rule in missing))
        raise Forbidden(
            f'{resource.group_resource} "{attributes.name}" is forbidden: user "{user.name}" '
            f"(groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n"
            f"{shown}",
            StatusDetails(name=attributes.name, group=GROUP, kind=resource.plural),
        )


def find_missing(wanted: Iterable[Object], held: list[Rule]) -> list[Object]:
    """Return the rules, one for each resource, that no held rule covers."""
    missing: dict[tuple[str, ...], list[str]] = {}
    for rule in wanted:
        for target, verb in _parts(rule):
            if not any(_covers(own, target, verb) for own in held):
                verbs = missing.setdefault(target, [])
                if verb not in verbs:
                    verbs.append(verb)
    return [_rule_of(target, verbs) for target, verbs in missing.items()]


def _parts(rule: Object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Split a rule into one verb for one target: (url,) or (group, resource, name)."""
    verbs = rule.get("verbs") or ()
    for url in rule.get("nonResourceURLs") or ():
        yield from (((url,), verb) for verb in verbs)
    names = rule.get("resourceNames") or [""]
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    for target in itertools.product(groups, resources, names):
        yield from ((target, verb) for verb in verbs)


def _covers(own: Rule, target: tuple[str, ...], verb: str) -> bool:
    if verb not in own.verbs and "*" not in own.verbs:
        return False
    if len(target) == 1:
        return any(_covers_url(url, target[0]) for url in own.urls)
    group, resource, name = target
    if group not in own.groups and "*" not in own.groups:
        return False
    if own.names and name not in own.names:
        return False
    _, _, subresource = resource.partition("/")
    below = bool(subresource) and f"*/{subresource}" in own.resources
    return below or resource in own.resources or "*" in own.resources


def _covers_url(own: str, url: str) -> bool:
    return own == url or (own.endswith("*") and url.startswith(own.rstrip("*")))


def _rule_of(target: tuple[str, ...], verbs: list[str]) -> Object:
    if len(target) == 1:
        return {"nonResourceURLs": list(target), "verbs": verbs}
    group, resource, name = target
    rule: Object = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return {**rule, "resourceNames": [name]} if name else rule


def _show_rule(rule: Object) -> str:
    parts = [
        f"{label}:[{' '.join(map(show, rule[key]))}]" for label, key in _FIELDS if rule.get(key)
    ]
    return "{" + ", ".join(parts) + "}"
