"""Warnings of doubtful pods: what is deprecated, hidden or doubled."""

from __future__ import annotations

from kubewright.api.resource import Object

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
}
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_APPARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def warn_of_template(template: Object | None, old: Object | None, field: str) -> list[str]:
    """Return the warnings for a pod template that is new or has changed."""
    if template is None or template == old:
        return []
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    texts = [
        f"{field}.metadata.annotations[{key}]: {_APPARMOR_TEXT}"
        for key in annotations
        if key.startswith(_APPARMOR)
    ]
    return texts + warn_of_pod_spec(template.get("spec") or {}, f"{field}.spec")


def warn_of_pod_spec(spec: Object, field: str) -> list[str]:
    """Return the warnings for the spec of a pod."""
    texts = [
        f"{field}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in _NODE_LABELS
    ]
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{field}.{kind}[{index}]"
            texts += _warn_of_environment(container.get("env") or [], f"{place}.env")
            texts += _warn_of_ports(container.get("ports") or [], f"{place}.ports")
    return texts


def _warn_of_environment(variables: list[Object], field: str) -> list[str]:
    texts, seen = [], set()
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if name in seen:
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            texts.append(f"{field}[{index}]: {text}")
        seen.add(name)
    return texts


def _warn_of_ports(ports: list[Object], field: str) -> list[str]:
    texts: list[str] = []
    seen: dict[tuple[object, ...], int] = {}
    for index, port in enumerate(ports):
        keys = ("containerPort", "protocol", "hostPort", "hostIP")
        key = tuple(port.get(part) for part in keys)
        if key in seen:
            text = f"duplicate port definition with {field}[{seen[key]}]"
            texts.append(f"{field}[{index}]: {text}")
        seen.setdefault(key, index)
    return texts


def warn_at(*path: str) -> _TemplateWarning:
    """Return the warnings function of a kind that has its pod template at this path."""
    return _TemplateWarning(path)


class _TemplateWarning:
    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __call__(self, obj: Object, old: Object | None) -> list[str]:
        return warn_of_template(self._find(obj), self._find(old), ".".join(self._path))

    def _find(self, obj: Object | None) -> Object | None:
        for step in self._path:
            obj = (obj or {}).get(step)
        return obj
