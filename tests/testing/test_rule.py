"""Which requests a rule hits: pure."""

from __future__ import annotations

from random import Random

import pytest

from kubewright.api import builtin
from kubewright.testing import Call, Match, Rule
from kubewright.testing.effect import Cut, Refuse

PODS = "/api/v1/namespaces/ns/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/web"


def rule_of(match: Match, *, nth: int = 1, times: int | None = None, chance: float = 1) -> Rule:
    return Rule(match, Cut(after_commit=False), nth=nth, times=times, chance=chance)


def hits_of(rule: Rule, *calls: Call, seed: int = 0) -> list[int]:
    """Return the numbers, from 1, of the calls that the rule hits."""
    random = Random(seed)
    found = []
    for number, call in enumerate(calls, 1):
        if rule.take(call, 0.0, random):
            rule.record(call)
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource"),
    [
        ("GET", PODS, [], "list", "pods"),
        ("GET", PODS, [("watch", "true")], "watch", "pods"),
        ("GET", f"{PODS}/a", [], "get", "pods"),
        ("POST", PODS, [], "create", "pods"),
        ("DELETE", PODS, [], "deletecollection", "pods"),
        ("PATCH", f"{DEPLOYMENT}/status", [], "patch", "deployments/status"),
        ("PUT", "/api/v1/namespaces/ns/finalize", [], "update", "namespaces/finalize"),
        ("GET", "/version", [], "get", ""),
    ],
)
def test_a_call_is_named_as_rbac_names_it(
    method: str, path: str, query: list[tuple[str, str]], verb: str, resource: str
) -> None:
    call = Call.of(method, path, query)

    assert (call.verb, call.resource) == (verb, resource)


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        (Match(), True),
        (Match("PATCH"), True),
        (Match("patch"), True),
        (Match("write"), True),
        (Match("get"), False),
        (Match("*", "deployments"), False),
        (Match("*", "deployments/status"), True),
        (Match("*", "deployments.apps/status"), True),
        (Match("*", "deployments.example.com/status"), False),
        (Match("*", "*/status"), True),
        (Match("*", "deployments/*"), True),
        (Match("*", builtin.DEPLOYMENT), False),
        (Match(namespace="ns", name="web"), True),
        (Match(namespace="other"), False),
        (Match(where=lambda call: call.name == "db"), False),
    ],
    ids=str,
)
def test_a_match_reads_resources_as_rbac_does(match: Match, is_meant: bool) -> None:
    call = Call.of("PATCH", f"{DEPLOYMENT}/status")

    assert match.matches(call) is is_meant


def test_a_dry_run_is_no_write() -> None:
    call = Call.of("PATCH", DEPLOYMENT, [("dryRun", "All")])

    assert not Match("write").matches(call)


def test_the_nth_request_is_hit_and_others_do_not_count() -> None:
    patch, get = Call.of("PATCH", DEPLOYMENT), Call.of("GET", DEPLOYMENT)
    rule = rule_of(Match("PATCH"), nth=3, times=2)

    assert hits_of(rule, patch, get, patch, get, patch, patch, patch) == [5, 6]
    assert rule.is_over(0.0)


def test_chance_follows_the_seed() -> None:
    calls = [Call.of("GET", PODS)] * 50
    first = hits_of(rule_of(Match(), chance=0.3), *calls, seed=7)

    assert first == hits_of(rule_of(Match(), chance=0.3), *calls, seed=7)
    assert first != hits_of(rule_of(Match(), chance=0.3), *calls, seed=8)
    assert 0 < len(first) < 50


def test_a_rule_ends_at_its_time() -> None:
    rule = Rule(Match(), Cut(after_commit=False), until=5.0)
    call = Call.of("GET", PODS)

    assert rule.take(call, 4.9, Random(0))
    assert not rule.take(call, 5.0, Random(0))


@pytest.mark.parametrize(
    ("code", "reason"),
    [(409, "Conflict"), (410, "Expired"), (401, "Unauthorized"), (503, "ServiceUnavailable")],
)
def test_the_reason_follows_the_code(code: int, reason: str) -> None:
    assert Refuse(code).to_error().to_status()["reason"] == reason
