from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.local.network.directories import HTTP, add_service, add_slice, endpoint

from kubewright.local.network.dns_zone import Answer, ClusterZone, Outcome
from kubewright.local.network.service_directory import ServiceDirectory

SOA = "ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 30"


@pytest.fixture
def directory() -> ServiceDirectory:
    return ServiceDirectory()


@pytest.fixture
def zone(directory: ServiceDirectory) -> ClusterZone:
    return ClusterZone(directory, {"shop", "kube-system"}.__contains__, serial=lambda: 7)


def data(answer: Answer) -> Sequence[str]:
    assert answer.outcome is Outcome.SUCCESS
    return [record.data for record in answer.records]


def is_empty(answer: Answer) -> bool:
    """Tell whether the name is there, but nothing of the type: with the SOA to remember that by."""
    assert answer.outcome is Outcome.SUCCESS
    return not answer.records and [record.data for record in answer.authority] == [SOA]


def is_unknown(answer: Answer) -> bool:
    """Tell whether there is no such name: with the SOA to remember that by."""
    known = answer.outcome is not Outcome.NO_NAME
    return not known and [record.data for record in answer.authority] == [SOA]


def test_service_has_its_virtual_address(directory: ServiceDirectory, zone: ClusterZone) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    answer = zone.answer("WEB.shop.svc.Cluster.local.", "A")
    assert data(answer) == ["10.96.1.1"]
    assert answer.records[0].name == "web.shop.svc.cluster.local."
    assert 5 <= answer.records[0].ttl <= 30


def test_other_type_of_a_known_name_is_no_data(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    for type in ("AAAA", "TXT", "MX"):
        assert is_empty(zone.answer("web.shop.svc.cluster.local", type))


def test_service_of_both_families(directory: ServiceDirectory, zone: ClusterZone) -> None:
    ips = ["10.96.1.1", "fd00::1"]
    add_service(directory, "web", clusterIP=ips[0], clusterIPs=ips, ports=[HTTP])
    assert data(zone.answer("web.shop.svc.cluster.local", "A")) == ["10.96.1.1"]
    assert data(zone.answer("web.shop.svc.cluster.local", "AAAA")) == ["fd00::1"]


@pytest.mark.parametrize(
    "name",
    [
        "other.shop.svc.cluster.local",
        "web.elsewhere.svc.cluster.local",
        "elsewhere.svc.cluster.local",
        "web.shop.cluster.local",
        "a.b.c.web.shop.svc.cluster.local",
        "web.shop.svc.cluster.local.shop.svc.cluster.local",
        "_https._tcp.web.shop.svc.cluster.local",
        "_http._udp.web.shop.svc.cluster.local",
        "one.web.shop.svc.cluster.local",
    ],
)
def test_unknown_names(directory: ServiceDirectory, zone: ClusterZone, name: str) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    assert is_unknown(zone.answer(name, "A"))
    assert is_unknown(zone.answer(name, "SRV"))


@pytest.mark.parametrize(
    "name", ["svc.cluster.local", "shop.svc.cluster.local", "pod.cluster.local", "cluster.local"]
)
def test_names_above_services_have_no_address(zone: ClusterZone, name: str) -> None:
    assert is_empty(zone.answer(name, "A"))


def test_names_outside_the_zone_are_for_others(zone: ClusterZone) -> None:
    for name in ("example.com", "evilcluster.local", "", "local"):
        assert zone.answer(name, "A").outcome is Outcome.NOT_OURS


def test_port_of_a_service(directory: ServiceDirectory, zone: ClusterZone) -> None:
    https = {"name": "https", "port": 443}
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP, https])
    answer = zone.answer("_http._tcp.web.shop.svc.cluster.local", "SRV")
    assert data(answer) == ["0 100 80 web.shop.svc.cluster.local."]
    assert [(r.name, r.data) for r in answer.additional] == [
        ("web.shop.svc.cluster.local.", "10.96.1.1")
    ]
    both = zone.answer("web.shop.svc.cluster.local", "SRV")
    assert data(both) == [
        "0 50 80 web.shop.svc.cluster.local.",
        "0 50 443 web.shop.svc.cluster.local.",
    ]
    assert len(both.additional) == 1


def test_headless_service_has_its_ready_endpoints(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_slice(
        directory,
        "db",
        endpoint("10.244.0.2", hostname="db-0"),
        endpoint("10.244.0.3"),
        endpoint("10.244.0.4", conditions={"ready": False}),
        endpoint("10.244.0.5", conditions={}),
    )
    answer = zone.answer("db.shop.svc.cluster.local", "A")
    assert data(answer) == ["10.244.0.2", "10.244.0.3", "10.244.0.5"]
    ports = zone.answer("_http._tcp.db.shop.svc.cluster.local", "SRV")
    assert data(ports)[:2] == [
        "0 33 8080 db-0.db.shop.svc.cluster.local.",
        "0 33 8080 10-244-0-3.db.shop.svc.cluster.local.",
    ]
    assert [record.data for record in ports.additional][:2] == ["10.244.0.2", "10.244.0.3"]


def test_headless_service_without_ready_endpoints_has_no_name(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_slice(directory, "db", endpoint("10.244.0.4", conditions={"ready": False}))
    assert is_unknown(zone.answer("db.shop.svc.cluster.local", "A"))


def test_headless_service_without_ports_has_addresses_and_no_srv(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    add_service(directory, "db", clusterIP="None")
    add_slice(directory, "db", endpoint("10.244.0.2", hostname="db-0"), ports=[])
    assert data(zone.answer("db.shop.svc.cluster.local", "A")) == ["10.244.0.2"]
    assert is_empty(zone.answer("db.shop.svc.cluster.local", "SRV"))


def test_pod_of_a_stateful_set_has_a_name(directory: ServiceDirectory, zone: ClusterZone) -> None:
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_slice(directory, "db", endpoint("10.244.0.2", hostname="db-0"), endpoint("10.244.0.3"))
    assert data(zone.answer("db-0.db.shop.svc.cluster.local", "A")) == ["10.244.0.2"]
    assert data(zone.answer("10-244-0-3.db.shop.svc.cluster.local", "A")) == ["10.244.0.3"]
    assert is_unknown(zone.answer("db-1.db.shop.svc.cluster.local", "A"))
    assert is_empty(zone.answer("db-0.db.shop.svc.cluster.local", "AAAA"))


def test_endpoints_of_both_families(directory: ServiceDirectory, zone: ClusterZone) -> None:
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_slice(directory, "db", endpoint("10.244.0.2", hostname="db-0"))
    add_slice(directory, "db", endpoint("fd00::2", hostname="db-0"), addressType="IPv6")
    assert data(zone.answer("db-0.db.shop.svc.cluster.local", "AAAA")) == ["fd00::2"]


def test_external_name_is_an_alias(directory: ServiceDirectory, zone: ClusterZone) -> None:
    add_service(directory, "mail", type="ExternalName", externalName="mx.example.com")
    answer = zone.answer("mail.shop.svc.cluster.local", "A")
    assert [(r.type, r.data) for r in answer.records] == [("CNAME", "mx.example.com.")]
    assert answer.alias == "mx.example.com."
    assert is_unknown(zone.answer("one.mail.shop.svc.cluster.local", "A"))


def test_external_name_within_the_zone_is_followed(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    name = "web.shop.svc.cluster.local"
    add_service(directory, "alias", type="ExternalName", externalName=name)
    assert data(zone.answer("alias.shop.svc.cluster.local", "A")) == [f"{name}.", "10.96.1.1"]


def test_external_names_that_name_each_other_end(
    directory: ServiceDirectory, zone: ClusterZone
) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        target = f"{other}.shop.svc.cluster.local"
        add_service(directory, name, type="ExternalName", externalName=target)
    assert data(zone.answer("a.shop.svc.cluster.local", "A")) == ["b.shop.svc.cluster.local."]


def test_address_of_a_pod_as_its_name(zone: ClusterZone) -> None:
    assert data(zone.answer("10-244-0-9.shop.pod.cluster.local", "A")) == ["10.244.0.9"]
    assert data(zone.answer("fd00--9.shop.pod.cluster.local", "AAAA")) == ["fd00::9"]
    assert is_empty(zone.answer("10-244-0-9.shop.pod.cluster.local", "AAAA"))
    assert is_unknown(zone.answer("10-244-0-9.elsewhere.pod.cluster.local", "A"))
    assert is_unknown(zone.answer("web-0.shop.pod.cluster.local", "A"))


def test_reverse_names(directory: ServiceDirectory, zone: ClusterZone) -> None:
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    add_service(directory, "db", clusterIP="None", ports=[HTTP])
    add_slice(directory, "db", endpoint("10.244.0.2", hostname="db-0"), endpoint("10.244.0.3"))
    assert data(zone.answer("1.1.96.10.in-addr.arpa.", "PTR")) == ["web.shop.svc.cluster.local."]
    answer = zone.answer("2.0.244.10.in-addr.arpa.", "PTR")
    assert data(answer) == ["db-0.db.shop.svc.cluster.local."]
    # Without a host name an endpoint has no reverse name; others may know one.
    for label in ("3.0.244", "8.8.8", "244"):
        assert zone.answer(f"{label}.10.in-addr.arpa", "PTR").outcome is Outcome.NOT_OURS


def test_version_of_the_names(zone: ClusterZone) -> None:
    assert data(zone.answer("dns-version.cluster.local", "TXT")) == ['"1.1.0"']


def test_apex(directory: ServiceDirectory, zone: ClusterZone) -> None:
    assert data(zone.answer("cluster.local", "SOA")) == [SOA]
    assert data(zone.answer("cluster.local", "NS")) == ["kube-dns.kube-system.svc.cluster.local."]


def test_what_is_gone_is_forgotten(directory: ServiceDirectory, zone: ClusterZone) -> None:
    service = add_service(directory, "db", clusterIP="None", ports=[HTTP])
    found = add_slice(directory, "db", endpoint("10.244.0.2", hostname="db-0"))
    directory.put_slice(found.metadata.key, None)
    assert is_unknown(zone.answer("db-0.db.shop.svc.cluster.local", "A"))
    assert zone.answer("2.0.244.10.in-addr.arpa", "PTR").outcome is Outcome.NOT_OURS
    directory.put_service(service.metadata.key, None)
    assert is_unknown(zone.answer("db.shop.svc.cluster.local", "A"))
