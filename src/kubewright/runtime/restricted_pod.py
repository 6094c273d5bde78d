"""Pods at the `restricted` level of the Pod Security Standards. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object

_CONTAINERS = ("initContainers", "containers")


def restrict_pod(spec: Object, *, user: int | None = None) -> Object:
    """Return a pod spec with what the `restricted` level asks for, where it says nothing itself.

    The pod runs as another user than root, under the runtime's seccomp profile; its containers gain
    no privileges and have no capabilities. What the spec says of these stays, also where it is
    below the level. Volumes and namespaces of the host are the spec's own business.

    Arguments:
        spec: the `spec` of a pod or of a template; it is not changed.
        user: the user id to run as. Without one, the image must name its user by number, or a node
            refuses to start it: of a name it cannot tell whether it is root's.

    Source: the Kubernetes documentation, "Pod Security Standards".
    """
    context: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user is not None:
        context["runAsUser"] = user
    restricted = {**spec, "securityContext": {**context, **(spec.get("securityContext") or {})}}
    for field in _CONTAINERS:
        if spec.get(field):
            restricted[field] = [_restrict_container(each) for each in spec[field]]
    return restricted


def _restrict_container(container: Object) -> Object:
    own: Object = container.get("securityContext") or {}
    capabilities = {"drop": ["ALL"], **(own.get("capabilities") or {})}
    context = {"allowPrivilegeEscalation": False, **own, "capabilities": capabilities}
    return {**container, "securityContext": context}
