from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubewright.local.apiserver.certificates import ensure_certificates
from kubewright.local.apiserver.tokens import ISSUER, TokenIssuer

ACCOUNT = {"metadata": {"namespace": "n", "name": "a", "uid": "u"}}
HOUR = timedelta(hours=1)


class World:
    """A clock that is set, and the objects that exist."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.gone: set[str] = set()

    def exists(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return uid not in self.gone


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def issuer(tmp_path: Path, world: World) -> TokenIssuer:
    certificates = ensure_certificates(tmp_path / "c", [], world.now)
    return TokenIssuer(certificates.path("sa.key"), lambda: world.now, world.exists)


def test_a_token_names_its_account(issuer: TokenIssuer) -> None:
    token, _ = issuer.issue(ACCOUNT, [ISSUER], HOUR, "j")
    user = issuer.verify(token)
    assert user is not None
    assert user.name == "system:serviceaccount:n:a"
    assert "system:serviceaccounts:n" in user.groups
    assert user.uid == "u"


def test_a_token_for_others_is_none_for_the_api(issuer: TokenIssuer) -> None:
    token, _ = issuer.issue(ACCOUNT, ["vault"], HOUR, "j")
    assert issuer.verify(token) is None
    claims = issuer.read(token)
    assert claims is not None
    assert claims.audiences == ("vault",)


def test_tokens_expire(issuer: TokenIssuer, world: World) -> None:
    token, expires = issuer.issue(ACCOUNT, [ISSUER], HOUR, "j")
    world.now = expires
    assert issuer.verify(token) is None


def test_a_bound_token_ends_with_its_pod(issuer: TokenIssuer, world: World) -> None:
    token, _ = issuer.issue(ACCOUNT, [ISSUER], HOUR, "j", ("Pod", "p", "pod-uid"))
    assert issuer.verify(token) is not None
    world.gone.add("pod-uid")
    assert issuer.verify(token) is None


def test_a_changed_token_is_none(issuer: TokenIssuer) -> None:
    token, _ = issuer.issue(ACCOUNT, [ISSUER], HOUR, "j")
    head, payload, signature = token.split(".")
    for forged in (f"{head}.{payload[:-2]}AA.{signature}", f"{head}.{payload}.", "x", "a.b.c", ""):
        assert issuer.verify(forged) is None
