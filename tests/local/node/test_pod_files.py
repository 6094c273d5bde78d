from __future__ import annotations

import pytest
from tests.local.node.objects import build_pod

from kubewright.local.node.pod_files import (
    NameTooLong,
    build_hosts,
    build_resolver,
    kernel_hostname,
    pod_hostname,
)


def test_long_names_give_host_names_without_a_trailing_dash() -> None:
    name = "a" * 62 + "-" + "b" * 10
    assert pod_hostname(build_pod(name)) == "a" * 62


def test_hosts_has_the_full_name_of_a_pod_with_a_subdomain() -> None:
    pod = build_pod(hostname="web", subdomain="site")
    last = build_hosts(pod, "10.0.0.2", "cluster.local").splitlines()[-1]
    assert last == "10.0.0.2\tweb.site.ns.svc.cluster.local\tweb"


def test_resolver_searches_the_namespace_first() -> None:
    assert str(build_resolver(build_pod(), "10.0.0.1", "cluster.local", "")) == (
        "search ns.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.0.0.1\noptions ndots:5\n"
    )


def test_resolver_of_policy_none_is_the_pods_own() -> None:
    config = {"nameservers": ["9.9.9.9"], "options": [{"name": "ndots", "value": "1"}]}
    pod = build_pod(dnsPolicy="None", dnsConfig=config)
    assert str(build_resolver(pod, "10.0.0.1", "x", "")) == "nameserver 9.9.9.9\noptions ndots:1\n"


def test_resolver_of_policy_default_is_the_machines() -> None:
    host = "nameserver 8.8.8.8\nsearch example.com\n"
    expected = "search example.com\nnameserver 8.8.8.8\n"
    assert str(build_resolver(build_pod(dnsPolicy="Default"), "10.0.0.1", "x", host)) == expected


def test_resolver_of_the_cluster_goes_on_with_the_machines_domains() -> None:
    built = build_resolver(
        build_pod(), "10.0.0.1", "x", "nameserver 8.8.8.8\nsearch corp.example\n"
    )
    assert built.searches == ["ns.svc.x", "svc.x", "x", "corp.example"]
    assert built.servers == ["10.0.0.1"]


def test_pod_in_the_nodes_network_resolves_as_the_node() -> None:
    host = "nameserver 8.8.8.8\n"
    pod = build_pod(hostNetwork=True)
    assert build_resolver(pod, "10.0.0.1", "x", host).servers == ["8.8.8.8"]
    pod = build_pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert build_resolver(pod, "10.0.0.1", "x", host).servers == ["10.0.0.1"]


def test_resolver_has_no_more_than_resolvers_take() -> None:
    config = {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3"], "searches": ["a" * 254]}
    built = build_resolver(build_pod(dnsConfig=config), "10.0.0.1", "x", "")
    assert built.servers == ["10.0.0.1", "1.1.1.1", "2.2.2.2"]
    omitted = "have been omitted, the applied"
    servers, searches = built.problems
    assert servers == (
        f"Nameserver limits were exceeded, some nameservers {omitted} nameserver line is: "
        "10.0.0.1 1.1.1.1 2.2.2.2"
    )
    assert searches == (
        f"Search Line limits were exceeded, some search paths {omitted} search line is: "
        "ns.svc.x svc.x x"
    )


def test_full_name_may_be_the_host_name() -> None:
    pod = build_pod(hostname="web", subdomain="site", setHostnameAsFQDN=True)
    assert kernel_hostname(pod, "x", "node-1") == "web.site.ns.svc.x"
    with pytest.raises(NameTooLong, match="is too long"):
        kernel_hostname(pod, "x" * 60, "node-1")


def test_host_name_in_the_nodes_network_is_the_nodes() -> None:
    assert kernel_hostname(build_pod(hostNetwork=True), "x", "node-1") == "node-1"
    assert kernel_hostname(build_pod(hostnameOverride="other"), "x", "node-1") == "other"


def test_hosts_in_the_nodes_network_are_the_nodes() -> None:
    text = build_hosts(build_pod(hostNetwork=True), "10.0.0.2", "x", "127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
