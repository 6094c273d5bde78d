"""The webhook flags of `kubewright run`: few, and with an answer to every wrong use."""

from __future__ import annotations

import argparse

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.cli.webhooks import Webhooks, add_webhook_flags

LOCAL, REMOTE = "https://127.0.0.1:6443", "https://api.example.com"


def parse(*arguments: str, server: str = LOCAL) -> Webhooks:
    parser = argparse.ArgumentParser()
    add_webhook_flags(parser)
    return Webhooks.parse(parser.parse_args(arguments), server)


def test_nothing_is_served_by_default() -> None:
    assert parse().address is None


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (":9443", "https://127.0.0.1:9443"),
        ("0.0.0.0:9443", "https://127.0.0.1:9443"),
        ("127.0.0.2:1", "https://127.0.0.2:1"),
        ("[::1]:9443", "https://[::1]:9443"),
    ],
)
@pytest.mark.parametrize("server", [LOCAL, "https://localhost:1", "https://[::1]:6443"])
def test_a_local_api_server_reaches_the_bind_address(address: str, url: str, server: str) -> None:
    endpoint = parse("--webhook-bind-address", address, server=server).endpoint

    assert endpoint is not None
    assert endpoint.url == url


def test_a_service_is_named_for_a_cluster() -> None:
    flags = ("--webhook-bind-address", ":9443", "--webhook-service", "system/hooks")

    endpoint = parse(*flags, server=REMOTE).endpoint

    assert endpoint is not None
    assert endpoint.names == ["hooks.system.svc", "hooks.system.svc.cluster.local"]


def test_with_files_alone_manifests_say_where_webhooks_are() -> None:
    flags = ("--webhook-bind-address", ":9443", "--webhook-cert-dir", "/certs")

    assert parse(*flags, server=REMOTE).endpoint is None


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--webhook-bind-address", "9443"], "--webhook-bind-address 9443: write it as :PORT"),
        (["--webhook-bind-address", ":9443"], "the API server is on another machine"),
        (["--webhook-url", "https://x"], "need --webhook-bind-address"),
        (
            ["--webhook-bind-address", ":1", "--webhook-url", "http://x"],
            "the webhook URL http://x cannot be used: write it as https://HOST:PORT",
        ),
        (
            ["--webhook-bind-address", ":1", "--webhook-service", "hooks"],
            "the webhook Service hooks cannot be used: write it as NAMESPACE/NAME",
        ),
        (
            ["--webhook-bind-address", ":1", "--webhook-service", "a/b", "--webhook-url", "h"],
            "give one",
        ),
    ],
)
def test_what_does_not_fit_together_is_told_with_what_to_do(
    flags: list[str], sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse(*flags, server=REMOTE)
    assert sentence in str(refusal.value)
