"""Whether a process is alive, and whether its caches follow the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from kubewright.api.errors import KubewrightError
from kubewright.telemetry.endpoints import Answer

PATIENCE = timedelta(seconds=60)


class Follower(Protocol):
    """What is known of a reflector: see `kubewright.cache.reflector.Reflector`."""

    @property
    def failure(self) -> KubewrightError | None:
        """Why it is behind; None while it follows the server."""
        ...

    @property
    def failing_since(self) -> float | None:
        """Since when it is, in monotonic seconds; None while it follows the server."""
        ...


class Watched(Protocol):
    """The part of a cache that tells how its reflectors are."""

    @property
    def reflectors(self) -> Sequence[Follower]:
        """The reflectors that feed the stores."""
        ...


class Part(Protocol):
    """A part of a manager that knows by itself when it is not ready, such as a webhook server."""

    def find_problems(self) -> Sequence[str]:
        """Return one sentence for each reason not to be ready."""
        ...


class Checked(Protocol):
    """The part of a manager that probes ask."""

    @property
    def is_ready(self) -> bool:
        """Whether all caches are synced: the workers run, or stand by for the leadership."""
        ...

    @property
    def cache(self) -> Watched:
        """The cache that all controllers share."""
        ...

    @property
    def readiness_checks(self) -> Sequence[Part]:
        """The parts that know by themselves when they are not ready."""
        ...


class Health:
    """Answer the probes of a kubelet for a manager.

    Alive is what answers. `/healthz` is answered on the event loop on purpose: a loop that is
    blocked does not answer, the probe runs into its own `timeoutSeconds`, and after
    `failureThreshold` of them the kubelet restarts the container. With 1 s, every 10 s and three
    times, as scaffolds have it, a loop may be blocked for about 20 s.

    Ready is a manager whose caches are synced and follow the API server. A replica that stands by
    for the leadership is ready, else a rolling update would never end. A watch is behind from its
    first failure to its next word of the server; for `patience` that is forgiven. A silent but
    standing watch is not behind.
    """

    def __init__(
        self, manager: Checked, *, monotonic: Callable[[], float], patience: timedelta = PATIENCE
    ) -> None:
        self._manager = manager
        self._monotonic = monotonic
        self._patience = patience.total_seconds()

    def alive(self) -> Answer:
        """Answer `/healthz`."""
        return Answer(200, "ok")

    def ready(self) -> Answer:
        """Answer `/readyz`; what keeps the manager from being ready is in the body."""
        problems = self.find_problems()
        return Answer(500, "\n".join(problems) + "\n") if problems else Answer(200, "ok")

    def find_problems(self) -> list[str]:
        """Return one sentence for each reason not to be ready."""
        reflectors = self._manager.cache.reflectors
        parts = [text for part in self._manager.readiness_checks for text in part.find_problems()]
        if self._manager.is_ready:
            return [*self._find_behind(reflectors), *parts]
        reasons = [f"{each}: {each.failure}" for each in reflectors if each.failure is not None]
        return ["the caches are not synced", *reasons, *parts]

    def _find_behind(self, reflectors: Iterable[Follower]) -> Iterable[str]:
        now = self._monotonic()
        for each in reflectors:
            since = each.failing_since
            if since is not None and now - since >= self._patience:
                yield f"{each} is behind for {now - since:.0f} s: {each.failure}"
