from __future__ import annotations

from ipaddress import IPv4Network

from kubewright.api.resource import NamespacedName
from kubewright.local.network.proxy_plan import (
    add_api_server,
    lead_inside,
    outside_frontend,
    plan_node_ports,
    plan_outside,
    plan_services,
    without_own,
)
from kubewright.local.network.relays import Frontend, Target
from kubewright.local.network.service_routes import Backend, Route

GATEWAY = "10.244.0.1"
NETWORKS = [IPv4Network("10.244.0.0/24"), IPv4Network("10.244.1.0/24")]
POD, OUTSIDE = Backend("10.244.1.2", 8080), Backend("192.0.2.7", 9376)


def build_route(*backends: Backend, service: str = "web", node_port: int = 0) -> Route:
    return Route(
        service=NamespacedName("default", service),
        name="http",
        protocol="TCP",
        addresses=("10.96.1.1",),
        port=80,
        node_port=node_port,
        internal=backends,
        external=backends,
    )


def test_backend_outside_is_reached_through_the_node() -> None:
    route = build_route(POD, OUTSIDE)
    planned = plan_outside([route], NETWORKS, GATEWAY)
    frontend = outside_frontend("TCP", OUTSIDE, GATEWAY)
    assert planned == {frontend: Target(on_host=True, backends=(OUTSIDE,))}
    assert (frontend.on_host, frontend.address, frontend.port) == (False, GATEWAY, 0)

    (led,) = lead_inside([route], NETWORKS, GATEWAY, {frontend: 40000}.__getitem__)
    assert led.internal == (POD, Backend(GATEWAY, 40000))


def test_backend_whose_relay_does_not_listen_is_left_out() -> None:
    (led,) = lead_inside([build_route(POD, OUTSIDE)], NETWORKS, GATEWAY, lambda frontend: 0)
    assert led.internal == (POD,)


def test_api_server_stands_behind_its_service_until_endpoints_say_otherwise() -> None:
    server = Backend("127.0.0.1", 6443)
    routes = [build_route(service="kubernetes"), build_route(service="web")]
    assert [route.internal for route in add_api_server(routes, server)] == [(server,), ()]
    published = build_route(OUTSIDE, service="kubernetes")
    assert add_api_server([published], server) == [published]
    assert add_api_server(routes, None) == routes


def test_address_that_the_node_serves_itself_is_left_to_it() -> None:
    assert without_own([build_route()], "10.96.1.1") == []
    assert without_own([build_route(POD)], "10.96.1.1") == [build_route(POD)]


def test_node_port_is_on_the_hosts_loopback() -> None:
    planned = plan_node_ports([build_route(POD, node_port=30080), build_route(POD)], GATEWAY)
    assert planned == {
        Frontend(on_host=True, protocol="TCP", address="127.0.0.1", port=30080): Target(
            on_host=False, backends=(Backend(GATEWAY, 30080),)
        )
    }


def test_node_port_without_endpoints_is_closed() -> None:
    assert plan_node_ports([build_route(node_port=30080)], GATEWAY) == {}


def test_services_are_relayed_where_the_kernel_cannot() -> None:
    planned = plan_services([build_route(POD, node_port=30080)], GATEWAY)
    assert {(f.address, f.port, f.on_host): t.backends for f, t in planned.items()} == {
        ("10.96.1.1", 80, False): (POD,),
        (GATEWAY, 30080, False): (POD,),
    }
    assert plan_services([build_route()], GATEWAY) == {}
