"""HTTP probes: one GET request over a connection into the pod network, as the kubelet sends it."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urljoin, urlsplit

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.probe_handlers import Connect, dial_error
from kubewright.local.node.runtime import Outcome, ProbeResult

MAX_HEAD = 64 * 1024
MAX_BODY = 10 * 1024
MAX_REDIRECTS = 10
SERVED_PLAIN = "http: server gave HTTP response to HTTPS client"


class ProbeFailed(Exception):
    """A request was not answered; the text is Go's."""


class ProbeAnswer(msgspec.Struct, frozen=True):
    """The parts of a response that a probe looks at."""

    status: int
    location: str
    body: bytes


async def probe_http(
    action: Object, address: str, port: int, timeout: float, connect: Connect
) -> ProbeResult:
    """Send a GET request; a status from 200 to 399 is success.

    Redirects to the same host are followed, ten at most; one to another host is a success with a
    warning.
    """
    host = action.get("host") or address
    url = build_url(action, host, port)
    try:
        async with asyncio.timeout(timeout):
            answer = await _follow(action, url, connect)
    except TimeoutError:
        reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return ProbeResult(Outcome.FAILURE, f'Get "{url}": {reason}')
    except ProbeFailed as error:
        return ProbeResult(Outcome.FAILURE, f'Get "{url}": {error}')
    if 300 <= answer.status < 400:
        text = answer.body.decode(errors="replace")
        warning = f"Probe terminated redirects, Response body: {text}"
        return ProbeResult(Outcome.SUCCESS, warning=warning, has_answer=True)
    if 200 <= answer.status < 300:
        return ProbeResult(Outcome.SUCCESS, has_answer=True)
    note = f"HTTP probe failed with statuscode: {answer.status}"
    return ProbeResult(Outcome.FAILURE, note, has_answer=True)


def build_url(action: Object, host: str, port: int) -> str:
    """Build the URL of an HTTP action."""
    scheme = (action.get("scheme") or "HTTP").lower()
    path = action.get("path") or "/"
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"


async def _follow(action: Object, url: str, connect: Connect) -> ProbeAnswer:
    first = urlsplit(url).hostname
    for _ in range(MAX_REDIRECTS):
        answer = await _get(action, url, connect)
        if not (300 <= answer.status < 400 and answer.location):
            return answer
        url = urljoin(url, answer.location)
        if urlsplit(url).hostname != first:
            return answer
    raise ProbeFailed(f"stopped after {MAX_REDIRECTS} redirects")


async def _get(action: Object, url: str, connect: Connect) -> ProbeAnswer:
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    try:
        connection = await connect(host, port)
    except OSError as error:
        raise ProbeFailed(dial_error(host, port, error)) from error
    try:
        reader, writer = await asyncio.open_connection(
            sock=connection,
            ssl=trust_anybody() if is_tls else None,
            server_hostname="" if is_tls else None,
            limit=MAX_HEAD,
        )
    except ssl.SSLError as error:
        is_plain = error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
        raise ProbeFailed(SERVED_PLAIN if is_plain else f"tls: {error.reason}") from error
    except OSError as error:
        raise ProbeFailed("EOF") from error
    try:
        writer.write(build_request(action, url, parts.netloc))
        return await _read_answer(reader)
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        raise ProbeFailed(f"read tcp {host}:{port}: read: {text}") from error
    finally:
        writer.close()


def trust_anybody() -> ssl.SSLContext:
    """Return a context that verifies nothing: the kubelet asks only whether there is an answer."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _read_answer(reader: asyncio.StreamReader) -> ProbeAnswer:
    """Read a response. Raises ProbeFailed: it is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        head = error.partial if isinstance(error, asyncio.IncompleteReadError) else b"\n"
        if not head:
            raise ProbeFailed("EOF") from error
    first, *lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
    version, _, rest = first.partition(" ")
    status = rest.split(" ", 1)[0]
    if not version.startswith("HTTP/") or len(status) != 3 or not status.isdigit():
        reason = f'malformed HTTP response "{first}"'
        raise ProbeFailed(f"net/http: HTTP/1.x transport connection broken: {reason}")
    fields = {name.strip().lower(): value.strip() for name, _, value in map(split_field, lines)}
    location, body = fields.get("location", ""), b""
    if location:
        length = int(fields.get("content-length") or MAX_BODY)
        body = await reader.read(min(length, MAX_BODY))
    return ProbeAnswer(int(status), location, body)


def split_field(line: str) -> tuple[str, str, str]:
    """Split a header line into its name, the colon and its value."""
    return line.partition(":")


def build_request(action: Object, url: str, authority: str) -> bytes:
    """Build the GET request of an HTTP probe; the probe's headers replace the usual ones."""
    own = [(h["name"], h.get("value") or "") for h in action.get("httpHeaders") or ()]
    named = {name.lower(): value for name, value in own}
    fields = [("Host", named.get("host") or authority)]
    if "user-agent" not in named:
        fields.append(("User-Agent", "kube-probe/1.37"))
    if "accept" not in named:
        fields.append(("Accept", "*/*"))
    fields += [(n, v) for n, v in own if n.lower() != "host" and (n.lower() != "accept" or v)]
    path = "/" + url.split("://", 1)[1].partition("/")[2]
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace")
