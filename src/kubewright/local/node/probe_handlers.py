"""How one run of a probe asks a container: a command, a TCP connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

from kubewright.api.resource import Object
from kubewright.local.node.runtime import ExecResult, Outcome, ProbeResult, StartError

Connect = Callable[[str, int], Awaitable[socket.socket]]
Execute = Callable[[list[str], float], Awaitable[ExecResult]]

MAX_OUTPUT = 10 * 1024


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
    raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')


async def probe_exec(action: Object, timeout: float, execute: Execute) -> ProbeResult:
    """Run the command of an exec probe; exit status 0 is success."""
    try:
        result = await execute(list(action.get("command") or ()), timeout)
    except TimeoutError:
        words = " ".join(action.get("command") or ())
        note = f'command timed out: "{words}" timed out after {timeout:g}s'
        return ProbeResult(Outcome.FAILURE, note)
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
