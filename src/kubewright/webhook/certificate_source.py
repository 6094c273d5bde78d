"""Where the serving certificate comes from: a Secret that all replicas share, or files."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, ConfigurationError, Conflict, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.webhook.certificate import (
    Lifetimes,
    Material,
    ServingCertificate,
    decode_key,
    encode_certificates,
    encode_key,
)
from kubewright.webhook.certificate_rotation import Step, make_material, plan_rotation, rotate

_logger = logging.getLogger(__name__)


class CertificateSource(Protocol):
    """Gives the certificate to serve, now and after each change."""

    @property
    def interval(self) -> timedelta:
        """How often to ask again."""
        ...

    async def load(self, names: Sequence[str], trusted: bytes | None) -> ServingCertificate:
        """Return what to serve now.

        Arguments:
            names: the DNS names and addresses that clients reach the server by.
            trusted: the authorities (PEM) that the configurations of this server hold for certain;
                None where they are not written by it.

        Raises:
            ConfigurationError: there is no certificate that can be used.
            APIError: the API server refuses what is needed.
        """
        ...


class TrustTimer:
    """Tells when an authority has been in the configurations long enough to be known everywhere."""

    def __init__(self, clock: Clock, settle: timedelta) -> None:
        self._clock = clock
        self._settle = settle.total_seconds()
        self._newest = b""
        self._since = 0.0

    def is_settled(self, newest: bytes, trusted: bytes | None) -> bool:
        """Note what is trusted at this moment; None where it is not known, and so only waited for.

        Where an authority is missing again, its time begins anew.
        """
        if trusted is not None and newest not in trusted:
            self._newest = b""
            return False
        now = self._clock.monotonic()
        if self._newest != newest:
            self._newest, self._since = newest, now
        return now - self._since >= self._settle


class FileCertificates:
    """Read `tls.crt`, `tls.key` and, where it is there, `ca.crt` of a folder.

    The folder is read again at each call: a mounted Secret changes in place. A pair that does not
    fit together, as in the middle of a change, raises, and is read again at the next call. Where
    `ca.crt` changes too, the former pair is served until the new authority is known, and the
    former authority stays trusted for a while: other replicas may read the files later.

    Arguments:
        folder: where the files are.
        clock: what it measures by.
        settle: how long API servers may take to hear of a new authority.
        linger: how long a former authority stays trusted.
        interval: how often the server asks again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        settle: timedelta = timedelta(minutes=1),
        linger: timedelta = timedelta(minutes=10),
        interval: timedelta = timedelta(seconds=10),
    ) -> None:
        self._folder = folder
        self._clock: Clock = SystemClock() if clock is None else clock
        self._timer = TrustTimer(self._clock, settle)
        self._linger = linger.total_seconds()
        self.interval = interval
        self._served: ServingCertificate | None = None
        self._former = b""
        self._former_until = 0.0

    async def load(self, names: Sequence[str], trusted: bytes | None) -> ServingCertificate:
        """Read the files; their names are the affair of whoever wrote them."""
        fresh = await asyncio.to_thread(self._read)
        served = self._served
        if served is None:
            # Others may serve the former files still: what they registered stays for a while.
            self._keep((trusted or b"").replace(fresh.authorities, b""))
        elif trusted is not None and _has_other_authority(fresh, served):
            if not self._timer.is_settled(fresh.authorities, trusted):
                return replace(served, authorities=fresh.authorities + served.authorities)
            self._keep(served.authorities)
        self._served = fresh
        if not fresh.authorities or self._clock.monotonic() >= self._former_until:
            self._former = b""
        return replace(fresh, authorities=fresh.authorities + self._former)

    def _keep(self, authorities: bytes) -> None:
        self._former = authorities
        self._former_until = self._clock.monotonic() + self._linger

    def _read(self) -> ServingCertificate:
        try:
            certificate = (self._folder / "tls.crt").read_bytes()
            key = (self._folder / "tls.key").read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {error.filename}: {error.strerror}; a certificate folder holds "
                "tls.crt, tls.key and, for the configurations to trust, ca.crt"
            ) from error
        try:
            authorities = (self._folder / "ca.crt").read_bytes()
        except FileNotFoundError:
            authorities = b""
        return ServingCertificate(certificate, key, authorities)


class SecretCertificates:
    """Keep certificates of our own in a Secret, made once and renewed by whoever sees it first.

    All replicas serve what the Secret holds. Writes carry its resource version, so that of two
    replicas one renews and the other reads. A Secret that was deleted is made again with a new
    authority, introduced like any other: that is how to replace one that leaked.

    Arguments:
        client: one that may `get`, `create` and `update` the Secret, whether this process leads or
            not.
        key: the Secret.
        clock: what tells the time of certificates.
        lifetimes: how long an authority and a certificate live; by default a year and 90 days.
        settle: how long API servers may take to hear of an authority.
        interval: how often the server asks again.
    """

    def __init__(
        self,
        client: Client,
        key: NamespacedName,
        *,
        clock: Clock,
        lifetimes: Lifetimes | None = None,
        settle: timedelta = timedelta(minutes=1),
        interval: timedelta = timedelta(seconds=30),
    ) -> None:
        self._client = client
        self._key = key
        self._clock = clock
        self._lifetimes = Lifetimes() if lifetimes is None else lifetimes
        self._timer = TrustTimer(clock, settle)
        self.interval = interval
        self._known: Material | None = None

    async def load(self, names: Sequence[str], trusted: bytes | None) -> ServingCertificate:
        """Read the Secret; make or renew what is due in it."""
        secret = await self._read()
        material = self._known = await self._advance(secret, names, trusted)
        return ServingCertificate(
            encode_certificates([material.serving]),
            encode_key(material.serving_key),
            encode_certificates(material.authorities),
        )

    async def _advance(
        self, secret: Object | None, names: Sequence[str], trusted: bytes | None
    ) -> Material:
        """Take at most one step; where another replica was faster, take what it wrote."""
        now = self._clock.now()
        material = self._decode(secret)
        if material is None:
            step = Step.RENEW_ALL if self._known is None else Step.INTRODUCE
            material = self._known
        else:
            newest = encode_certificates(material.authorities[:1])
            is_trusted = self._timer.is_settled(newest, trusted)
            step = plan_rotation(material, names, now, self._lifetimes, is_trusted=is_trusted)
        if material is None:
            renewed = make_material(names, now, self._lifetimes)
        else:
            renewed = rotate(material, step, names, now, self._lifetimes)
        if renewed is material:
            return material
        told = "make the first ones" if self._known is None and secret is None else step.value
        _logger.info("webhook certificates in the Secret %s: %s", self._key, told)
        try:
            await self._write(secret, renewed)
        except (AlreadyExists, Conflict, NotFound):
            return self._decode(await self._read()) or renewed
        return renewed

    async def _read(self) -> Object | None:
        name, namespace = self._key.name, self._key.namespace
        try:
            return await self._client.get(builtin.SECRET, name, namespace=namespace)
        except NotFound:
            return None

    async def _write(self, secret: Object | None, material: Material) -> None:
        data = {
            "tls.crt": encode_certificates([material.serving]),
            "tls.key": encode_key(material.serving_key),
            "ca.crt": encode_certificates(material.authorities),
            "ca.key": encode_key(material.authority_key),
        }
        encoded = {name: base64.b64encode(text).decode() for name, text in data.items()}
        if secret is not None:
            await self._client.replace({**secret, "data": encoded})
            return
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        created = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await self._client.create({**created, "type": "kubernetes.io/tls", "data": encoded})

    def _decode(self, secret: Object | None) -> Material | None:
        """Read the material; None where there is none, or none that can be used."""
        if secret is None:
            return None
        try:
            return decode_material(secret)
        except (KeyError, ValueError, binascii.Error) as error:
            _logger.warning(
                "the Secret %s holds no certificates that can be used (%s): they are made anew",
                self._key,
                error,
            )
            return None


def _has_other_authority(fresh: ServingCertificate, served: ServingCertificate) -> bool:
    return bool(fresh.authorities) and fresh.authorities != served.authorities


def decode_material(secret: Object) -> Material:
    """Read what a Secret holds.

    Raises:
        KeyError: a part is missing.
        ValueError: a part is not what it should be, or a key is not that of its certificate.
    """
    from cryptography import x509

    data = secret.get("data") or {}
    parts = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
    material = Material(
        tuple(x509.load_pem_x509_certificates(parts["ca.crt"])),
        decode_key(parts["ca.key"]),
        x509.load_pem_x509_certificate(parts["tls.crt"]),
        decode_key(parts["tls.key"]),
    )
    pairs = (
        (material.authorities[0], material.authority_key),
        (material.serving, material.serving_key),
    )
    for certificate, key in pairs:
        if certificate.public_key() != key.public_key():
            raise ValueError(f"a key does not fit {certificate.subject.rfc4514_string()}")
    return material
