"""Everything that is served beside the main verbs and status."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kubewright.api.time import format_time
from kubewright.local.apiserver.builtin.certificate_approval import ApprovalStrategy
from kubewright.local.apiserver.builtin.pod_resize import ResizeStrategy
from kubewright.local.apiserver.exchange import Answer, Verb
from kubewright.local.apiserver.kind import Strategy
from kubewright.local.apiserver.node_proxy import NodeProxy
from kubewright.local.apiserver.rest.binding import bind
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.eviction import evict
from kubewright.local.apiserver.rest.finalize import finalize
from kubewright.local.apiserver.rest.get import get
from kubewright.local.apiserver.rest.patch import patch
from kubewright.local.apiserver.rest.pod_connect import (
    build_attach_handler,
    build_exec_handler,
    build_forward_handler,
)
from kubewright.local.apiserver.rest.pod_log import build_log_handler
from kubewright.local.apiserver.rest.proxy import ClusterProxy
from kubewright.local.apiserver.rest.routes import Handler
from kubewright.local.apiserver.rest.scale import get_scale, patch_scale, update_scale
from kubewright.local.apiserver.rest.token_request import build_token_handler
from kubewright.local.apiserver.rest.update import update
from kubewright.local.apiserver.tokens import TokenIssuer

BuildStrategy = Callable[[Call], Strategy]


def _ruled(handler: Handler, build: BuildStrategy) -> Handler:
    """Return a handler that goes by other rules than those of the kind as a whole."""

    async def run(call: Call) -> Answer:
        return await handler(replace(call, kind=replace(call.kind, strategy=build(call))))

    return run


def build_subresources(
    issuer: TokenIssuer | None, nodes: NodeProxy, proxy: ClusterProxy
) -> dict[tuple[str, str], Handler]:
    """Return the handlers by (subresource, verb)."""
    handlers: dict[tuple[str, str], Handler] = {
        ("scale", Verb.GET): get_scale,
        ("scale", Verb.UPDATE): update_scale,
        ("scale", Verb.PATCH): patch_scale,
        ("binding", Verb.CREATE): bind,
        ("eviction", Verb.CREATE): evict,
        ("finalize", Verb.UPDATE): finalize,
        ("log", Verb.GET): build_log_handler(nodes),
    }
    connections = {
        "attach": build_attach_handler(nodes),
        "exec": build_exec_handler(nodes),
        "portforward": build_forward_handler(nodes),
    }
    for name, handler in connections.items():
        for verb in (Verb.GET, Verb.CREATE):
            handlers[(name, verb)] = handler
    for verb in (Verb.GET, Verb.CREATE, Verb.UPDATE, Verb.PATCH, Verb.DELETE):
        handlers[("proxy", verb)] = proxy.handler()
    parts: dict[str, BuildStrategy | None] = {
        "approval": lambda call: ApprovalStrategy(call.kind, format_time(call.backend.now())),
        "ephemeralcontainers": None,
        "resize": lambda call: ResizeStrategy(call.kind),
    }
    for name, build in parts.items():
        handlers[(name, Verb.GET)] = get
        handlers[(name, Verb.UPDATE)] = update if build is None else _ruled(update, build)
        handlers[(name, Verb.PATCH)] = patch if build is None else _ruled(patch, build)
    if issuer is not None:
        handlers[("token", Verb.CREATE)] = build_token_handler(issuer)
    return handlers
