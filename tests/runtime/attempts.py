"""An observer that keeps attempts, so that tests can tell what was done and how it ended."""

from __future__ import annotations

from kubewright.runtime.attempt import Attempt, current_attempt
from kubewright.runtime.observer import NoControllerObserver, NoObserver
from tests.runtime.conftest import eventually


class Attempts(NoObserver):
    """Keep every attempt that ended."""

    detailed = True

    def __init__(self) -> None:
        self.all: list[Attempt] = []
        self.began: list[Attempt] = []

    def controller(self, name: str, workers: int) -> NoControllerObserver:
        return KeepAttempts(self)

    def of(self, name: str) -> list[Attempt]:
        return [attempt for attempt in self.all if attempt.key.name == name]

    async def collect(self, name: str, count: int) -> list[Attempt]:
        async def are_there() -> bool:
            return len(self.of(name)) >= count

        await eventually(are_there)
        return self.of(name)


class KeepAttempts(NoControllerObserver):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def began(self, attempt: Attempt) -> None:
        assert current_attempt.get() is attempt
        self._attempts.began.append(attempt)

    def reconciled(self, attempt: Attempt) -> None:
        assert attempt in self._attempts.began
        self._attempts.all.append(attempt)
