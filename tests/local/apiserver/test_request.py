from __future__ import annotations

import pytest

from kubewright.local.apiserver.exchange import Request, parse_query
from kubewright.local.apiserver.request import parse_request


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /api/v1/pods", "list  v1  pods  "),
        ("GET /api/v1/pods?watch=1", "watch  v1  pods  "),
        ("GET /api/v1/pods?watch=maybe", "watch  v1  pods  "),
        ("GET /api/v1/pods?watch=false", "list  v1  pods  "),
        ("GET /api/v1/namespaces/n/pods/a/log", "get  v1 n pods a log"),
        ("GET /api/v1/namespaces//pods", "list  v1  pods  "),
        ("GET /api/v1/namespaces/n/pods/", "list  v1 n pods  "),
        ("POST /apis/apps/v1/namespaces/n/deployments", "create apps v1 n deployments  "),
        ("DELETE /api/v1/namespaces/n/pods", "deletecollection  v1 n pods  "),
        ("PUT /api/v1/namespaces/n/finalize", "update  v1 n namespaces n finalize"),
        ("GET /api/v1/namespaces/n", "get  v1 n namespaces n "),
        ("GET /api/v1/watch/namespaces/n/pods/a", "watch  v1 n pods a "),
    ],
)
def test_reads_the_path(line: str, expected: str) -> None:
    method, target = line.split()
    path, _, query = target.partition("?")
    info = parse_request(Request(method, path, query=parse_query(query)))
    found = (info.group, info.version, info.namespace, info.resource, info.name, info.subresource)
    assert info.is_resource
    assert " ".join((info.verb, *found)) == expected


@pytest.mark.parametrize("path", ["/", "/api", "/apis/apps/v1", "/version", "/healthz/ping"])
def test_other_paths_are_no_resources(path: str) -> None:
    assert not parse_request(Request("GET", path)).is_resource
