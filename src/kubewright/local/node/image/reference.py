"""Image references as container runtimes read them: `nginx:1` is docker.io/library/nginx:1."""

from __future__ import annotations

import re

import msgspec

_DOMAIN = re.compile(r"(localhost|[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+(?=:))(:\d+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(f"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[\w][\w.-]{0,127}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}")


class InvalidReference(ValueError):
    """The name of an image cannot be parsed; the text is worded as the kubelet words it."""


class Reference(msgspec.Struct, frozen=True):
    """A parsed image name. `repository` is the name with its domain, `tag` defaults to `latest`."""

    domain: str
    path: str
    tag: str
    digest: str

    @property
    def repository(self) -> str:
        """The full name without tag and digest."""
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}:{self.tag}{digest}"


def parse_reference(name: str) -> Reference:
    """Parse an image name and fill in the domain, `library/` and the tag that it leaves out.

    Raises:
        InvalidReference: the name is not a reference.
    """
    rest, _, digest = name.partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        domain, path = head, tail
    else:
        domain, path = "docker.io", rest
    path, colon, tag = path.partition(":")
    if domain == "docker.io" and path and "/" not in path:
        path = f"library/{path}"
    problem = _find_problem(domain, path, tag if colon else "latest", digest)
    if problem is not None:
        raise InvalidReference(
            f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": '
            f"invalid reference format{problem}"
        )
    return Reference(domain, path, tag or "latest", digest)


def _find_problem(domain: str, path: str, tag: str, digest: str) -> str | None:
    if path != path.lower() and _PATH.fullmatch(path.lower()):
        return f": repository name ({path}) must be lowercase"
    fits = _DOMAIN.fullmatch(domain) and _PATH.fullmatch(path) and _TAG.fullmatch(tag)
    if not fits or (digest and not _DIGEST.fullmatch(digest)):
        return ""
    return None
