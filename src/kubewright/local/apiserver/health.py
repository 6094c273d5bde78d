"""Health checks, and what the root path lists."""

from __future__ import annotations

from kubewright.local.apiserver.exchange import Request, Response, text_response

_CHECKS = (
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/start-system-namespaces-controller",
)
_READY_ONLY = ("informer-sync", "shutdown")


def answer_health(request: Request, segments: list[str], *, ready: bool) -> Response | None:
    """Answer `/healthz`, `/livez`, `/readyz` and their single checks; None for an unknown one."""
    probe, name = segments[0], "/".join(segments[1:])
    checks = (*_CHECKS, *_READY_ONLY) if probe == "readyz" else _CHECKS
    if name:
        return text_response(200, "ok") if name in checks else None
    healthy = ready or probe == "livez"
    if not healthy or "verbose" in request.query:
        return _report(probe, checks, healthy)
    return text_response(200, "ok")


def _report(probe: str, checks: tuple[str, ...], healthy: bool) -> Response:
    lines = [f"[+]{check} ok" for check in checks]
    if not healthy:
        lines = [f"[-]{check} failed: not ready" for check in checks]
    verdict = "passed" if healthy else "failed"
    text = "\n".join([*lines, f"{probe} check {verdict}"]) + "\n"
    return text_response(200 if healthy else 500, text)
