"""Who may do what."""

from __future__ import annotations

from typing import Protocol

from kubewright.api.errors import Forbidden, StatusDetails
from kubewright.api.resource import Object
from kubewright.local.apiserver.authentication import MASTERS
from kubewright.local.apiserver.exchange import ANONYMOUS, User
from kubewright.local.apiserver.request import RequestInfo

_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")


class Authorizer(Protocol):
    """Decides about requests."""

    def allows(self, user: User, info: RequestInfo, path: str) -> bool:
        """Tell whether the user may make the request."""
        ...

    def reason(self, user: User, info: RequestInfo, path: str) -> str:
        """Say why an allowed request is allowed; empty where there is nothing to say."""
        ...

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return the PolicyRules that hold for a user in a namespace."""
        ...


EVERYTHING: tuple[Object, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


class AuthenticatedMayAll:
    """Allows everything to everybody who is known, and to others what is public."""

    def allows(self, user: User, info: RequestInfo, path: str) -> bool:
        """Tell whether the user may make the request."""
        if MASTERS in user.groups or user.name != ANONYMOUS.name:
            return True
        return is_public(path)

    def reason(self, user: User, info: RequestInfo, path: str) -> str:
        """Say nothing: nobody needs a reason here."""
        return ""

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return the PolicyRules that hold for a user in a namespace."""
        return list(EVERYTHING)


def is_public(path: str) -> bool:
    """Tell whether a path is open to everybody: health checks and the version."""
    trimmed = path.rstrip("/")
    return any(trimmed == public or trimmed.startswith(public + "/") for public in _PUBLIC)


def forbidden(user: User, info: RequestInfo, path: str) -> Forbidden:
    """Build the refusal of a request, word for word as the API server's."""
    if not info.is_resource:
        return Forbidden(f'forbidden: User "{user.name}" cannot {info.verb} path "{path}"')
    what = f"{info.resource}.{info.group}" if info.group else info.resource
    shown = f'{what} "{info.name}"' if info.name else what
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    return Forbidden(
        f'{shown} is forbidden: User "{user.name}" cannot {info.verb} resource '
        f'"{info.resource_path}" in API group "{info.group}" {where}',
        StatusDetails(name=info.name, group=info.group, kind=info.resource),
    )
