"""Two memcached pods as real processes, as root and as an ordinary user; and what a kill leaves."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.local.node.programs import Program, is_gone, wait_until

pytestmark = pytest.mark.processes

PROGRAM = "tests.local.node.two_memcached"
ANSWER = "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n"


@pytest.fixture(params=["root", "ordinary"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("memcached") is None and shutil.which("apt-get") is None:
        pytest.skip("there is neither memcached nor apt to get it")
    # Not tmp_path, whose parents are closed to other users.
    folder = Path("/tmp", f"kubewright-test-{os.getpid()}-{request.param}")  # see above
    program = Program(PROGRAM, request.param, folder)
    yield program
    program.kill()
    shutil.rmtree(folder)


def test_pods_answer_confined_and_leave_nothing(program: Program) -> None:
    report = program.report
    assert len(set(report["addresses"])) == 2
    assert report["answers"] == [ANSWER, ANSWER]
    assert report["ids"].startswith("11211\na\n")
    assert "Read-only file system" in report["ids"]
    assert report["status"] == "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n"
    # Rules are a right of whoever made the network; another kernel may lack them altogether.
    assert report["filter_error"] in (0, errno.EOPNOTSUPP, errno.ENOENT)

    holder = int(report["enter"][-1])
    namespaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in (holder, *report["pids"])}
    assert len(namespaces) == 3
    is_root = "-U" not in report["enter"]
    if is_root:
        with socket.create_connection((report["addresses"][0], 11211), timeout=5) as connection:
            connection.sendall(b"version\r\n")
            assert connection.recv(100).startswith(b"VERSION")

    program.kill()
    pids = (holder, *report["pids"])
    wait_until(lambda: all(map(is_gone, pids)), "the processes end")
    wait_until(lambda: not namespaces & live_network_namespaces(), "no namespace is left")
    if is_root:
        network = report["addresses"][0].rpartition(".")[0] + "."
        wait_until(lambda: network not in host_addresses(), "no interface is left")


def live_network_namespaces() -> set[str]:
    """List the network namespaces that some process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


def host_addresses() -> str:
    """Return the addresses of the host's interfaces."""
    return subprocess.run(["ip", "-br", "addr"], capture_output=True, text=True, check=True).stdout
