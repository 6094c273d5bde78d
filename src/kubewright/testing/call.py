"""A request to an API server, named as Kubernetes names it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubewright.client.transport import NO_HEADERS, Query, find_header
from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.request import parse_request

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Call(msgspec.Struct, eq=False):
    """One request, and the code of the answer that its sender got.

    Attributes:
        verb: as RBAC names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
            `deletecollection`; the method in lower case where the path is no resource's.
        group: the API group; empty for the core group.
        resource: the plural with its subresource, such as `pods` or `deployments/status`; empty
            where the path is no resource's, such as `/version`.
        headers: what the client sent; see `header`.
        status: None as long as no answer came, and for ever where it was lost.
    """

    method: str
    path: str
    query: dict[str, str]
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    headers: Mapping[str, str] = {}
    status: int | None = None

    @classmethod
    def of(
        cls, method: str, path: str, query: Query = (), headers: Mapping[str, str] = NO_HEADERS
    ) -> Call:
        """Read what a request asks for; `path` as it is on the wire, `query` not encoded."""
        values: dict[str, list[str]] = {}
        for name, value in query:
            values.setdefault(name, []).append(value)
        info = parse_request(Request(method=method, path=path, query=values, headers={}, body=b""))
        return cls(
            method=method,
            path=path,
            query=dict(query),
            verb=str(info.verb),
            group=info.group,
            resource=info.resource_path,
            namespace=info.namespace,
            name=info.name,
            headers=headers,
        )

    def header(self, name: str) -> str:
        """Return a header whatever the case of its name; empty where it is missing.

        `User-Agent` tells the clients of a `FaultProxy` apart, `Authorization` their credentials.
        """
        return find_header(self.headers, name)

    @property
    def is_write(self) -> bool:
        """Whether the request may change something."""
        return self.method not in _READS and "dryRun" not in self.query

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.verb == "watch"

    def __str__(self) -> str:
        watch = " (watch)" if self.is_watch else ""
        return f"{self.method} {self.path}{watch}"
