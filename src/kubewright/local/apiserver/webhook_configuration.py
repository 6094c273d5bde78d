"""Admission webhooks as they are configured: which of them a write concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubewright.api.resource import Object, Resource
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.selectors import build_label_selector
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import Change, VersionedStore

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_PREFIX = f"/registry/{GROUP}/"
_NAMESPACES = key_prefix("", "namespaces")


class Hook(msgspec.Struct, frozen=True, eq=False):
    """One webhook of a configuration."""

    configuration: str
    source: Object

    @property
    def name(self) -> str:
        """The webhook's name, which messages tell."""
        return str(self.source["name"])

    @property
    def ignores_failure(self) -> bool:
        """Tell whether a write goes on when the webhook cannot be asked."""
        return self.source.get("failurePolicy") == "Ignore"

    @property
    def timeout(self) -> int:
        """The seconds that the webhook may take."""
        return int(self.source.get("timeoutSeconds") or 10)

    @property
    def is_reinvoked(self) -> bool:
        """Tell whether it is asked again when a later webhook changed the object."""
        return self.source.get("reinvocationPolicy") == "IfNeeded"

    @property
    def allows_dry_run(self) -> bool:
        """Tell whether it may be asked about what is not stored."""
        return self.source.get("sideEffects") in ("None", "NoneOnDryRun")

    def concerns(self, attributes: Attributes) -> bool:
        """Tell whether a rule of the webhook names the write."""
        resource = attributes.kind.resource
        return any(_matches(rule, attributes, resource) for rule in self.source.get("rules") or ())

    def kind_for(self, attributes: Attributes, others: Iterable[ServedKind]) -> ServedKind | None:
        """Return the kind in which the webhook is asked about a write; None where it is not.

        That is the kind of the request, or else, with the match policy Equivalent, one of the
        `others` that show the same objects and that a rule names.
        """
        if self.concerns(attributes):
            return attributes.kind
        if self.source.get("matchPolicy") == "Exact":
            return None
        rules = self.source.get("rules") or ()
        for rule in rules:
            for kind in others:
                if _matches(rule, attributes, kind.resource):
                    return kind
        return None

    def selects_object(self, attributes: Attributes) -> bool:
        """Tell whether the object, or what it was before, has the labels that are asked for."""
        wanted = self.source.get("objectSelector")
        if not wanted:
            return True
        selector = build_label_selector(wanted)
        objects = (attributes.obj, attributes.old)
        return any(o is not None and selector.matches(_labels(o)) for o in objects)

    def selects_namespace(self, labels: dict[str, str] | None) -> bool:
        """Tell whether a namespace of these labels is meant; None for none at all."""
        wanted = self.source.get("namespaceSelector")
        return not wanted or labels is None or build_label_selector(wanted).matches(labels)


def _labels(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _matches(rule: Object, attributes: Attributes, resource: Resource) -> bool:
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    return (
        _has(rule.get("operations"), attributes.operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and _names(rule.get("resources") or (), resource.plural, attributes.subresource)
    )


def _has(values: Any, wanted: str) -> bool:
    return wanted in (values or ()) or "*" in (values or ())


def _names(patterns: Iterable[str], plural: str, subresource: str) -> bool:
    for pattern in patterns:
        name, _, sub = pattern.partition("/")
        if name in ("*", plural) and (sub == subresource or sub == "*"):
            return True
    return False


class WebhookConfigurations:
    """The configured webhooks, read again after a change."""

    def __init__(self, store: VersionedStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._hooks: dict[str, list[Hook]] = {}
        store.subscribe(self._on_change)

    def find(self, plural: str, attributes: Attributes) -> list[tuple[Hook, ServedKind]]:
        """Return the webhooks that a write concerns, by configuration name, then as written.

        With each comes the kind in which it is to see the object.
        """
        hooks = self._hooks.get(plural)
        if hooks is None:
            hooks = self._hooks[plural] = self._read(plural)
        if not hooks or attributes.kind.resource.group == GROUP:
            # The configurations themselves are exempt, or nobody could repair a broken one.
            return []
        others = self._registry.equivalents(attributes.kind)
        found = [
            (hook, kind)
            for hook in hooks
            if (kind := hook.kind_for(attributes, others)) is not None
        ]
        if not found:
            return []
        labels = self._namespace_labels(attributes)
        return [
            (hook, kind)
            for hook, kind in found
            if hook.selects_namespace(labels) and hook.selects_object(attributes)
        ]

    def _on_change(self, change: Change) -> None:
        if change.key.startswith(_PREFIX):
            self._hooks.clear()

    def _read(self, plural: str) -> list[Hook]:
        hooks: list[Hook] = []
        for item in self._store.scan(key_prefix(GROUP, plural)):
            configuration = decode_json(item.value)
            name = configuration["metadata"]["name"]
            hooks += [Hook(name, source) for source in configuration.get("webhooks") or ()]
        return hooks

    def _namespace_labels(self, attributes: Attributes) -> dict[str, str] | None:
        resource = attributes.kind.resource
        if resource.group == "" and resource.plural == "namespaces":
            return _labels(attributes.obj or attributes.old or {})
        if not attributes.namespace:
            return None
        version = self._store.get(_NAMESPACES + attributes.namespace)
        return _labels(decode_json(version.value or b"{}")) if version else {}
