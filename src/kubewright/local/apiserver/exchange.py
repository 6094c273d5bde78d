"""Requests and answers inside the API server, free of any HTTP library's types."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Iterable, Mapping
from urllib.parse import parse_qs

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.upgrade import UpgradeResponse

Query = dict[str, list[str]]

encode_json = msgspec.json.Encoder().encode


class User(msgspec.Struct, frozen=True):
    """Who asks: name, groups, uid and what else the authenticator knows."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = {}


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Request(msgspec.Struct):
    """One request. `path` is percent-decoded; header names are lower-case, each with its values.

    `warnings` collects the texts of Warning headers while the request is served.
    `common_name` and `organizations` are those of a verified client certificate.
    """

    method: str
    path: str
    query: Query = {}
    headers: Mapping[str, list[str]] = {}
    body: bytes = b""
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    user: User = ANONYMOUS
    warnings: list[str] = []

    def header(self, name: str) -> str:
        """Return a header's values joined by commas; empty where it is missing."""
        values = self.headers.get(name)
        return "" if values is None else values[0] if len(values) == 1 else ", ".join(values)

    def param(self, name: str) -> str:
        """Return the first value of a query parameter; empty where it is missing."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Read a boolean query parameter: all but `0`, `false` and nothing is true."""
        values = self.query.get(name)
        return values is not None and values[0].lower() not in ("0", "false", "")


class Response(msgspec.Struct):
    """A whole answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = []


class StreamResponse(msgspec.Struct):
    """An answer whose body goes on: a watch, a followed log. The iterator is closed at the end."""

    status: int
    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = []


Answer = Response | StreamResponse | UpgradeResponse


class Verb(enum.StrEnum):
    """What a request wants, in the words of authorization."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


def parse_query(text: str) -> Query:
    """Parse a query string; parameters without a value are kept."""
    return parse_qs(text, keep_blank_values=True) if text else {}


def collect_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group header values by lower-case name."""
    headers: dict[str, list[str]] = {}
    for name, value in pairs:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def json_response(status: int, obj: Object | bytes) -> Response:
    """Build an answer from an object or from its JSON text."""
    return Response(status, obj if isinstance(obj, bytes) else encode_json(obj))


def text_response(status: int, text: str) -> Response:
    """Build a plain text answer."""
    return Response(status, text.encode(), "text/plain; charset=utf-8")
