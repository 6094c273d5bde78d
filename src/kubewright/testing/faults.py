"""The faults between a client and its API server: one vocabulary, whatever carries the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Unpack

import msgspec

from kubewright.api.errors import TransportError
from kubewright.client.clock import Clock, SystemClock
from kubewright.testing.call import Call
from kubewright.testing.effect import Cut, Delay, Effect, Hold, Kill, Lag, Refuse
from kubewright.testing.faulty_stream import FaultyStream
from kubewright.testing.rule import Match, Rule, Target, Which
from kubewright.testing.traffic import Traffic


class Hit(msgspec.Struct, frozen=True):
    """A fault that was applied: its `effect` in words, and the `call` that it hit."""

    effect: str
    call: Call

    def __str__(self) -> str:
        return f"{self.call}: {self.effect}"


class Verdict(msgspec.Struct):
    """What is to happen to one request: first it is held, then it ends, its answer comes late."""

    holds: list[Rule] = []
    ending: Refuse | Cut | Kill | None = None
    delay: float = 0.0
    killer: Rule | None = None

    @property
    def refusal(self) -> Refuse | None:
        """The answer that takes the place of the server's, where there is one."""
        return self.ending if isinstance(self.ending, Refuse) else None


class Faults:
    """The rules in force, what they hit, and what passed.

    Every method that makes a rule takes a `verb` and a `target` (see `Match`) and, as keywords,
    which of the matching requests it hits (see `Which`); by default the next one. It returns the
    `Rule`, which tells its `hits`, waits for them and can be lifted. `seed` decides where chance
    does.

    All rules count all requests. Of those that are due, the first made decides how the request
    ends; holds and delays add up. Use it from one event loop.

    Attributes:
        log: every fault that was applied, in order.
        traffic: every request that was sent, hit or not.
        is_dead: whether a kill has closed the way.
    """

    def __init__(self, *, seed: int = 0, clock: Clock | None = None) -> None:
        self.log: list[Hit] = []
        self.traffic = Traffic()
        self.is_dead = False
        self._clock = clock or SystemClock()
        self._random = Random(seed)
        self._rules: list[Rule] = []
        self._streams: set[FaultyStream] = set()

    def fail(
        self,
        verb: str = "*",
        target: Target = "*",
        *,
        code: int,
        reason: str = "",
        message: str = "",
        retry_after: int | None = None,
        **which: Unpack[Which],
    ) -> Rule:
        """Answer requests with an error in the server's place.

        `code` is the HTTP status. `reason` follows it where it is not given: 409 is Conflict, 410
        Expired. `message` is what the error says.
        `retry_after` is the header's value in seconds; a kubewright client repeats a 429 or 503
        that carries it by itself, and each repetition counts.
        """
        return self.add(Refuse(code, reason, message, retry_after), verb, target, **which)

    def cut(
        self,
        verb: str = "*",
        target: Target = "*",
        *,
        after_commit: bool = False,
        **which: Unpack[Which],
    ) -> Rule:
        """Break the connection of requests: the server never sees them, or acts and is not heard.

        With `after_commit` the request is carried out and only its answer is lost.
        """
        return self.add(Cut(after_commit), verb, target, **which)

    def delay(
        self, verb: str = "*", target: Target = "*", *, by: float, **which: Unpack[Which]
    ) -> Rule:
        """Keep answers back `by` so many seconds; the server has acted long before."""
        return self.add(Delay(by), verb, target, **which)

    def hold(self, verb: str = "*", target: Target = "*", **which: Unpack[Which]) -> Rule:
        """Freeze requests on their way to the server until the rule is lifted; all by default.

        `await rule.wait_hit()` tells that one is frozen.
        """
        which.setdefault("times", None)
        return self.add(Hold(), verb, target, **which)

    def unavailable(
        self,
        verb: str = "*",
        target: Target = "*",
        *,
        retry_after: int | None = None,
        **which: Unpack[Which],
    ) -> Rule:
        """Answer 503 for some `seconds`, or until the rule is lifted. Open watches go on.

        With `retry_after`, in seconds, a client repeats its request by itself.
        """
        which.setdefault("times", None)
        return self.fail(verb, target, code=503, retry_after=retry_after, **which)

    def reject_credentials(self, **which: Unpack[Which]) -> Rule:
        """Answer 401, once by default, whatever was asked."""
        return self.fail(code=401, **which)

    def expire_watches(self, target: Target = "*", **which: Unpack[Which]) -> Rule:
        """Answer watches that are opened with 410: their resource version is too old."""
        return self.fail("watch", target, code=410, **which)

    def expire_pages(self, target: Target = "*", **which: Unpack[Which]) -> Rule:
        """Answer lists that go on with a continue token with 410: the token is too old."""
        which.setdefault("where", lambda call: bool(call.query.get("continue")))
        return self.fail("list", target, code=410, **which)

    def lag_watches(self, target: Target = "*", *, by: float, seconds: float | None = None) -> Rule:
        """Bring the events of watches late `by` so many seconds, also of those that are open.

        The rule is in force for some `seconds`, or until it is lifted.
        """
        rule = self.add(Lag(by), "watch", target, times=None, seconds=seconds)
        self._wake_streams()
        return rule

    def kill(
        self,
        verb: str = "*",
        target: Target = "*",
        *,
        after_commit: bool = False,
        **which: Unpack[Which],
    ) -> Rule:
        """Kill the client at a request: nothing passes from there on, as after SIGKILL.

        Its requests and watches get no answer and no error; cancel its tasks when `wait_hit`
        returns, which is when the fatal request is lost, or with `after_commit` carried out. Of
        other requests in flight the answers are lost.
        """
        return self.add(Kill(after_commit), verb, target, **which)

    def drop_watches(self, target: Target = "*", *, clean: bool = False) -> int:
        """End the watches that are open now, as broken connections; return how many they were.

        With `clean` they end as a server closes them that has nothing more to say.
        """
        how = "closed" if clean else "dropped"
        return self._interfere(target, how, lambda stream: stream.drop(clean=clean))

    def send_error(self, target: Target = "*", *, code: int, reason: str = "") -> int:
        """End the watches that are open now with an ERROR event; return how many they were.

        `code` is the one in its Status; the reason follows from it where it is not given.
        """
        error = Refuse(code, reason)
        how = f"ERROR event {code}"
        return self._interfere(target, how, lambda stream: stream.end_with(error.to_event()))

    def add(
        self, effect: Effect, verb: str = "*", target: Target = "*", **which: Unpack[Which]
    ) -> Rule:
        """Put a rule with an effect in force; the methods above are short forms of this one."""
        seconds = which.get("seconds")
        rule = Rule(
            Match(verb, target, which.get("namespace"), which.get("name"), which.get("where")),
            effect,
            nth=which.get("nth", 1),
            times=which.get("times", 1),
            until=None if seconds is None else self._clock.monotonic() + seconds,
            chance=which.get("chance", 1.0),
            on_lift=self._wake_streams,
        )
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Lift all rules; a client that was killed stays dead until `revive`."""
        for rule in self._rules:
            rule.lift()
        self._rules.clear()

    def revive(self) -> None:
        """Let requests pass after a kill, as those of a new process; what was frozen stays so."""
        self.is_dead = False

    def decide(self, call: Call) -> Verdict:
        """Count a request in every rule and decide what is to happen to it."""
        verdict = Verdict()
        now = self._clock.monotonic()
        for rule in self._rules:
            if isinstance(rule.effect, Lag) or not rule.take(call, now, self._random):
                continue
            match rule.effect:
                case Hold():
                    verdict.holds.append(rule)
                case Delay(seconds):
                    verdict.delay += seconds
                case effect if verdict.ending is None:
                    verdict.ending = effect
                case _:
                    continue
            if isinstance(rule.effect, Kill):
                # A hit when it has happened; until then no other request is let in.
                verdict.killer, self.is_dead = rule, True
            else:
                self._note(rule, call)
        return verdict

    @asynccontextmanager
    async def passage(self, call: Call) -> AsyncIterator[Refuse | None]:
        """Let a request pass to the server, in its time, then its answer to the client, in its.

        The block sends the request, or takes the answer that it is lent in place of the server's.

        Raises:
            TransportError: the connection is cut, before the block or after it.
        """
        with self.traffic.flight(call):
            verdict = await self._admit(call)
            try:
                yield verdict.refusal
            except TransportError:
                await self._release(call, verdict)
                raise
            await self._release(call, verdict)

    @contextmanager
    def open_stream(self, call: Call) -> Iterator[FaultyStream]:
        """Keep a stream within reach of the faults while the block lasts."""
        stream = FaultyStream(call, self._clock, self._lag_of)
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    async def _admit(self, call: Call) -> Verdict:
        await self._stop_if_dead()
        verdict = self.decide(call)
        for rule in verdict.holds:
            await rule.wait_lifted()
        match verdict.ending:
            case Cut(after_commit=False):
                raise TransportError(f"{call}: a fault cut the connection before the request")
            case Kill(after_commit=True):
                return verdict
            case Kill():
                self._die(verdict, call)
        await self._stop_if_dead()
        return verdict

    async def _release(self, call: Call, verdict: Verdict) -> None:
        self._die(verdict, call)
        await self._stop_if_dead()
        if verdict.delay:
            await self._clock.sleep(verdict.delay)
        await self._stop_if_dead()
        if isinstance(verdict.ending, Cut):
            raise TransportError(f"{call}: a fault cut the connection; the answer is lost")

    def _lag_of(self, call: Call) -> float:
        now, lag = self._clock.monotonic(), 0.0
        for rule in self._rules:
            effect = rule.effect
            if isinstance(effect, Lag) and not rule.is_over(now) and rule.match.matches(call):
                lag = max(lag, effect.seconds)
                if call not in rule.hits:
                    self._note(rule, call)
        return lag

    def _interfere(self, target: Target, how: str, act: Callable[[FaultyStream], None]) -> int:
        match = Match("watch", target)
        hit = [stream for stream in self._streams if match.matches(stream.call)]
        for stream in hit:
            act(stream)
            self.log.append(Hit(how, stream.call))
        return len(hit)

    def _note(self, rule: Rule, call: Call) -> None:
        rule.record(call)
        self.log.append(Hit(str(rule.effect), call))

    def _wake_streams(self) -> None:
        for stream in self._streams:
            stream.wake()

    def _die(self, verdict: Verdict, call: Call) -> None:
        if verdict.killer is None:
            return
        for stream in self._streams:
            stream.freeze()
        self._note(verdict.killer, call)

    async def _stop_if_dead(self) -> None:
        if self.is_dead:
            await asyncio.Event().wait()
