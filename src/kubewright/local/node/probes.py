"""Probes: when they run, and what their results add up to."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

from kubewright.api.resource import Object
from kubewright.client.clock import Clock
from kubewright.local.node.environment import expand
from kubewright.local.node.runtime import Outcome, ProbeResult


class ProbeKind(enum.Enum):
    """What a probe decides."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"

    @property
    def field(self) -> str:
        """The container's field that holds such a probe."""
        return f"{self.value.lower()}Probe"


def expand_command(container: Object, probe: Object) -> Object:
    """Return a probe with $(NAME) in its command replaced, by the variables with a plain value."""
    command = (probe.get("exec") or {}).get("command")
    if not command:
        return probe
    variables = {entry["name"]: entry.get("value") or "" for entry in container.get("env") or ()}
    return {**probe, "exec": {"command": [expand(word, variables) for word in command]}}


def describe_result(kind: ProbeKind, result: ProbeResult) -> tuple[str, str] | None:
    """Return the reason and the note of the Event about a probe's result, if it is worth one."""
    if result.outcome is Outcome.FAILURE:
        return "Unhealthy", f"{kind.value} probe failed: {result.output}"
    if result.outcome is Outcome.UNKNOWN:
        return (
            "Unhealthy",
            f"{kind.value} probe errored and resulted in unknown state: {result.output}",
        )
    if result.warning:
        return "ProbeWarning", f"{kind.value} probe warning: {result.warning}"
    return None


class ProbeVerdict:
    """Adds up results: a verdict changes after so many equal results in a row."""

    def __init__(self, probe: Object) -> None:
        self._success = int(probe.get("successThreshold") or 1)
        self._failure = int(probe.get("failureThreshold") or 3)
        self._last: Outcome | None = None
        self._count = 0

    def add(self, outcome: Outcome) -> bool | None:
        """Add a result; return the verdict if a threshold is reached, else None."""
        if outcome is Outcome.UNKNOWN:
            return None
        self._count = self._count + 1 if outcome is self._last else 1
        self._last = outcome
        succeeded = outcome is Outcome.SUCCESS
        needed = self._success if succeeded else self._failure
        return succeeded if self._count >= needed else None


async def run_probe(
    probe: Object,
    clock: Clock,
    ask: Callable[[], Awaitable[ProbeResult]],
    tell: Callable[[bool | None, ProbeResult], bool],
) -> None:
    """Run a probe at its period until `tell` returns False.

    `tell` gets the verdict, if there is one, with every result.
    """
    verdict = ProbeVerdict(probe)
    period = float(probe.get("periodSeconds") or 10)
    await clock.sleep(float(probe.get("initialDelaySeconds") or 0))
    while True:
        began = clock.monotonic()
        result = await ask()
        if not tell(verdict.add(result.outcome), result):
            return
        await clock.sleep(max(0.0, period - (clock.monotonic() - began)))
