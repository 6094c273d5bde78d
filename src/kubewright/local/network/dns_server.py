"""The name server of a node's pods, over UDP and TCP (RFC 1035, RFC 6891, RFC 7766)."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Sequence
from random import Random
from typing import Protocol, cast

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from kubewright.local.network.dns_zone import Answer, ClusterZone, Outcome, Record

_logger = logging.getLogger(__name__)

MAX_DATAGRAM = 4096
"""The largest answer over UDP, where a client can take so much: it never leaves the machine."""
PLAIN_DATAGRAM = 512
IDLE_SECONDS = 10.0
BACKLOG = 128
_HEADER = struct.Struct("!H")


class Upstream(Protocol):
    """Who answers for names outside the cluster."""

    async def resolve(self, query: bytes, *, stream: bool) -> bytes | None:
        """Return the answer to a query; None where nobody answers."""
        ...


class DNSServer:
    """Answers questions about the cluster's zone, and passes others on.

    What the zone knows is answered at once; only a question that is passed on waits.
    """

    def __init__(self, zone: ClusterZone, upstream: Upstream, *, random: Random) -> None:
        self._zone = zone
        self._upstream = upstream
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, datagrams: socket.socket, listener: socket.socket) -> None:
        """Serve a bound UDP socket and a bound TCP socket until cancelled; both are closed."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=datagrams)
        try:
            async with await asyncio.start_server(self._converse, sock=listener, backlog=BACKLOG):
                await loop.create_future()
        finally:
            transport.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def take(self, query: bytes, client: tuple[str, int], transport: _Sender) -> None:
        """Answer a datagram, now or when upstream has."""
        task = asyncio.create_task(self._reply(query, client, transport))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, query: bytes, client: tuple[str, int], transport: _Sender) -> None:
        if answer := await self.answer(query):
            transport.sendto(answer, client)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one TCP connection, one after the other."""
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS):
                    (size,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
                    query = await reader.readexactly(size)
                answer = await self.answer(query, stream=True)
                if answer is None:
                    return
                writer.write(_HEADER.pack(len(answer)) + answer)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def answer(self, query: bytes, *, stream: bool = False) -> bytes | None:
        """Answer a query in wire format; None for what is no query, which gets no answer."""
        try:
            message = dns.message.from_wire(query, ignore_trailing=True)
        except dns.exception.DNSException:
            return refuse_malformed(query)
        if message.flags & dns.flags.QR:
            return None
        response = dns.message.make_response(message, recursion_available=True)
        if message.opcode() != dns.opcode.QUERY:
            response.set_rcode(dns.rcode.NOTIMP)
        elif len(message.question) != 1:
            response.set_rcode(dns.rcode.FORMERR)
        elif (answer := self._look_up(message)) is None:
            passed = await self._upstream.resolve(query, stream=stream)
            if passed is not None:
                return passed
            response.set_rcode(dns.rcode.SERVFAIL)
        else:
            await self._fill(response, answer)
        limit = 65535 if stream else datagram_limit(message)
        return response.to_wire(max_size=limit, prefer_truncation=True)

    def _look_up(self, message: dns.message.Message) -> Answer | None:
        """Answer from the zone; None where the question is not the zone's."""
        question = message.question[0]
        type = dns.rdatatype.to_text(question.rdtype)
        answer = self._zone.answer(question.name.to_text(), type)
        is_ours = question.rdclass == dns.rdataclass.IN and answer.outcome is not Outcome.NOT_OURS
        return answer if is_ours else None

    async def _fill(self, response: dns.message.Message, answer: Answer) -> None:
        response.flags |= dns.flags.AA
        if answer.outcome is Outcome.NO_NAME:
            response.set_rcode(dns.rcode.NXDOMAIN)
        records = [*answer.records]
        # A client that takes the first address then spreads its load, as CoreDNS' loadbalance does.
        self._random.shuffle(records)
        records.sort(key=lambda record: record.type != "CNAME")
        asked = response.question[0].name.to_text()
        for record in records:
            # The name as it was asked: some resolvers choose its case to know the answer again.
            name = asked if record.name.lower() == asked.lower() else record.name
            response.answer.append(build_rrset(record, name))
        response.additional += [build_rrset(record) for record in answer.additional]
        response.authority += [build_rrset(record) for record in answer.authority]
        if answer.alias:
            await self._follow(response, answer.alias, response.question[0].rdtype)

    async def _follow(
        self, response: dns.message.Message, name: str, type: dns.rdatatype.RdataType
    ) -> None:
        """Add what a name outside the cluster leads to; without an upstream the alias stands."""
        query = dns.message.make_query(name, type, id=self._random.getrandbits(16))
        passed = await self._upstream.resolve(query.to_wire(), stream=False)
        if passed is None:
            return
        try:
            response.answer += dns.message.from_wire(passed, ignore_trailing=True).answer
        except dns.exception.DNSException as error:
            _logger.warning("the answer about %s cannot be read: %s", name, error)


class _Sender(Protocol):
    def sendto(self, data: bytes, addr: tuple[str, int]) -> None: ...


class _Datagrams(asyncio.DatagramProtocol):
    """Hands datagrams to the server."""

    def __init__(self, server: DNSServer) -> None:
        self._server = server
        self._transport: _Sender | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The loop's transports for datagrams are not always asyncio.DatagramTransport.
        self._transport = cast("_Sender", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None:
            self._server.take(data, addr, self._transport)


def build_rrset(record: Record, name: str | None = None) -> dns.rrset.RRset:
    """Build a record in the library's form; `name` stands for the record's own."""
    return dns.rrset.from_text(name or record.name, record.ttl, "IN", record.type, record.data)


def datagram_limit(query: dns.message.Message) -> int:
    """Return how many bytes the one who asks can take in a datagram (RFC 6891, section 6.2.5)."""
    if query.edns < 0:
        return PLAIN_DATAGRAM
    return min(max(query.payload, PLAIN_DATAGRAM), MAX_DATAGRAM)


def refuse_malformed(query: bytes) -> bytes | None:
    """Build the answer FORMERR to what cannot be read; None where not even a header is there."""
    if len(query) < 12 or query[2] & 0x80:
        return None
    flags = 0x8000 | (query[2] & 0x79) << 8 | dns.rcode.FORMERR
    return query[:2] + struct.pack("!5H", flags, 0, 0, 0, 0)


def read_name_servers(resolver: str) -> Sequence[str]:
    """Return the name servers of a resolv.conf."""
    words = (line.split() for line in resolver.splitlines())
    return [entry[1] for entry in words if entry[:1] == ["nameserver"] and len(entry) > 1]
