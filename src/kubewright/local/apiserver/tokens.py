"""Bound ServiceAccount tokens: JSON Web Tokens signed with the cluster's key (RFC 7519, ES256)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import User, encode_json
from kubewright.local.apiserver.storage import key_prefix
from kubewright.local.store import VersionedStore

ISSUER = "https://kubernetes.default.svc.cluster.local"
_PRIVATE = "kubernetes.io"
_HALF = 32


class Claims(msgspec.Struct, frozen=True):
    """What a token says of its bearer."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    expires: float
    identifier: str
    pod: tuple[str, str] | None = None
    node: tuple[str, str] | None = None

    @property
    def user(self) -> User:
        """The user that the bearer is."""
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={self.identifier}"]}
        for kind, bound in (("pod", self.pod), ("node", self.node)):
            if bound:
                extra[f"authentication.kubernetes.io/{kind}-name"] = [bound[0]]
                extra[f"authentication.kubernetes.io/{kind}-uid"] = [bound[1]]
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{self.namespace}",
            "system:authenticated",
        )
        name = f"system:serviceaccount:{self.namespace}:{self.name}"
        return User(name, groups, self.uid, extra)


class ObjectLookup:
    """Tells from the store whether the objects that tokens are bound to are still there."""

    _PLURALS: ClassVar[dict[str, str]] = {"ServiceAccount": "serviceaccounts", "Pod": "pods"}

    def __init__(self, store: VersionedStore) -> None:
        self._store = store

    def __call__(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Tell whether an object is there under its UID."""
        prefix = key_prefix("", self._PLURALS[kind])
        version = self._store.get(f"{prefix}{namespace}/{name}")
        return version is not None and decode_metadata(version.value or b"{}").uid == uid


class TokenIssuer:
    """Signs tokens and reads them back.

    Args:
        key: path of the private key (PEM, P-256); read when the first token is signed or read.
        now: the time.
        exists: tells whether an object that a token is bound to is still there, by kind, namespace,
            name and UID.
    """

    def __init__(
        self,
        key: Path,
        now: Callable[[], datetime],
        exists: Callable[[str, str, str, str], bool],
    ) -> None:
        self._path = key
        self._now = now
        self._exists = exists
        self._key: Any = None

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        lifetime: timedelta,
        identifier: str,
        bound: tuple[str, str, str] | None = None,
    ) -> tuple[str, datetime]:
        """Return a token for a ServiceAccount and when it expires.

        `bound` is kind, name and UID of the object without which the token is worth nothing.
        """
        now = self._now()
        expires = now + lifetime
        metadata = account["metadata"]
        private: Object = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound:
            private[bound[0].lower()] = {"name": bound[1], "uid": bound[2]}
        payload = {
            "aud": list(audiences),
            "exp": int(expires.timestamp()),
            "iat": int(now.timestamp()),
            "iss": ISSUER,
            "jti": identifier,
            _PRIVATE: private,
            "nbf": int(now.timestamp()),
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        head = _encode(encode_json({"alg": "ES256", "kid": "kubewright"}))
        text = f"{head}.{_encode(encode_json(payload))}"
        return f"{text}.{_encode(self._sign(text.encode()))}", expires

    def read(self, token: str) -> Claims | None:
        """Return the claims of a token that is ours, not expired, and whose objects exist."""
        claims = self._read_signed(token)
        return claims if claims and self._is_valid(claims) else None

    def lost_account(self, token: str) -> str:
        """Return the ServiceAccount that a token of ours outlived; empty where it is not that."""
        claims = self._read_signed(token)
        if claims is None or self._has_account(claims):
            return ""
        return claims.name

    def _read_signed(self, token: str) -> Claims | None:
        text, _, signature = token.rpartition(".")
        _, _, payload = text.partition(".")
        if not payload:
            return None
        try:
            if not self._verify(text.encode(), _decode(signature)):
                return None
            return _claims(msgspec.json.decode(_decode(payload)))
        except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return None

    def _is_valid(self, claims: Claims) -> bool:
        if claims.expires <= self._now().timestamp():
            return False
        if not self._has_account(claims):
            return False
        return claims.pod is None or self._exists("Pod", claims.namespace, *claims.pod)

    def _has_account(self, claims: Claims) -> bool:
        return self._exists("ServiceAccount", claims.namespace, claims.name, claims.uid)

    def verify(self, token: str) -> User | None:
        """Return whose token it is, for the API server itself."""
        claims = self.read(token)
        return claims.user if claims and ISSUER in claims.audiences else None

    def _private(self) -> Any:
        if self._key is None:
            from cryptography.hazmat.primitives import serialization

            self._key = serialization.load_pem_private_key(self._path.read_bytes(), None)
        return self._key

    def _sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        signature = self._private().sign(data, ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(signature)
        return r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")

    def _verify(self, data: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(signature) != 2 * _HALF:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature[:_HALF], signature[_HALF:]))
        encoded = utils.encode_dss_signature(r, s)
        try:
            self._private().public_key().verify(encoded, data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def _claims(payload: Any) -> Claims | None:
    if payload.get("iss") != ISSUER:
        return None
    private = payload[_PRIVATE]
    account = private["serviceaccount"]
    bound = {
        kind: (private[kind]["name"], private[kind]["uid"])
        for kind in ("pod", "node")
        if kind in private
    }
    return Claims(
        namespace=private["namespace"],
        name=account["name"],
        uid=account["uid"],
        audiences=tuple(payload["aud"]),
        expires=float(payload["exp"]),
        identifier=str(payload.get("jti", "")),
        pod=bound.get("pod"),
        node=bound.get("node"),
    )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
