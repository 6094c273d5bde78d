"""Several observers of one manager."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from kubewright.cache.cache import Cache
from kubewright.runtime.attempt import Attempt
from kubewright.runtime.observer import (
    ControllerObserver,
    NoControllerObserver,
    NoObserver,
    Observer,
)


def combine_observers(observers: Sequence[Observer]) -> Observer:
    """Return one observer that tells all of them, in their order."""
    if len(observers) == 1:
        return observers[0]
    return _Observers(observers) if observers else NoObserver()


class _Observers:
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    @property
    def detailed(self) -> bool:
        return any(observer.detailed for observer in self._observers)

    def attached(self, cache: Cache) -> None:
        for observer in self._observers:
            observer.attached(cache)

    def controller(self, name: str, workers: int) -> ControllerObserver:
        return _ControllerObservers([each.controller(name, workers) for each in self._observers])

    def leading(self, lease: str, *, is_leading: bool) -> None:
        for observer in self._observers:
            observer.leading(lease, is_leading=is_leading)

    def renewed_slowly(self, lease: str) -> None:
        for observer in self._observers:
            observer.renewed_slowly(lease)


class _ControllerObservers:
    """Tell each event to those alone who do something with it: the queue's are very many."""

    def __init__(self, observers: Sequence[ControllerObserver]) -> None:
        self._added = _find_listeners(observers, "added")
        self._taken = _find_listeners(observers, "taken")
        self._done = _find_listeners(observers, "done")
        self._retried = _find_listeners(observers, "retried")
        self._began = _find_listeners(observers, "began")
        self._reconciled = _find_listeners(observers, "reconciled")
        self._stalled = _find_listeners(observers, "stalled")

    def added(self, key: Hashable, priority: int, now: float) -> None:
        for tell in self._added:
            tell(key, priority, now)

    def taken(self, key: Hashable, now: float) -> None:
        for tell in self._taken:
            tell(key, now)

    def done(self, key: Hashable, now: float) -> None:
        for tell in self._done:
            tell(key, now)

    def retried(self, key: Hashable) -> None:
        for tell in self._retried:
            tell(key)

    def began(self, attempt: Attempt) -> None:
        for tell in self._began:
            tell(attempt)

    def reconciled(self, attempt: Attempt) -> None:
        for tell in self._reconciled:
            tell(attempt)

    def stalled(self, count: int) -> None:
        for tell in self._stalled:
            tell(count)


def _find_listeners(
    observers: Sequence[ControllerObserver], event: str
) -> tuple[Callable[..., Any], ...]:
    silent = getattr(NoControllerObserver, event)
    return tuple(
        getattr(observer, event)
        for observer in observers
        if getattr(type(observer), event, None) is not silent
    )
