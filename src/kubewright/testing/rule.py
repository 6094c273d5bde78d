"""Rules: which requests a fault hits, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias, TypedDict

import msgspec

from kubewright.api.resource import Resource
from kubewright.client.kind import ObjectClass
from kubewright.testing.call import Call
from kubewright.testing.effect import Effect

Target: TypeAlias = str | Resource | ObjectClass[Any]
"""The resources that a rule is about.

A text is read as RBAC reads it: `pods` is the objects themselves, `pods/status` their subresource,
`*/status` that of all, `pods/*` the objects with all subresources, `*` everything, also paths of no
resource. `deployments.apps` names the group too, as a `Resource` or a custom resource class does.
"""


class Which(TypedDict, total=False):
    """Which of the requests that match a rule hits; every part may be left out.

    - `nth`: the first that is hit, counted from 1 when the rule is made;
    - `times`: how many are hit, one by default; None for all that follow;
    - `seconds`: for how long the rule is in force, on the clock of the faults;
    - `chance`: the probability that one that is due is hit;
    - `namespace`, `name`: those of the request's path;
    - `where`: any other test of the request.
    """

    nth: int
    times: int | None
    seconds: float | None
    chance: float
    namespace: str | None
    name: str | None
    where: Callable[[Call], bool] | None


class Match(msgspec.Struct, frozen=True):
    """Tell which requests are meant; what is left at its default does not restrict.

    `verb` in lower case is Kubernetes' own (`watch`, `deletecollection`), in upper case HTTP's
    (`PATCH`); `write` is every request that may change something. `target` is the resource: a text
    as in RBAC rules, such as `pods`, `pods/status`, `deployments.apps` or `*`, a `Resource` or a
    class. `where` is any other test of the request.
    """

    verb: str = "*"
    target: Target = "*"
    namespace: str | None = None
    name: str | None = None
    where: Callable[[Call], bool] | None = None

    def matches(self, call: Call) -> bool:
        """Tell whether a request is meant."""
        return (
            self._is_verb(call)
            and _is_target(self.target, call)
            and self.namespace in (None, call.namespace)
            and self.name in (None, call.name)
            and (self.where is None or self.where(call))
        )

    def _is_verb(self, call: Call) -> bool:
        if self.verb == "write":
            return call.is_write
        return self.verb in ("*", call.verb, call.method)

    def __str__(self) -> str:
        target = self.target
        what = target if isinstance(target, str) else _resource_of(target).group_resource
        parts = (self.verb, what, self.namespace and f"in {self.namespace}", self.name)
        return " ".join(part for part in parts if part)


def _resource_of(target: Resource | ObjectClass[Any]) -> Resource:
    return target if isinstance(target, Resource) else target.resource


def _is_target(target: Target, call: Call) -> bool:
    if not isinstance(target, str):
        resource = _resource_of(target)
        return (call.resource, call.group) == (resource.plural, resource.group)
    if target == "*":
        return True
    wanted, _, wanted_sub = target.partition("/")
    plural, dot, group = wanted.partition(".")
    found, _, found_sub = call.resource.partition("/")
    return (
        plural in ("*", found)
        and (not dot or group == call.group)
        and wanted_sub in ("*", found_sub)
    )


class Rule:
    """One fault in force: it ends after `times` hits, at a time, or when it is lifted.

    As a context manager it is lifted at the end of the block. `Faults` makes rules.

    Arguments:
        match: which requests are meant; `effect` is what becomes of them.
        nth: the first of them that is hit, counted from 1.
        times: how many are hit; None for all that follow.
        until: when it ends, in the clock's monotonic seconds; None for never.
        chance: the probability that one that is due is hit.
        on_lift: called when the rule is lifted.

    Raises:
        ValueError: `nth` or `times` is below 1.

    Attributes:
        seen: how many requests matched, hit or not.
        hits: the requests that were hit, in order.
    """

    def __init__(
        self,
        match: Match,
        effect: Effect,
        *,
        nth: int = 1,
        times: int | None = None,
        until: float | None = None,
        chance: float = 1.0,
        on_lift: Callable[[], None] = lambda: None,
    ) -> None:
        if nth < 1 or (times is not None and times < 1):
            raise ValueError("nth and times count from 1")
        self.match = match
        self.effect = effect
        self.seen = 0
        self.hits: list[Call] = []
        self._nth = nth
        self._times = times
        self._until = until
        self._chance = chance
        self._on_lift = on_lift
        self._lifted = asyncio.Event()
        self._hit = asyncio.Event()

    def __enter__(self) -> Rule:
        return self

    def __exit__(self, *exception: object) -> None:
        self.lift()

    @property
    def is_lifted(self) -> bool:
        """Whether somebody ended the rule."""
        return self._lifted.is_set()

    def is_over(self, now: float) -> bool:
        """Tell whether the rule hits nothing any more; `now` in the clock's monotonic seconds."""
        return (
            self.is_lifted
            or (self._times is not None and len(self.hits) >= self._times)
            or (self._until is not None and now >= self._until)
        )

    def take(self, call: Call, now: float, random: Random) -> bool:
        """Count a call that matches and tell whether the fault is due for it."""
        if self.is_over(now) or not self.match.matches(call):
            return False
        self.seen += 1
        return self.seen >= self._nth and (self._chance >= 1 or random.random() < self._chance)

    def record(self, call: Call) -> None:
        """Note that a request was hit."""
        self.hits.append(call)
        self._hit.set()

    def lift(self) -> None:
        """End the rule; what it holds goes on."""
        self._lifted.set()
        self._on_lift()

    async def wait_lifted(self) -> None:
        """Wait until somebody lifts the rule."""
        await self._lifted.wait()

    async def wait_hit(self, times: int = 1) -> None:
        """Wait until the rule has hit so many requests."""
        while len(self.hits) < times:
            self._hit.clear()
            await self._hit.wait()

    def __str__(self) -> str:
        return f"{self.match}: {self.effect}"
