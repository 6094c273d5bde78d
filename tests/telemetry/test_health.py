"""Ready is what is synced and follows the API server; a short gap is forgiven."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubewright.api.errors import KubewrightError, TransportError
from kubewright.telemetry.health import Health, Part


@dataclass(eq=False)
class Follower:
    failure: KubewrightError | None = None
    failing_since: float | None = None

    def __str__(self) -> str:
        return "reflector of pods"


@dataclass
class Cache:
    reflectors: list[Follower] = field(default_factory=lambda: [Follower()])


@dataclass
class Manager:
    is_ready: bool = True
    cache: Cache = field(default_factory=Cache)
    readiness_checks: list[Part] = field(default_factory=list)
    now: float = 1000.0

    @property
    def follower(self) -> Follower:
        return self.cache.reflectors[0]

    def fail(self) -> None:
        self.follower.failure = TransportError("refused")
        self.follower.failing_since = self.now

    def follow(self) -> None:
        self.follower.failure = self.follower.failing_since = None


def test_a_silent_watch_that_stands_is_ready() -> None:
    manager = Manager()
    health = Health(manager, monotonic=lambda: manager.now)

    manager.now = 5000.0

    assert (health.ready().status, health.ready().text) == (200, "ok")


def test_says_what_keeps_the_caches_from_being_synced() -> None:
    manager = Manager(is_ready=False)
    manager.fail()

    answer = Health(manager, monotonic=lambda: manager.now).ready()

    assert answer.status == 500
    assert answer.text == "the caches are not synced\nreflector of pods: refused\n"


def test_a_watch_that_fails_for_a_minute_is_unready_until_it_follows() -> None:
    manager = Manager()
    health = Health(manager, monotonic=lambda: manager.now)
    manager.fail()
    assert health.ready().status == 200

    manager.now += 59.9
    assert health.ready().status == 200
    manager.now += 0.1
    assert health.ready().text == "reflector of pods is behind for 60 s: refused\n"

    manager.follow()
    assert health.ready().status == 200


def test_two_short_gaps_do_not_add_up() -> None:
    manager = Manager()
    health = Health(manager, monotonic=lambda: manager.now)
    manager.fail()
    health.ready()

    # Between two probes it followed the server, and broke again.
    manager.now += 30
    manager.follow()
    manager.fail()
    manager.now += 40

    assert health.ready().status == 200


def test_alive_while_unready() -> None:
    manager = Manager(is_ready=False)

    assert Health(manager, monotonic=lambda: manager.now).alive().status == 200


def test_a_part_that_is_not_ready_keeps_the_process_from_being_ready() -> None:
    class Webhooks:
        def find_problems(self) -> list[str]:
            return ["no certificate is loaded"]

    manager = Manager(readiness_checks=[Webhooks()])

    answer = Health(manager, monotonic=lambda: manager.now).ready()

    assert (answer.status, answer.text) == (500, "no certificate is loaded\n")
