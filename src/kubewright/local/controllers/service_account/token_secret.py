"""Secrets of type service-account-token: filled in for their ServiceAccount, deleted with it.

kube-controller-manager signs tokens that never expire with the cluster's private key. A plain API
client has no such key: here the API server issues tokens that are bound to the Secret for a year
(TokenRequest, KEP-1205), and they are renewed when four fifths of that are over.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change
from kubewright.client.requests import PatchType
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result

TOKEN_TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"

LIFETIME = timedelta(days=365)


def build_token_secret_controller(root_ca: str) -> Controller:
    """Build the controller that fills token Secrets; `root_ca` is PEM text."""
    keeper = _TokenSecrets(root_ca)
    controller = Controller(
        "serviceaccount-token-controller",
        builtin.SERVICE_ACCOUNT,
        keeper.reconcile,
        setup=keeper.set_up,
    )
    keeper.controller = controller
    return controller


def account_of(secret: Object) -> NamespacedName:
    """Return the key of the ServiceAccount that a Secret asks a token for."""
    metadata = secret["metadata"]
    name = (metadata.get("annotations") or {}).get(ACCOUNT_NAME) or ""
    return NamespacedName(metadata["namespace"], name)


def token_expiry(secret: Object) -> datetime | None:
    """Return when a Secret's token expires; None where there is none, or it cannot be read."""
    try:
        token = base64.b64decode((secret.get("data") or {})["token"])
        payload = token.split(b".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (KeyError, IndexError, ValueError):
        return None


def renewal_in(secret: Object, account: Object, now: datetime) -> timedelta:
    """Return when a Secret must be filled (again): zero for at once."""
    annotations = secret["metadata"].get("annotations") or {}
    expiry = token_expiry(secret)
    complete = {"token", "ca.crt", "namespace"} <= (secret.get("data") or {}).keys()
    if annotations.get(ACCOUNT_UID) != account["metadata"]["uid"] or not complete or not expiry:
        return timedelta()
    return max(expiry - LIFETIME / 5 - now, timedelta())


def build_token_patch(secret: Object, account: Object, token: str, root_ca: str) -> Object:
    """Build the merge patch that fills a Secret."""
    values = {
        "token": token,
        "ca.crt": root_ca,
        "namespace": secret["metadata"]["namespace"],
    }
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    annotations = {ACCOUNT_UID: account["metadata"]["uid"]}
    return {
        "metadata": {"uid": secret["metadata"]["uid"], "annotations": annotations},
        "data": encoded,
    }


class _TokenSecrets:
    """Keeps the token Secrets of each ServiceAccount."""

    def __init__(self, root_ca: str) -> None:
        self._root_ca = root_ca
        self.controller: Controller | None = None

    def set_up(self, cache: Cache) -> None:
        # The API server selects by type: other Secrets are none of our business.
        self._store = cache.store(builtin.SECRET, fields={"type": TOKEN_TYPE})
        self._store.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if self.controller is not None:
            self.controller.enqueue(account_of(change.entry.object()))

    def _secrets_of(self, key: NamespacedName) -> Iterable[Object]:
        secrets = (entry.object() for entry in self._store.list(namespace=key.namespace))
        return [secret for secret in secrets if account_of(secret) == key]

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        if not key.name:
            return None
        account = ctx.get(builtin.SERVICE_ACCOUNT, key)
        waits = []
        for secret in self._secrets_of(key):
            if secret["metadata"].get("deletionTimestamp") is not None:
                continue
            if account is None:
                await self._delete_stray(ctx, key, secret)
                continue
            wait = renewal_in(secret, account, ctx.clock.now())
            waits.append(wait or LIFETIME / 2)
            if not wait:
                await self._fill(ctx, account, secret)
        return Result(after=min(waits, default=None))

    async def _fill(self, ctx: Context, account: Object, secret: Object) -> None:
        metadata = account["metadata"]
        path = builtin.SERVICE_ACCOUNT.path(
            metadata["name"], namespace=metadata["namespace"], subresource="token"
        )
        bound = {"kind": "Secret", "apiVersion": "v1", "name": secret["metadata"]["name"]}
        request: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": int(LIFETIME.total_seconds()),
                "boundObjectRef": {**bound, "uid": secret["metadata"]["uid"]},
            },
        }
        try:
            answer = msgspec.json.decode(await ctx.client.request("POST", path, body=request))
            patch = build_token_patch(secret, account, answer["status"]["token"], self._root_ca)
            await ctx.client.patch(
                builtin.SECRET,
                secret["metadata"]["name"],
                patch,
                type=PatchType.MERGE,
                namespace=metadata["namespace"],
            )
        except NotFound:
            # The account or the Secret went meanwhile: their deletion brings the next look.
            return

    async def _delete_stray(self, ctx: Context, key: NamespacedName, secret: Object) -> None:
        """Delete the Secret of an account that the API server, too, does not know."""
        try:
            await ctx.client.get(builtin.SERVICE_ACCOUNT, key.name, namespace=key.namespace)
        except NotFound:
            metadata = secret["metadata"]
            try:
                await ctx.client.delete(
                    builtin.SECRET,
                    metadata["name"],
                    namespace=key.namespace,
                    uid=metadata["uid"],
                )
            except NotFound:
                return
