"""Measure the local API server beside kube-apiserver + etcd, in one run, and print a table.

    python benchmarks/first_light.py [--repeat N]

Rows: time from the start of the process until /readyz answers 200; memory of an idle server; time
to import `kubewright`; ConfigMaps created per second over 8 connections. The real server runs
where Go has built it (see `make conformance`); without it its column is empty. Wall times on a
shared machine are noisy: CPU per create is the figure to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

CREATES = 2000
CONNECTIONS = 8
SHARED = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()


@dataclass
class Figures:
    """What was measured of one server."""

    ready_seconds: float
    idle_mebibytes: float
    creates_per_second: float
    cpu_ms_per_create: float


@dataclass
class Server:
    """A started server: how to reach it, and its processes."""

    url: str
    tls: ssl.SSLContext
    headers: dict[str, str]
    root: int

    @property
    def pids(self) -> list[int]:
        """The process and all below it."""
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(stat.parent.name))
        found, left = [], [self.root]
        while left:
            found.append(pid := left.pop())
            left += children.get(pid, [])
        return found

    def memory(self) -> float:
        """Resident memory of all processes in MiB."""
        pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in self.pids)
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu(self) -> float:
        """User and system time of all processes in seconds."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def load_server(kubeconfig: Path, root: int) -> Server:
    """Read what a client needs from a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
    else:
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
    headers = {}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    if "client-certificate" in user:
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
    return Server(cluster["server"], tls, headers, root)


class Connection:
    """One keep-alive connection, as thin as it can be: the server is what is measured."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._url = urlsplit(server.url)
        self._headers = "".join(f"{k}: {v}\r\n" for k, v in server.headers.items())

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(
            self._url.hostname, self._url.port, ssl=self._server.tls
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def send(self, method: str, path: str, body: bytes = b"") -> int:
        """Send a request, read the whole answer, return its code."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self._headers}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "transfer-encoding: chunked" in answer:
            while await self._reader.readuntil(b"\r\n") != b"0\r\n":
                await self._reader.readuntil(b"\r\n")
        else:
            await self._reader.readexactly(int(answer.partition("content-length: ")[2].split()[0]))
        return int(answer.split()[1])


async def wait_ready(kubeconfig: Path, process: subprocess.Popen[bytes]) -> Server:
    """Ask /readyz until it answers 200."""
    while True:
        if process.poll() is not None:
            raise SystemExit("a server ended before it was ready")
        try:
            server = load_server(kubeconfig, process.pid)
            async with Connection(server) as connection:
                if await connection.send("GET", "/readyz") == 200:
                    return server
        except (OSError, TypeError, asyncio.IncompleteReadError, yaml.YAMLError):
            pass  # not written, or not listening yet
        await asyncio.sleep(0.005)


async def create_many(server: Server) -> float:
    """Create ConfigMaps over 8 connections and return how many a second."""
    left = iter(range(CREATES))
    path = "/api/v1/namespaces/default/configmaps"

    async def work() -> None:
        async with Connection(server) as connection:
            for number in left:
                body = {"metadata": {"name": f"bench-{number}"}, "data": {"k": "x" * 900}}
                code = await connection.send("POST", path, json.dumps(body).encode())
                if code != 201:
                    raise SystemExit(f"a create answered {code}")

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return CREATES / (time.monotonic() - began)


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, and stop it in the end."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or the compiler is measured too
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def measure(command: list[str], kubeconfig: Path, folder: Path) -> Figures:
    """Start one server and take its figures."""
    began = time.monotonic()
    with started(command, folder) as process:
        server = await wait_ready(kubeconfig, process)
        ready = time.monotonic() - began
        await asyncio.sleep(3)  # until it is idle
        memory, before = server.memory(), server.cpu()
        rate = await create_many(server)
        cpu = (server.cpu() - before) * 1000 / CREATES
        return Figures(ready, memory, rate, cpu)


def ours(folder: Path) -> tuple[list[str], Path]:
    """Return the command of our control plane with all controllers and no node."""
    kubeconfig = folder / "kubeconfig"
    kubewright = Path(sys.executable).parent / "kubewright"
    command = [str(kubewright), "local", "up", "--foreground", "--name", "bench", "--nodes", "0"]
    return [*command, "--kubeconfig", str(kubeconfig)], kubeconfig


def real(folder: Path) -> tuple[list[str], Path]:
    """Return the command of etcd and kube-apiserver."""
    up = SHARED / "realcluster" / "up.py"
    return [sys.executable, str(up), str(folder / "real")], folder / "real" / "kubeconfig"


def import_seconds(statement: str) -> float:
    """Return what a statement adds to the start of Python: the smallest of nine."""

    def run(code: str) -> float:
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.monotonic() - began

    return min(run(statement) for _ in range(9)) - min(run("pass") for _ in range(9))


def has_real_server() -> bool:
    """Tell whether the real control plane was built."""
    cache = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster"))
    return (SHARED / "realcluster" / "up.py").exists() and (cache / "bin/kube-apiserver").exists()


def median(runs: list[Figures], name: str) -> float:
    """Return the median of one figure."""
    return statistics.median(float(getattr(run, name)) for run in runs)


def main() -> None:
    """Measure both servers in turns and print the table."""
    parser = argparse.ArgumentParser(description="Measure beside the real kube-apiserver.")
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    results: dict[str, list[Figures]] = {"kubewright": [], "kube-apiserver + etcd": []}
    for _ in range(repeat):
        for name, build in (("kubewright", ours), ("kube-apiserver + etcd", real)):
            if build is real and not has_real_server():
                continue
            with tempfile.TemporaryDirectory(prefix="kw-bench-") as scratch:
                command, kubeconfig = build(Path(scratch))
                results[name].append(asyncio.run(measure(command, kubeconfig, Path(scratch))))
    print_table(results)
    print(f"\nimport kubewright: {import_seconds('import kubewright') * 1000:.0f} ms (goal 150)")
    operator = import_seconds("import memcached_operator") * 1000
    print(f"import memcached_operator (pydantic and the runtime included): {operator:.0f} ms")


def print_table(results: dict[str, list[Figures]]) -> None:
    """Print medians, one column for each server."""
    rows = [
        ("ready after, s", "ready_seconds", "0.3", "{:.2f}"),
        ("memory idle, MiB", "idle_mebibytes", "80", "{:.0f}"),
        ("creates per second, 8 connections", "creates_per_second", "1000", "{:.0f}"),
        ("server CPU per create, ms", "cpu_ms_per_create", "", "{:.2f}"),
    ]
    names = list(results)
    print(f"| median of {len(results['kubewright'])} | goal | {' | '.join(names)} |")
    print(f"|---|---|{'---|' * len(names)}")
    for title, field, goal, form in rows:
        cells = [form.format(median(runs, field)) if runs else "" for runs in results.values()]
        print(f"| {title} | {goal} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
