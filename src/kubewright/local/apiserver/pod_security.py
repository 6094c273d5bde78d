"""PodSecurity admission: what the labels of a namespace ask of its pods (KEP-2579)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubewright.api.errors import Cause, Forbidden, Invalid, StatusDetails
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.field_error import invalid
from kubewright.local.apiserver.storage import decode_json, key_prefix

PREFIX = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_MODES = ("audit", "enforce", "warn")
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
# Where each kind that makes pods keeps their template.
_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}


class PodSecurity:
    """Refuses pods below the level that their namespace enforces, and warns of workloads.

    The checks are those of the newest version, whatever version a label asks for. Nothing is
    audited: this server writes no audit log.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Judge a pod, a workload, or the labels of a namespace.

        Raises:
            Forbidden: a pod is below the enforced level.
            Invalid: a label of a namespace is none of the levels.
        """
        obj, resource = attributes.obj, attributes.kind.resource
        if obj is None:
            return
        where = (resource.group, resource.plural)
        if where == ("", "namespaces"):
            self._judge_namespace(attributes, obj)
        elif where == ("", "pods"):
            if attributes.operation == "CREATE" or attributes.subresource == "ephemeralcontainers":
                self._judge_pod(attributes, obj)
        elif where in _TEMPLATES and not attributes.subresource:
            template: Object = obj
            for step in _TEMPLATES[where]:
                template = template.get(step) or {}
            if template.get("spec"):
                self._warn(attributes, {"metadata": {}, **template})

    def _judge_pod(self, attributes: Attributes, pod: Object) -> None:
        level, shown = _level(self._labels(attributes.namespace), "enforce")
        if findings := find_violations(level, pod):
            raise Forbidden(
                f'pods "{attributes.name}" is forbidden: violates PodSecurity "{shown}": '
                f"{', '.join(findings)}",
                StatusDetails(name=attributes.name, kind="pods"),
            )
        self._warn(attributes, pod)

    def _warn(self, attributes: Attributes, pod: Object) -> None:
        level, shown = _level(self._labels(attributes.namespace), "warn")
        if findings := find_violations(level, pod):
            text = f'would violate PodSecurity "{shown}": {", ".join(findings)}'
            attributes.warnings.append(text)

    def _labels(self, namespace: str) -> Object:
        version = self._backend.store.get(key_prefix("", "namespaces") + namespace)
        if version is None:
            return {}
        labels: Object = decode_json(version.value or b"{}")["metadata"].get("labels") or {}
        return labels

    def _judge_namespace(self, attributes: Attributes, namespace: Object) -> None:
        labels = namespace["metadata"].get("labels") or {}
        if causes := list(_label_faults(labels)):
            raise Invalid.of("", "Namespace", attributes.name, causes)
        if attributes.old is None or attributes.subresource:
            return
        level, shown = _level(labels, "enforce")
        before, _ = _level(attributes.old["metadata"].get("labels") or {}, "enforce")
        if _LEVELS.index(level) > _LEVELS.index(before):
            attributes.warnings.extend(self._existing(attributes.name, level, shown))

    def _existing(self, namespace: str, level: str, shown: str) -> Iterator[str]:
        """Tell which pods would not be let in any more, by what they break."""
        found: dict[str, list[str]] = {}
        for item in self._backend.store.scan(f"{key_prefix('', 'pods')}{namespace}/"):
            pod = decode_json(item.value)
            if findings := find_violations(level, pod):
                reasons = ", ".join(text.partition(" (")[0] for text in findings)
                found.setdefault(reasons, []).append(pod["metadata"]["name"])
        if found:
            yield (
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce '
                f'level "{shown}"'
            )
        for reasons, names in found.items():
            others = len(names) - 1
            more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
            yield f"{names[0]}{more}: {reasons}"


def find_violations(level: str, pod: Object) -> list[str]:
    """Return what a pod, or a template of pods, breaks at a level."""
    if level == "privileged":
        return []
    from kubewright.local.apiserver.pod_security_baseline import BASELINE
    from kubewright.local.apiserver.pod_security_restricted import RESTRICTED

    checks = RESTRICTED if level == "restricted" else BASELINE
    return [str(finding) for check in checks if (finding := check(pod)) is not None]


def _level(labels: Object, mode: str) -> tuple[str, str]:
    level = labels.get(PREFIX + mode) or "privileged"
    version = labels.get(f"{PREFIX}{mode}-version") or "latest"
    return level, f"{level}:{version}"


def _label_faults(labels: Object) -> Iterator[Cause]:
    for mode in _MODES:
        level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if level is not None and level not in _LEVELS:
            detail = f"must be one of {', '.join(_LEVELS)}"
            yield invalid(f"metadata.labels[{PREFIX}{mode}]", level, detail)
        if version is not None and not _VERSION.fullmatch(version):
            detail = 'must be "latest" or "v1.x"'
            yield invalid(f"metadata.labels[{PREFIX}{mode}-version]", version, detail)
