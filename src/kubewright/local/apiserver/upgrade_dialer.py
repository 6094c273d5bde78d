"""The client's side of an upgrade from HTTP/1.1 to another protocol, as far as its first byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from kubewright.api.errors import KubewrightError
from kubewright.local.upgraded_connection import ByteStream

MAX_REFUSAL = 1 << 14
Pairs = Sequence[tuple[str, str]]


class UpgradeRefused(KubewrightError):
    """The other side answered something else than 101."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


async def dial_upgrade(
    host: str, port: int, context: ssl.SSLContext, path: str, query: Pairs, headers: Pairs
) -> tuple[ByteStream, dict[str, str]]:
    """Connect over TLS and upgrade; return the connection and the answer's headers in lower case.

    `headers` name the protocol (Upgrade). The other side must wait for this one to speak first.

    Raises:
        UpgradeRefused: the answer is no upgrade.
        OSError: nobody answers, or not in HTTP.
    """
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(_build_request(f"{host}:{port}", path, query, headers))
        status, answer = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        if status != 101:
            size = min(int(answer.get("content-length", "0")), MAX_REFUSAL)
            text = (await reader.readexactly(size)).decode(errors="replace")
            raise UpgradeRefused(status, text.strip())
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        writer.close()
        raise ConnectionError(f"no answer in HTTP: {error}") from error
    except BaseException:
        writer.close()
        raise
    return ByteStream(reader, writer), answer


def _build_request(host: str, path: str, query: Pairs, headers: Pairs) -> bytes:
    lines = [
        f"POST {quote(path)}?{urlencode(query)} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        *(f"{name}: {value}" for name, value in headers),
        "Content-Length: 0",
        "\r\n",
    ]
    return "\r\n".join(lines).encode()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs if name}
    return int(first.split(" ")[1]), headers
