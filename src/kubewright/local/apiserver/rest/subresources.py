"""Everything that is served beside the main verbs and status."""

from __future__ import annotations

from kubewright.local.apiserver.exchange import Verb
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.rest.binding import bind
from kubewright.local.apiserver.rest.eviction import evict
from kubewright.local.apiserver.rest.finalize import finalize
from kubewright.local.apiserver.rest.get import get
from kubewright.local.apiserver.rest.patch import patch
from kubewright.local.apiserver.rest.pod_connect import (
    build_exec_handler,
    build_forward_handler,
    refuse_connect,
)
from kubewright.local.apiserver.rest.pod_log import build_log_handler
from kubewright.local.apiserver.rest.routes import Handler
from kubewright.local.apiserver.rest.scale import get_scale, patch_scale, update_scale
from kubewright.local.apiserver.rest.token_request import build_token_handler
from kubewright.local.apiserver.rest.update import update
from kubewright.local.apiserver.tokens import TokenIssuer

_PART = ("approval", "ephemeralcontainers", "resize")


def build_subresources(
    issuer: TokenIssuer | None, proxy: NodeProxy
) -> dict[tuple[str, str], Handler]:
    """Return the handlers by (subresource, verb)."""
    handlers: dict[tuple[str, str], Handler] = {
        ("scale", Verb.GET): get_scale,
        ("scale", Verb.UPDATE): update_scale,
        ("scale", Verb.PATCH): patch_scale,
        ("binding", Verb.CREATE): bind,
        ("eviction", Verb.CREATE): evict,
        ("finalize", Verb.UPDATE): finalize,
        ("log", Verb.GET): build_log_handler(proxy),
    }
    connections = {
        "attach": refuse_connect,
        "exec": build_exec_handler(proxy),
        "portforward": build_forward_handler(proxy),
        "proxy": refuse_connect,
    }
    for name, handler in connections.items():
        for verb in (Verb.GET, Verb.CREATE):
            handlers[(name, verb)] = handler
    for name in _PART:
        handlers[(name, Verb.GET)] = get
        handlers[(name, Verb.UPDATE)] = update
        handlers[(name, Verb.PATCH)] = patch
    if issuer is not None:
        handlers[("token", Verb.CREATE)] = build_token_handler(issuer)
    return handlers
