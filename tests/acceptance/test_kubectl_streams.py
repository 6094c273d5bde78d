"""What kubectl does with connections into pods: exec, attach, cp, port-forward."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes


@pytest.fixture(params=["websocket", "spdy"], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What kubectl speaks: SPDY is all that versions before 1.31 know, and Go's older clients."""
    answer = "true" if request.param == "websocket" else "false"
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", answer)
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", answer)
    return str(request.param)


@pytest.fixture
def pod(kubectl: Kubectl, cluster: Cluster) -> str:
    """A pod that runs memcached."""
    if cluster.simulated:
        pytest.skip("needs processes in pods")
    eventually(
        lambda: "default" in kubectl("get", "serviceaccount", "-o", "name"),
        "a service account for pods in the new namespace",
    )
    kubectl("run", "cache", "--image=memcached:1.6")
    kubectl("wait", "pod/cache", "--for=condition=Ready", "--timeout=60s")
    return "cache"


def run(
    kubectl: Kubectl, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run kubectl with its outputs apart, as bytes."""
    return subprocess.run(
        kubectl.command(*arguments),
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env=kubectl.environment(),
    )


def test_exec_keeps_outputs_apart_and_passes_the_exit_code(kubectl: Kubectl, pod: str) -> None:
    result = run(kubectl, "exec", pod, "--", "sh", "-c", "echo out; echo err >&2; exit 3")

    assert result.returncode == 3
    assert result.stdout == b"out\n"
    assert result.stderr == b"err\ncommand terminated with exit code 3\n"


def test_exec_sends_all_of_stdin_and_its_end(kubectl: Kubectl, pod: str) -> None:
    data = os.urandom(3_000_000)

    result = run(kubectl, "exec", "-i", pod, "--", "cat", stdin=data)

    assert result.returncode == 0, result.stderr
    assert result.stdout == data


def test_exec_on_a_terminal_has_its_size(kubectl: Kubectl, pod: str) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    script = 'test -t 0 && until test "$(stty size)" = "33 77"; do sleep 0.1; done; exit 5'
    try:
        result = subprocess.run(
            kubectl.command("exec", "-it", pod, "--", "sh", "-c", script),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            timeout=30,
            check=False,
            env=kubectl.environment(),
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert result.returncode == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cache", "--", "nosuch"), 'exec: "nosuch": executable file not found in $PATH'),
        (("cache", "-c", "other", "--", "true"), "container other is not valid for pod cache"),
        (("nothing", "--", "true"), 'pods "nothing" not found'),
    ],
    ids=["command", "container", "pod"],
)
def test_exec_says_what_is_missing(
    kubectl: Kubectl, pod: str, arguments: tuple[str, ...], message: str
) -> None:
    assert message in kubectl("exec", *arguments, code=1)


@contextmanager
def started(kubectl: Kubectl, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A kubectl that goes on, with pipes; it is killed at the end."""
    process = subprocess.Popen(
        kubectl.command(*arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=kubectl.environment(),
    )
    with process:
        yield process
        process.kill()


ECHO = "while read line; do echo out $line; echo err $line >&2; done; echo the end"


@pytest.mark.usefixtures("pod")
def test_attach_writes_to_the_container_and_shows_both_outputs(kubectl: Kubectl) -> None:
    container = {
        "name": "echo",
        "image": "busybox:1.35",
        "stdin": True,
        "command": ["sh", "-c", ECHO],
    }
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "echo"},
            "spec": {"containers": [container]},
        }
    )
    kubectl("wait", "pod/echo", "--for=condition=Ready", "--timeout=60s")

    for word in (b"one", b"two"):
        # Without stdinOnce the container's input outlives the client.
        with started(kubectl, "attach", "-i", "echo") as client:
            assert client.stdin is not None
            assert client.stdout is not None
            assert client.stderr is not None
            client.stdin.write(word + b"\n")
            client.stdin.flush()
            assert client.stdout.readline() == b"out " + word + b"\n"
            lines = iter(client.stderr.readline, b"")
            assert any(line == b"err " + word + b"\n" for line in lines)

    log = kubectl("logs", "echo").splitlines()
    assert sorted(log) == ["err one", "err two", "out one", "out two"]


@pytest.mark.usefixtures("pod")
def test_run_gives_a_container_its_whole_input_and_returns_its_exit_code(kubectl: Kubectl) -> None:
    data = os.urandom(300_000).hex().encode()

    result = run(
        kubectl,
        *("run", "sum", "--image=busybox:1.35", "-i", "--rm", "--restart=Never", "--quiet"),
        *("--", "sh", "-c", "md5sum; exit 3"),
        stdin=data,
    )

    assert result.returncode == 3, result.stderr
    assert result.stdout == hashlib.md5(data).hexdigest().encode() + b"  -\n"
    assert "NotFound" in kubectl("get", "pod", "sum", code=1)


@pytest.mark.usefixtures("pod")
def test_a_container_with_a_terminal_has_the_size_of_its_client(kubectl: Kubectl) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    script = 'test -t 0 && until test "$(stty size)" = "33 77"; do sleep 0.1; done; exit 5'
    command = ("run", "term", "--image=busybox:1.35", "-it", "--rm", "--restart=Never")
    try:
        result = subprocess.run(
            kubectl.command(*command, "--", "sh", "-c", script),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            timeout=60,
            check=False,
            env=kubectl.environment(),
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert result.returncode == 5


def test_cp_there_and_back(kubectl: Kubectl, pod: str, tmp_path: Path) -> None:
    data = os.urandom(1_000_000)
    (tmp_path / "there").write_bytes(data)

    kubectl("cp", str(tmp_path / "there"), f"{pod}:/tmp/file")
    kubectl("cp", f"{pod}:/tmp/file", str(tmp_path / "back"))

    assert (tmp_path / "back").read_bytes() == data


@contextmanager
def port_forward(kubectl: Kubectl, pod: str, port: int) -> Iterator[tuple[int, list[str]]]:
    """Run `kubectl port-forward`; yields the local port, and after the end what it wrote."""
    lines: list[str] = []
    process = subprocess.Popen(
        kubectl.command("port-forward", f"pod/{pod}", f":{port}", "--address=127.0.0.1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=kubectl.environment(),
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    found = re.search(r"127\.0\.0\.1:(\d+) ->", first)
    try:
        assert found, first
        yield int(found.group(1)), lines
    finally:
        process.terminate()
        lines += process.communicate(timeout=20)[0].splitlines()


def test_port_forward_carries_several_connections(kubectl: Kubectl, pod: str) -> None:
    value = os.urandom(500_000).hex().encode()
    with (
        port_forward(kubectl, pod, 11211) as (port, _),
        socket.create_connection(("127.0.0.1", port), 10) as one,
    ):
        one.sendall(b"set key 0 0 %d\r\n%s\r\n" % (len(value), value))
        assert one.recv(64) == b"STORED\r\n"
        with socket.create_connection(("127.0.0.1", port), 10) as other:
            other.sendall(b"get key\r\nquit\r\n")
            received = b"".join(iter(lambda: other.recv(1 << 16), b""))
        one.sendall(b"version\r\n")
        assert one.recv(64).startswith(b"VERSION")

    assert received == b"VALUE key 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)


def test_port_forward_carries_fifty_connections_at_once(kubectl: Kubectl, pod: str) -> None:
    with port_forward(kubectl, pod, 11211) as (port, _), ExitStack() as stack:
        address = ("127.0.0.1", port)
        clients = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(50)]
        for number, client in enumerate(clients):
            client.sendall(b"set key%d 0 0 2\r\n%02d\r\n" % (number, number))
        assert {client.recv(64) for client in clients} == {b"STORED\r\n"}
        for number, client in enumerate(reversed(clients)):
            client.sendall(b"get key%d\r\n" % number)
        answers = [client.recv(64) for client in reversed(clients)]

    assert answers == [b"VALUE key%d 0 2\r\n%02d\r\nEND\r\n" % (n, n) for n in range(50)]


def test_port_forward_says_that_nothing_listens(kubectl: Kubectl, pod: str) -> None:
    with (
        port_forward(kubectl, pod, 9) as (port, lines),
        socket.create_connection(("127.0.0.1", port), 10) as client,
    ):
        assert client.recv(64) == b""

    assert any("connection refused" in line for line in lines), lines
