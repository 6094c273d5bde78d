"""Who asks: bearer tokens, client certificates, impersonation."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from kubewright.api.errors import Unauthorized
from kubewright.local.apiserver.exchange import ANONYMOUS, Request, User

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))

TokenVerifier = Callable[[str], User | None]
"""Returns whose token it is; None for a token that is none."""


class Authenticator:
    """Tells who sent a request.

    `tokens` are fixed bearer tokens; `verify` judges the others (those of ServiceAccounts).
    """

    def __init__(
        self, tokens: Mapping[str, User] | None = None, verify: TokenVerifier | None = None
    ) -> None:
        self._tokens = dict(tokens or {})
        self._verify = verify

    def authenticate(self, request: Request) -> User:
        """Return the user of a request, anonymous where it carries no credentials.

        Raises:
            Unauthorized: its credentials are none.
        """
        header = request.header("authorization")
        if header[:7].lower() == "bearer ":
            return self.check_token(header[7:].strip())
        if request.common_name:
            groups = (*request.organizations, AUTHENTICATED)
            return User(request.common_name, groups)
        return ANONYMOUS

    def check_token(self, token: str) -> User:
        """Return whose token it is.

        Raises:
            Unauthorized: nobody's.
        """
        encoded = token.encode()
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), encoded):
                return user
        user_found = self._verify(token) if self._verify else None
        if user_found is None:
            raise Unauthorized("Unauthorized", None)
        return user_found


def impersonated(request: Request) -> User | None:
    """Return the user whom the Impersonate headers name; None where there are none."""
    name = request.header("impersonate-user")
    if not name:
        return None
    groups = list(request.headers.get("impersonate-group") or ())
    if not groups:
        groups = _implied_groups(name)
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    extra = {
        unquote(header.removeprefix("impersonate-extra-")): list(values)
        for header, values in request.headers.items()
        if header.startswith("impersonate-extra-")
    }
    return User(name, tuple(groups), request.header("impersonate-uid"), extra)


def _implied_groups(name: str) -> list[str]:
    """Return the groups that a ServiceAccount is in by its name, or those of nobody."""
    parts = name.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        return ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    return ["system:unauthenticated"] if name == ANONYMOUS.name else []
