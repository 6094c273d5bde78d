from __future__ import annotations

import base64
import json
from datetime import timedelta

from tests.local.controllers.objects import NOW

from kubewright.api.resource import Object
from kubewright.local.controllers.service_account.token_secret import (
    ACCOUNT_NAME,
    LIFETIME,
    account_of,
    build_token_patch,
    renewal_in,
)

ACCOUNT: Object = {"metadata": {"name": "bot", "namespace": "ns", "uid": "a"}}


def build_secret(expires_in: timedelta | None = None, uid: str = "a") -> Object:
    secret: Object = {
        "metadata": {
            "name": "t",
            "namespace": "ns",
            "uid": "s",
            "annotations": {ACCOUNT_NAME: "bot"},
        }
    }
    if expires_in is None:
        return secret
    claims = json.dumps({"exp": (NOW + expires_in).timestamp()}).encode()
    token = b".".join([b"e30", base64.urlsafe_b64encode(claims).rstrip(b"="), b"x"]).decode()
    account: Object = {"metadata": {"uid": uid}}
    patch = build_token_patch(secret, account, token, "CA")
    secret["metadata"]["annotations"].update(patch["metadata"]["annotations"])
    return {**secret, "data": patch["data"]}


def test_names_its_account() -> None:
    assert account_of(build_secret()) == ("ns", "bot")


def test_an_empty_secret_and_that_of_another_account_are_filled_at_once() -> None:
    assert renewal_in(build_secret(), ACCOUNT, NOW) == timedelta()
    assert renewal_in(build_secret(LIFETIME, uid="other"), ACCOUNT, NOW) == timedelta()


def test_a_token_is_renewed_before_it_expires() -> None:
    assert renewal_in(build_secret(LIFETIME), ACCOUNT, NOW) == LIFETIME * 4 / 5
    assert renewal_in(build_secret(timedelta(days=1)), ACCOUNT, NOW) == timedelta()


def test_a_token_that_cannot_be_read_is_replaced() -> None:
    secret = build_secret(LIFETIME)
    secret["data"]["token"] = base64.b64encode(b"nonsense").decode()
    assert renewal_in(secret, ACCOUNT, NOW) == timedelta()
