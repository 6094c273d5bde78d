"""The namespace controller: read, delete, report, finalize."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time, parse_time
from kubewright.client.accepting import build_metadata_client
from kubewright.client.client import Client
from kubewright.local.controllers.discovery import discover
from kubewright.local.controllers.namespace.conditions import build_conditions
from kubewright.local.controllers.namespace.content import delete_content
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result

NAME = "namespace-controller"
FINALIZER = "kubernetes"

_SOONEST = timedelta(seconds=0.2)
_LATEST = timedelta(seconds=10)


def build_namespace_controller() -> Controller:
    """Build the controller that empties deleted namespaces and lets them go.

    Flow: discover what is served, delete all of it in the namespace, write what is left as
    conditions, and take the finalizer off when nothing is. Objects of any kind may be left, so no
    watch tells when to look again: a deletion that takes long is looked at less often.
    """
    return Controller(NAME, builtin.NAMESPACE, _Reconciler().reconcile, workers=8)


class _Reconciler:
    """Keeps one client for metadata, so that a warning of the server is logged once."""

    def __init__(self) -> None:
        self._metadata: Client | None = None

    def _read_metadata(self, client: Client) -> Client:
        if self._metadata is None:
            self._metadata = build_metadata_client(client)
        return self._metadata

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring the deletion of one namespace a step further."""
        namespace = ctx.get(builtin.NAMESPACE, key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp") is None:
            return None
        if FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return None
        content = await delete_content(
            ctx.client, self._read_metadata(ctx.client), key.name, await discover(ctx.client)
        )
        now = ctx.clock.now()
        status = dict(namespace.get("status") or {})
        status["phase"] = "Terminating"
        status["conditions"] = build_conditions(
            status.get("conditions") or [], content, format_time(now)
        )
        try:
            if status != namespace.get("status"):
                namespace = await ctx.replace({**namespace, "status": status}, subresource="status")
            if content.is_empty:
                await ctx.replace(build_finalized(namespace), subresource="finalize")
                return None
        except NotFound:
            return None
        return Result(after=next_look(namespace, now))


def build_finalized(namespace: Object) -> Object:
    """Build the namespace without this controller's finalizer."""
    spec = namespace["spec"]
    finalizers = [name for name in spec.get("finalizers") or () if name != FINALIZER]
    return {**namespace, "spec": {**spec, "finalizers": finalizers}}


def next_look(namespace: Object, now: datetime) -> timedelta:
    """Return when to look again: after a quarter of the time that the deletion has taken so far."""
    elapsed = now - parse_time(namespace["metadata"]["deletionTimestamp"])
    return min(max(elapsed / 4, _SOONEST), _LATEST)
