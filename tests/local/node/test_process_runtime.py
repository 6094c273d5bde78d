"""Two memcached pods as real processes, as root and as an ordinary user; and what a kill leaves."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubewright.api.resource import Object

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
NOBODY = 65534
PROGRAM = "tests.local.node.two_memcached"
ANSWER = "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n"


def can_execute(program: str) -> bool:
    """Tell whether an ordinary user can run a program: its folders must be open to all."""
    path = Path(program).resolve()
    return path.exists() and all(folder.stat().st_mode & 0o001 for folder in path.parents)


def build_command(user: str) -> list[str]:
    """Build the command that runs the program as root or as an ordinary user."""
    if user == "root":
        return [sys.executable, "-m", PROGRAM]
    if os.geteuid() != 0:
        return [sys.executable, "-m", PROGRAM]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pythons = [sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"]
    python = next(filter(can_execute, pythons), None)
    if python is None or not can_execute(str(ROOT / "src")):
        pytest.skip("an ordinary user can reach neither a Python nor these sources")
    ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *ids, python, "-m", PROGRAM]


class Program:
    """The running program and what it reported."""

    def __init__(self, user: str, folder: Path) -> None:
        folder.mkdir()
        if user != "root" and os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        packages = [path for path in sys.path if path.endswith("site-packages")]
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *packages]),
        }
        self.process = subprocess.Popen(
            [*build_command(user), str(folder)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the program ended early; its standard error says why"
        self.report: Object = json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["root", "ordinary"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("memcached") is None and shutil.which("apt-get") is None:
        pytest.skip("there is neither memcached nor apt to get it")
    # Not tmp_path, whose parents are closed to other users.
    folder = Path("/tmp", f"kubewright-test-{os.getpid()}-{request.param}")  # see above
    program = Program(request.param, folder)
    yield program
    program.kill()
    shutil.rmtree(folder)


def wait_until(is_met: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_pods_answer_confined_and_leave_nothing(program: Program) -> None:
    report = program.report
    assert len(set(report["addresses"])) == 2
    assert report["answers"] == [ANSWER, ANSWER]
    assert report["ids"].startswith("11211\na\n")
    assert "Read-only file system" in report["ids"]
    assert report["status"] == "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n"

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
