from __future__ import annotations

from tests.local.node.objects import build_pod

from kubewright.local.node.pod_files import build_hosts, build_resolver, pod_hostname


def test_long_names_give_host_names_without_a_trailing_dash() -> None:
    name = "a" * 62 + "-" + "b" * 10
    assert pod_hostname(build_pod(name)) == "a" * 62


def test_hosts_has_the_full_name_of_a_pod_with_a_subdomain() -> None:
    pod = build_pod(hostname="web", subdomain="site")
    last = build_hosts(pod, "10.0.0.2", "cluster.local").splitlines()[-1]
    assert last == "10.0.0.2\tweb.site.ns.svc.cluster.local\tweb"


def test_resolver_searches_the_namespace_first() -> None:
    assert build_resolver(build_pod(), "10.0.0.1", "cluster.local", "") == (
        "search ns.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.0.0.1\noptions ndots:5\n"
    )


def test_resolver_of_policy_none_is_the_pods_own() -> None:
    config = {"nameservers": ["9.9.9.9"], "options": [{"name": "ndots", "value": "1"}]}
    pod = build_pod(dnsPolicy="None", dnsConfig=config)
    assert build_resolver(pod, "10.0.0.1", "x", "") == "nameserver 9.9.9.9\noptions ndots:1\n"


def test_resolver_of_policy_default_is_the_machines() -> None:
    host = "nameserver 8.8.8.8\nsearch example.com\n"
    expected = "search example.com\nnameserver 8.8.8.8\n"
    assert build_resolver(build_pod(dnsPolicy="Default"), "10.0.0.1", "x", host) == expected
