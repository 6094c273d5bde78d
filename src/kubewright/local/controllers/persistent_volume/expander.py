"""The expander: it says that somebody else is waited for who makes a volume larger.

No volume is grown by the control plane itself; what a provisioner made, its resizer grows.
"""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.cache.entry import Change
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.storage.claim import requested, wants_growth
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder


def build_expander_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that reports claims which ask for more than they have."""
    return Controller(
        "persistentvolume-expander",
        builtin.PERSISTENT_VOLUME_CLAIM,
        with_recorder(reconcile, recorder),
        changes=_asks_for_more,
        reads=[builtin.PERSISTENT_VOLUME],
    )


def _asks_for_more(change: Change) -> bool:
    claim = change.entry.object()
    if change.old is None:
        return wants_growth(claim)
    return wants_growth(claim) and requested(claim) > requested(change.old.object())


async def reconcile(key: NamespacedName, ctx: Context) -> None:
    """Report one claim, unless its volume is another's."""
    claim = ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, key)
    if claim is None or not wants_growth(claim):
        return
    name = claim["spec"].get("volumeName") or ""
    volume = ctx.get(builtin.PERSISTENT_VOLUME, NamespacedName("", name))
    reference = (volume or {"spec": {}})["spec"].get("claimRef") or {}
    if reference.get("uid") == claim["metadata"]["uid"]:
        note = "waiting for an external controller to expand this PVC"
        ctx.recorder.event(claim, "Normal", "ExternalExpanding", note)
