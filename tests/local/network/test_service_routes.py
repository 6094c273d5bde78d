from __future__ import annotations

import pytest
from tests.local.network.directories import HTTP, add_service, add_slice, endpoint

from kubewright.local.network.service_directory import ServiceDirectory
from kubewright.local.network.service_routes import Backend, Route, build_routes

ENDING = {"ready": False, "serving": True, "terminating": True}
DEAD = {"ready": False, "serving": False, "terminating": True}


@pytest.fixture
def directory() -> ServiceDirectory:
    return ServiceDirectory()


def only_route(directory: ServiceDirectory) -> Route:
    (route,) = build_routes(directory, "node-1")
    return route


def addresses(backends: tuple[Backend, ...]) -> list[str]:
    return [backend.address for backend in backends]


def test_leads_to_ready_endpoints(directory: ServiceDirectory) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    add_slice(
        directory,
        "web",
        endpoint("10.244.0.3"),
        endpoint("10.244.0.2"),
        endpoint("10.244.0.4", conditions={"ready": False}),
        endpoint("10.244.0.5", conditions=ENDING),
    )
    route = only_route(directory)
    assert (route.addresses, route.port, route.protocol) == (("10.96.1.1",), 80, "TCP")
    assert route.internal == (Backend("10.244.0.2", 8080), Backend("10.244.0.3", 8080))


def test_endpoints_that_end_serve_while_none_is_ready(directory: ServiceDirectory) -> None:
    """KEP-1669: a rollout of one replica must not leave a Service with nothing."""
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    slices = [endpoint("10.244.0.2", conditions=ENDING), endpoint("10.244.0.3", conditions=DEAD)]
    add_slice(directory, "web", *slices)
    assert addresses(only_route(directory).internal) == ["10.244.0.2"]
    add_slice(directory, "web", *slices, endpoint("10.244.0.4"))
    assert addresses(only_route(directory).internal) == ["10.244.0.4"]


def test_each_port_has_its_own_endpoints(directory: ServiceDirectory) -> None:
    """Pods may give one named port different numbers."""
    metrics = {"name": "metrics", "port": 9000, "protocol": "UDP"}
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP, metrics])
    ports = [
        {"name": "http", "port": 8080, "protocol": "TCP"},
        {"name": "metrics", "port": 9001, "protocol": "UDP"},
    ]
    add_slice(directory, "web", endpoint("10.244.0.2"), ports=ports)
    assert [(r.name, r.protocol, r.internal) for r in build_routes(directory, "n")] == [
        ("http", "TCP", (Backend("10.244.0.2", 8080),)),
        ("metrics", "UDP", (Backend("10.244.0.2", 9001),)),
    ]


def test_headless_and_external_services_have_no_route(directory: ServiceDirectory) -> None:
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_service(directory, "mail", type="ExternalName", externalName="mx.example.com")
    assert build_routes(directory, "node-1") == []


@pytest.mark.parametrize(
    ("nodes", "internal", "drops"),
    [
        (["node-1", "node-2"], ["10.244.0.2"], False),
        (["node-2", "node-2"], [], True),
        ([], [], False),
    ],
)
def test_local_policy_keeps_to_the_node(
    directory: ServiceDirectory, nodes: list[str], internal: list[str], drops: bool
) -> None:
    """Without an endpoint here connections get no answer; without any at all they are refused."""
    add_service(
        directory, "web", clusterIP="10.96.1.1", ports=[HTTP], internalTrafficPolicy="Local"
    )
    endpoints = [endpoint(f"10.244.0.{n}", nodeName=name) for n, name in enumerate(nodes, start=2)]
    add_slice(directory, "web", *endpoints)
    route = only_route(directory)
    assert (addresses(route.internal), route.internal_drops) == (internal, drops)
    assert len(route.external) == len(nodes)
    assert not route.external_drops


def test_external_policy_is_that_of_node_ports(directory: ServiceDirectory) -> None:
    port = {**HTTP, "nodePort": 30080}
    policy = {"type": "NodePort", "externalTrafficPolicy": "Local"}
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[port], **policy)
    add_slice(
        directory,
        "web",
        endpoint("10.244.0.2", nodeName="node-1"),
        endpoint("10.244.1.2", nodeName="node-2"),
    )
    route = only_route(directory)
    assert addresses(route.internal) == ["10.244.0.2", "10.244.1.2"]
    assert addresses(route.external) == ["10.244.0.2"]
    assert route.external_is_local


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7}},
            },
            7,
        ),
    ],
)
def test_affinity(directory: ServiceDirectory, spec: dict[str, object], seconds: int) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP], **spec)
    assert only_route(directory).affinity_seconds == seconds


def test_slices_that_someone_wrote_by_hand(directory: ServiceDirectory) -> None:
    """Without a selector, EndpointSlices say where it leads; they may leave conditions out."""
    add_service(directory, "legacy", clusterIP="10.96.1.1", ports=[{"port": 80}])
    ports = [{"name": "", "port": 9376}]
    add_slice(directory, "legacy", endpoint("192.0.2.7", conditions={}), ports=ports)
    assert only_route(directory).internal == (Backend("192.0.2.7", 9376),)


def hinted(address: str, *, zone: str = "", node: str = "") -> dict[str, object]:
    hints = {}
    if zone:
        hints["forZones"] = [{"name": zone}]
    if node:
        hints["forNodes"] = [{"name": node}]
    return endpoint(address, hints=hints)


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([hinted("10.244.0.2", zone="a"), hinted("10.244.0.3", zone="b")], ["10.244.0.2"]),
        ([hinted("10.244.0.2", zone="a"), hinted("10.244.0.3")], ["10.244.0.2", "10.244.0.3"]),
        (
            [hinted("10.244.0.2", zone="b"), hinted("10.244.0.3", zone="c")],
            ["10.244.0.2", "10.244.0.3"],
        ),
        (
            [
                hinted("10.244.0.2", zone="a", node="node-2"),
                hinted("10.244.0.3", zone="a", node="node-1"),
            ],
            ["10.244.0.3"],
        ),
        (
            [
                hinted("10.244.0.2", zone="a", node="node-2"),
                hinted("10.244.0.3", zone="b", node="node-3"),
            ],
            ["10.244.0.2"],
        ),
    ],
)
def test_hints_keep_traffic_near_while_they_are_whole(
    directory: ServiceDirectory, endpoints: list[dict[str, object]], expected: list[str]
) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    add_slice(directory, "web", *endpoints)
    (route,) = build_routes(directory, "node-1", "a")
    assert addresses(route.internal) == expected


def test_unready_endpoint_near_is_no_reason_to_stay(directory: ServiceDirectory) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    near = {**hinted("10.244.0.2", zone="a"), "conditions": {"ready": False}}
    add_slice(directory, "web", near, hinted("10.244.0.3", zone="b"))
    (route,) = build_routes(directory, "node-1", "a")
    assert addresses(route.internal) == ["10.244.0.3"]
