from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from random import Random

import dns.asyncquery
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from tests.local.network.directories import HTTP, add_service, add_slice, endpoint

from kubewright.local.network.dns_server import DNSServer, read_name_servers
from kubewright.local.network.dns_zone import ClusterZone
from kubewright.local.network.service_directory import ServiceDirectory
from kubewright.local.network.upstream_resolver import UpstreamResolver

NAME = "web.shop.svc.cluster.local."


class FixedUpstream:
    """An upstream that knows the address of one name, or does not answer."""

    def __init__(self, address: str = "") -> None:
        self._address = address
        self.asked: list[str] = []

    async def resolve(self, query: bytes, *, stream: bool) -> bytes | None:
        message = dns.message.from_wire(query)
        name = message.question[0].name.to_text()
        self.asked.append(name)
        if not self._address:
            return None
        response = dns.message.make_response(message)
        response.answer.append(dns.rrset.from_text(name, 60, "IN", "A", self._address))
        return response.to_wire()


@pytest.fixture
def directory() -> ServiceDirectory:
    directory = ServiceDirectory()
    add_service(directory, "web", clusterIP="10.96.1.1", ports=[HTTP])
    return directory


def build_server(directory: ServiceDirectory, upstream: FixedUpstream | None = None) -> DNSServer:
    zone = ClusterZone(directory, lambda name: True)
    return DNSServer(zone, upstream or FixedUpstream(), random=Random(1))


async def ask(server: DNSServer, name: str, payload: int | None = None) -> dns.message.Message:
    query = dns.message.make_query(name, "A", payload=payload)
    answer = await server.answer(query.to_wire())
    assert answer is not None
    response = dns.message.from_wire(answer)
    assert query.is_response(response)
    return response


async def test_answers_with_authority_in_the_case_of_the_question(
    directory: ServiceDirectory,
) -> None:
    response = await ask(build_server(directory), "wEb.shop.svc.cluster.local.")
    assert response.flags & dns.flags.AA
    assert response.flags & dns.flags.RA
    (found,) = response.answer
    assert found.name.to_text() == "wEb.shop.svc.cluster.local."
    assert found[0].to_text() == "10.96.1.1"


async def test_unknown_name_comes_with_the_time_to_remember_it(directory: ServiceDirectory) -> None:
    response = await ask(build_server(directory), "no.shop.svc.cluster.local.")
    assert response.rcode() == dns.rcode.NXDOMAIN
    assert response.authority[0].rdtype == dns.rdatatype.SOA


async def test_passes_other_names_on(directory: ServiceDirectory) -> None:
    upstream = FixedUpstream("192.0.2.7")
    response = await ask(build_server(directory, upstream), "example.com.")
    assert response.answer[0][0].to_text() == "192.0.2.7"


async def test_says_so_when_nobody_knows_other_names(directory: ServiceDirectory) -> None:
    response = await ask(build_server(directory), "example.com.")
    assert response.rcode() == dns.rcode.SERVFAIL


async def test_alias_is_followed_upstream(directory: ServiceDirectory) -> None:
    """Resolvers in pods do not ask again: without the address the alias would be of no use."""
    add_service(directory, "mail", type="ExternalName", externalName="mx.example.com")
    upstream = FixedUpstream("192.0.2.7")
    response = await ask(build_server(directory, upstream), "mail.shop.svc.cluster.local.")
    assert [(str(r.name), r[0].to_text()) for r in response.answer] == [
        ("mail.shop.svc.cluster.local.", "mx.example.com."),
        ("mx.example.com.", "192.0.2.7"),
    ]


def add_large_service(directory: ServiceDirectory) -> None:
    add_service(directory, "many", clusterIP="None", ports=[HTTP])
    endpoints = [endpoint(f"10.244.0.{n}", hostname=f"replica-number-{n}") for n in range(2, 250)]
    add_slice(directory, "many", *endpoints)


async def test_large_answer_is_cut_to_what_the_client_takes(directory: ServiceDirectory) -> None:
    add_large_service(directory)
    server, name = build_server(directory), "many.shop.svc.cluster.local."
    plain = dns.message.make_query(name, "A")
    for query, limit in (
        (plain, 512),
        (dns.message.make_query(name, "A", use_edns=0, payload=1232), 1232),
    ):
        answer = await server.answer(query.to_wire())
        assert answer is not None
        assert len(answer) <= limit
        assert dns.message.from_wire(answer).flags & dns.flags.TC
    whole = await server.answer(plain.to_wire(), stream=True)
    assert whole is not None
    assert len(dns.message.from_wire(whole).answer[0]) == 248


async def test_order_of_addresses_changes(directory: ServiceDirectory) -> None:
    add_large_service(directory)
    server = build_server(directory)
    firsts = set()
    for _ in range(5):
        response = await ask(server, "many.shop.svc.cluster.local.", payload=4096)
        firsts.add(response.answer[0][0].to_text())
    assert len(firsts) > 1


@pytest.mark.parametrize(
    ("query", "rcode"),
    [
        (b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09short", dns.rcode.FORMERR),
        (dns.message.Message(id=0x1234).to_wire(), dns.rcode.FORMERR),
    ],
)
async def test_malformed_query_is_told(
    directory: ServiceDirectory, query: bytes, rcode: dns.rcode.Rcode
) -> None:
    answer = await build_server(directory).answer(query)
    assert answer is not None
    assert answer[:2] == b"\x12\x34"
    assert answer[3] & 0x0F == rcode


async def test_other_operations_are_refused(directory: ServiceDirectory) -> None:
    query = dns.message.make_query(NAME, "A")
    query.set_opcode(dns.opcode.NOTIFY)
    answer = await build_server(directory).answer(query.to_wire())
    assert answer is not None
    assert dns.message.from_wire(answer).rcode() == dns.rcode.NOTIMP


async def test_answers_and_noise_get_no_answer(directory: ServiceDirectory) -> None:
    """Two servers that answered each other's answers would never end."""
    server = build_server(directory)
    response = dns.message.make_response(dns.message.make_query(NAME, "A"))
    assert await server.answer(response.to_wire()) is None
    assert await server.answer(b"noise") is None


@pytest.fixture
async def port(directory: ServiceDirectory) -> AsyncIterator[int]:
    add_large_service(directory)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    datagrams.bind(("127.0.0.1", port))
    for bound in (listener, datagrams):
        bound.setblocking(False)
    serving = asyncio.create_task(build_server(directory).serve(datagrams, listener))
    yield port
    serving.cancel()
    await asyncio.wait([serving])


async def test_serves_both_protocols(port: int) -> None:
    query = dns.message.make_query("many.shop.svc.cluster.local.", "A")
    response, used_tcp = await dns.asyncquery.udp_with_fallback(
        query, "127.0.0.1", timeout=5, port=port
    )
    assert used_tcp
    assert len(response.answer[0]) == 248


async def test_upstream_is_asked_by_either_protocol(port: int) -> None:
    resolver = UpstreamResolver(lambda: ["127.0.0.1"], random=Random(1), port=port)
    query = dns.message.make_query(NAME, "A")
    for stream in (False, True):
        answer = await resolver.resolve(query.to_wire(), stream=stream)
        assert answer is not None
        response = dns.message.from_wire(answer)
        assert query.is_response(response)
        assert response.answer[0][0].to_text() == "10.96.1.1"


async def test_dead_upstream_is_no_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        dead = unused.getsockname()[1]
    resolver = UpstreamResolver(lambda: ["127.0.0.1"], random=Random(1), port=dead)
    query = dns.message.make_query(NAME, "A").to_wire()
    assert await resolver.resolve(query, stream=False) is None
    assert await resolver.resolve(query, stream=True) is None


def test_reads_name_servers() -> None:
    text = (
        "# nameserver 1.1.1.1\nsearch lan\nnameserver 10.0.0.2\nnameserver\n nameserver fd00::1\n"
    )
    assert read_name_servers(text) == ["10.0.0.2", "fd00::1"]
