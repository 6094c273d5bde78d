"""Gates: the order in which children come to be and go."""

from __future__ import annotations

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.runtime.readiness import Progress, Readiness, compute_child_readiness

STAGE = "kubewright.dev/stage"
"""The annotation that tells how many gates came before a child; without it, none did."""


class Gate(msgspec.Struct, frozen=True):
    """Hold back what is yielded after it until all that was yielded before it is ready.

        yield database(app)
        yield Gate()
        yield web(app)

    What comes after a closed gate is neither made nor changed, and nothing is deleted; what exists
    stays as it is. What is no longer desired goes in the reverse order: first what came after the
    last gate. The status says what is waited for.

    Ready is what `compute_child_readiness` calls current: a claim need not be bound. A Job is ready
    when it is complete.
    """


def stage_of(obj: Object) -> int:
    """Return how many gates came before a child."""
    annotations = (obj.get("metadata") or {}).get("annotations")
    if not annotations or STAGE not in annotations:
        return 0
    text = annotations[STAGE]
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() else 0


def compute_gate(obj: Object) -> Readiness:
    """Compute whether a gate lets pass what waits for an object.

    It differs from the readiness of a child in one point: a Job that runs is as its spec wants it,
    but what waits for it needs its end.
    """
    readiness = compute_child_readiness(obj)
    kind = (obj.get("apiVersion"), obj.get("kind"))
    status = obj.get("status") or {}
    if kind == ("batch/v1", "Job") and readiness.is_ready:
        complete = find_condition(status.get("conditions") or (), "Complete")
        if complete is None or complete.get("status") != "True":
            return Readiness(Progress.IN_PROGRESS, "it is not complete")
    return readiness
