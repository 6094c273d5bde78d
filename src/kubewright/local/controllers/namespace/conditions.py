"""The five conditions of a namespace that is being deleted. Pure."""

from __future__ import annotations

from kubewright.api.conditions import Condition, set_condition
from kubewright.api.resource import Object
from kubewright.local.controllers.namespace.content import Content


def build_conditions(before: list[Object], content: Content, now: str) -> list[Object]:
    """Bring the conditions up to date with what a pass found; all five are always there."""
    conditions = before
    for condition in (
        _discovery(content),
        # An API server's document has no group version that does not parse.
        Condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        _deletion(content),
        _remaining(content),
        _finalizers(content),
    ):
        conditions = set_condition(conditions, condition, now=now)
    return conditions


def _discovery(content: Content) -> Condition:
    type = "NamespaceDeletionDiscoveryFailure"
    if not content.stale:
        return Condition(
            type, "False", "ResourcesDiscovered", "All resources successfully discovered"
        )
    groups = ", ".join(content.stale)
    message = f"Discovery failed for some groups, {len(content.stale)} failing: {groups}"
    return Condition(type, "True", "DiscoveryFailed", message)


def _deletion(content: Content) -> Condition:
    type = "NamespaceDeletionContentFailure"
    if not content.failures:
        message = "All content successfully deleted, may be waiting on finalization"
        return Condition(type, "False", "ContentDeleted", message)
    failures = ", ".join(content.failures)
    message = f"Failed to delete all resource types, {len(content.failures)} remaining: {failures}"
    return Condition(type, "True", "ContentDeletionFailed", message)


def _remaining(content: Content) -> Condition:
    type = "NamespaceContentRemaining"
    if not content.remaining:
        return Condition(type, "False", "ContentRemoved", "All content successfully removed")
    parts = sorted(
        f"{resource.plural}.{resource.group} has {count} resource instances"
        for resource, count in content.remaining.items()
    )
    message = f"Some resources are remaining: {', '.join(parts)}"
    return Condition(type, "True", "SomeResourcesRemain", message)


def _finalizers(content: Content) -> Condition:
    type = "NamespaceFinalizersRemaining"
    if not content.finalizers:
        message = "All content-preserving finalizers finished"
        return Condition(type, "False", "ContentHasNoFinalizers", message)
    parts = sorted(
        f"{finalizer} in {count} resource instances"
        for finalizer, count in content.finalizers.items()
    )
    message = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
    return Condition(type, "True", "SomeFinalizersRemain", message)
