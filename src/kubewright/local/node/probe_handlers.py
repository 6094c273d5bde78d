"""How one run of a probe asks a container: a command, an HTTP request, a TCP connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

from kubewright.api.resource import Object
from kubewright.local.node.runtime import ExecResult, Outcome, ProbeResult, StartError

Connect = Callable[[str, int], Awaitable[socket.socket]]
Execute = Callable[[list[str], float], Awaitable[ExecResult]]

MAX_OUTPUT = 10 * 1024
MAX_HEAD = 64 * 1024


def resolve_port(port: int | str, ports: Mapping[str, int]) -> int:
    """Return the number of a port that is given by number or by the container's name for it.

    Raises:
        ValueError: no port has the name.
    """
    if isinstance(port, int):
        return port
    if port in ports:
        return ports[port]
    if port.isdigit():
        return int(port)
    raise ValueError(f"couldn't find port: {port!r}")


async def probe_exec(action: Object, timeout: float, execute: Execute) -> ProbeResult:
    """Run the command of an exec probe; exit status 0 is success."""
    try:
        result = await execute(list(action.get("command") or ()), timeout)
    except TimeoutError:
        return ProbeResult(Outcome.FAILURE, f"command timed out after {timeout:g}s")
    except StartError as error:
        return ProbeResult(Outcome.UNKNOWN, error.message)
    outcome = Outcome.FAILURE if result.exit_code else Outcome.SUCCESS
    return ProbeResult(outcome, result.output[:MAX_OUTPUT])


async def probe_tcp(address: str, port: int, timeout: float, connect: Connect) -> ProbeResult:
    """Open a connection; that it opens is success."""
    try:
        async with asyncio.timeout(timeout):
            connection = await connect(address, port)
    except TimeoutError:
        return ProbeResult(Outcome.FAILURE, f"dial tcp {address}:{port}: i/o timeout")
    except OSError as error:
        return ProbeResult(Outcome.FAILURE, dial_error(address, port, error))
    connection.close()
    return ProbeResult(Outcome.SUCCESS)


def dial_error(address: str, port: int, error: OSError) -> str:
    """Word a failed connection as Go does, since events show it."""
    text = (error.strerror or str(error)).lower()
    if isinstance(error, ConnectionRefusedError):
        text = "connection refused"
    return f"dial tcp {address}:{port}: connect: {text}"


async def probe_http(
    action: Object, address: str, port: int, timeout: float, connect: Connect
) -> ProbeResult:
    """Send a GET request; a status from 200 to 399 is success."""
    host = action.get("host") or address
    scheme = (action.get("scheme") or "HTTP").lower()
    path = action.get("path") or "/"
    url = f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"
    try:
        async with asyncio.timeout(timeout):
            connection = await connect(host, port)
            status = await _get_status(connection, action, url, host, port)
    except TimeoutError:
        return ProbeResult(
            Outcome.FAILURE,
            f'Get "{url}": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)",
        )
    except OSError as error:
        return ProbeResult(Outcome.FAILURE, f'Get "{url}": {dial_error(host, port, error)}')
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return ProbeResult(Outcome.FAILURE, f'Get "{url}": malformed HTTP response')
    if 200 <= status < 400:
        return ProbeResult(Outcome.SUCCESS)
    return ProbeResult(Outcome.FAILURE, f"HTTP probe failed with statuscode: {status}")


async def _get_status(
    connection: socket.socket, action: Object, url: str, host: str, port: int
) -> int:
    context = None
    if url.startswith("https:"):
        # The kubelet does not verify a probe's certificate either: it asks only whether it answers.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(
        sock=connection, ssl=context, server_hostname="" if context else None, limit=MAX_HEAD
    )
    try:
        writer.write(build_request(action, url, f"{host}:{port}"))
        await writer.drain()
        head = await reader.readuntil(b"\n")
    finally:
        writer.close()
    version, status, *_ = head.decode("latin-1").split()
    if not version.startswith("HTTP/"):
        raise ValueError(f"no HTTP response: {head!r}")
    return int(status)


def build_request(action: Object, url: str, authority: str) -> bytes:
    """Build the GET request of an HTTP probe; the probe's headers replace the usual ones."""
    headers = {"host": authority, "user-agent": "kube-probe/1.37", "accept": "*/*"}
    for header in action.get("httpHeaders") or ():
        headers[header["name"].lower()] = header.get("value") or ""
    path = "/" + url.split("://", 1)[1].partition("/")[2]
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1", "replace")
