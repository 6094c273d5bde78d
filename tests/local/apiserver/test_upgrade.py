from __future__ import annotations

import asyncio

import pytest

from kubewright.api.errors import BadRequest, NotImplementedByServer
from kubewright.api.resource import Object
from kubewright.local.apiserver.rest.pod_connect import (
    EXEC_PROTOCOLS,
    FORWARD_PROTOCOLS,
    choose_container,
    choose_protocol,
    has_terminal,
    parse_ports,
)
from kubewright.local.relay import relay


class End:
    """One end of a connection: `incoming` is what it receives, None or an error ends it."""

    def __init__(self, *incoming: bytes | None) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        for message in incoming:
            self.incoming.put_nowait(message)
        self.sent: list[bytes] = []
        self.is_gone = False
        self.closed = 0

    async def receive(self) -> bytes | None:
        return await self.incoming.get()

    async def send(self, message: bytes) -> None:
        if self.is_gone:
            raise ConnectionResetError
        self.sent.append(message)

    async def close(self) -> None:
        self.closed += 1


async def test_relays_what_was_sent_before_the_close() -> None:
    client, node = End(), End(b"\1out", b"\3status", None)

    await relay(client, node)

    assert client.sent == [b"\1out", b"\3status"]
    assert (client.closed, node.closed) == (1, 1)


async def test_a_client_that_is_gone_ends_the_node_too() -> None:
    client, node = End(), End(b"\1out")
    client.is_gone = True

    await relay(client, node)

    assert node.closed == 1


def build_pod(*containers: str, default: str = "") -> Object:
    annotations = {"kubectl.kubernetes.io/default-container": default} if default else {}
    return {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": name} for name in containers]},
    }


def test_chooses_the_container_by_name_annotation_or_because_it_is_alone() -> None:
    assert choose_container(build_pod("a", "b"), "b") == "b"
    assert choose_container(build_pod("a", "b", default="b"), "") == "b"
    assert choose_container(build_pod("a"), "") == "a"


def test_says_which_containers_there_are() -> None:
    with pytest.raises(BadRequest, match=r"choose one of: \[a b\]"):
        choose_container(build_pod("a", "b"), "")
    with pytest.raises(BadRequest, match="container c is not valid for pod p"):
        choose_container(build_pod("a", "b"), "c")


def test_the_first_protocol_of_the_client_that_is_known_wins() -> None:
    offered = "v9.channel.k8s.io, v4.channel.k8s.io, v5.channel.k8s.io"
    assert choose_protocol("websocket", offered, EXEC_PROTOCOLS) == "v4.channel.k8s.io"


def test_ports_are_forwarded_to_clients_that_know_no_spdy_or_name_no_protocol() -> None:
    offered = "v5.channel.k8s.io,v4.channel.k8s.io"
    assert choose_protocol("websocket", offered, FORWARD_PROTOCOLS) == "v4.channel.k8s.io"
    assert choose_protocol("websocket", "", FORWARD_PROTOCOLS) == ""


def test_ports_repeat_or_are_separated_by_commas() -> None:
    assert parse_ports(["80,81", "82"]) == ["80", "81", "82"]
    with pytest.raises(BadRequest, match="invalid syntax"):
        parse_ports(["80,http"])


def test_refuses_other_upgrades() -> None:
    with pytest.raises(BadRequest, match="Upgrade request required"):
        choose_protocol("", "", EXEC_PROTOCOLS)
    with pytest.raises(BadRequest, match="unable to upgrade"):
        choose_protocol("websocket", "v1.other", EXEC_PROTOCOLS)
    with pytest.raises(NotImplementedByServer, match="upgrade to h2c"):
        choose_protocol("h2c", "", EXEC_PROTOCOLS)


def test_the_pod_tells_whether_a_container_has_a_terminal() -> None:
    spec = {
        "containers": [{"name": "plain"}, {"name": "shell", "tty": True}],
        "ephemeralContainers": [{"name": "debug", "tty": True}],
    }
    names = ["plain", "shell", "debug"]
    assert [has_terminal({"spec": spec}, name) for name in names] == [False, True, True]
