"""Certificates that replicas share: made once, whoever comes first, and renewed by one of them."""

from __future__ import annotations

import asyncio
import base64
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType
from kubewright.webhook.certificate import ServingCertificate, is_signed_by
from kubewright.webhook.certificate_source import FileCertificates, SecretCertificates
from kubewright.webhook.tls import SwappableTLS
from tests.webhook.conftest import build_certificates

NAMES = ["127.0.0.1"]


class MovedClock(SystemClock):
    """Tell another time than the machine."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


async def test_replicas_that_start_at_once_serve_the_same(client: Client, namespace: str) -> None:
    replicas = [build_certificates(client, namespace) for _ in range(5)]

    served = await asyncio.gather(*(replica.load(NAMES, b"") for replica in replicas))

    assert len(set(served)) == 1


async def test_what_is_damaged_is_made_anew(client: Client, namespace: str) -> None:
    first = await build_certificates(client, namespace).load(NAMES, b"")
    nonsense = base64.b64encode(b"nonsense").decode()
    for damage in ({"tls.key": nonsense}, {"ca.crt": None}, {"tls.crt": "AA=="}):
        await client.patch(
            builtin.SECRET,
            "webhook-cert",
            {"data": damage},
            type=PatchType.MERGE,
            namespace=namespace,
        )
        again = await build_certificates(client, namespace).load(NAMES, b"")
        assert again != first
        assert SwappableTLS().load(again)


async def test_a_rotation_through_the_years(client: Client, namespace: str) -> None:
    """Two replicas, asked once a day for three years: what is shown was trusted the day before."""
    clock = MovedClock()
    key = NamespacedName(namespace, "webhook-cert")
    one, two = (SecretCertificates(client, key, clock=clock) for _ in range(2))
    trusted, shown = b"", set()
    for day in range(3 * 365):
        clock.ahead = timedelta(days=day)
        for replica in (one, two):
            serving = await replica.load(NAMES, trusted)
            if day:
                assert_verified(serving, trusted)
            shown.add(serving.certificate)
            trusted = serving.authorities
    assert 15 <= len(shown) <= 25


def assert_verified(serving: ServingCertificate, trusted: bytes) -> None:
    certificate = x509.load_pem_x509_certificate(serving.certificate)
    authorities = x509.load_pem_x509_certificates(trusted)
    assert any(is_signed_by(certificate, authority) for authority in authorities)


async def test_files_are_read_again(tmp_path: Path, client: Client, namespace: str) -> None:
    made = await build_certificates(client, namespace).load(NAMES, b"")
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    files = FileCertificates(tmp_path)

    assert (await files.load([], None)).authorities == b""
    (tmp_path / "ca.crt").write_bytes(made.authorities)
    assert await files.load([], None) == made


async def test_files_of_another_authority_wait_until_it_is_known(tmp_path: Path) -> None:
    clock = MovedClock()
    files = FileCertificates(tmp_path, clock=clock)

    def write(name: str) -> None:
        for file in ("tls.crt", "tls.key", "ca.crt"):
            (tmp_path / file).write_text(f"{name} {file};")

    async def load_after(minutes: float, trusted: bytes) -> tuple[bytes, bytes]:
        clock.ahead += timedelta(minutes=minutes)
        loaded = await files.load([], trusted)
        return loaded.certificate, loaded.authorities

    write("a")
    assert await load_after(0, b"") == (b"a tls.crt;", b"a ca.crt;")
    write("b")
    both = b"b ca.crt;a ca.crt;"
    assert await load_after(5, b"a ca.crt;") == (b"a tls.crt;", both)
    assert await load_after(0, both) == (b"a tls.crt;", both)
    assert await load_after(0.5, both) == (b"a tls.crt;", both)
    assert await load_after(0.6, both) == (b"b tls.crt;", both)
    assert await load_after(9, both) == (b"b tls.crt;", both)
    assert await load_after(2, both) == (b"b tls.crt;", b"b ca.crt;")


async def test_a_replica_that_starts_in_a_change_keeps_what_the_others_serve(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    for file in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / file).write_text(f"b {file};")

    for trusted in (b"a ca.crt;", b"b ca.crt;a ca.crt;"):
        files = FileCertificates(tmp_path, clock=clock)
        loaded = await files.load([], trusted)
        assert (loaded.certificate, loaded.authorities) == (b"b tls.crt;", b"b ca.crt;a ca.crt;")
        clock.ahead += timedelta(minutes=11)
        assert (await files.load([], trusted)).authorities == b"b ca.crt;"


async def test_a_folder_without_a_certificate_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tls.crt: No such file .* holds tls.crt"):
        await FileCertificates(tmp_path).load([], None)


async def test_a_pair_that_does_not_fit_leaves_the_old_one(client: Client, namespace: str) -> None:
    made = await build_certificates(client, namespace).load(NAMES, b"")
    tls = SwappableTLS()
    assert tls.load(made)
    assert not tls.load(made)

    with pytest.raises(ConfigurationError, match="certificate and key cannot be used"):
        tls.load(ServingCertificate(made.certificate, b"nonsense"))
    assert tls.is_loaded
