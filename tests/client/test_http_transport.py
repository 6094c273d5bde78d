from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.client import HTTPTransport
from kubewright.client.credentials import Impersonation, TokenFile
from kubewright.client.tls import ClientCertificate, TLSConfig
from tests.client.certificates import Authority

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def closing(transport: HTTPTransport) -> AsyncGenerator[HTTPTransport]:
    try:
        yield transport
    finally:
        await transport.close()


async def test_carries_a_request_and_its_answer() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        text = f"{request.method} {request.raw_path} {request.headers['X-A']} {body.decode()}"
        return web.Response(status=409, text=text, headers={"Retry-After": "3"})

    async with serving(handle) as url, closing(HTTPTransport(url + "/")) as transport:
        response = await transport.request(
            "POST",
            "/api/a%2Fb",
            query=[("labelSelector", "a=b,c in (d)"), ("continue", "+/&")],
            headers={"X-A": "1"},
            body=b"{}",
        )
    assert response.status == 409
    assert response.header("retry-after") == "3"
    target = "/api/a%2Fb?labelSelector=a%3Db,c+in+(d)&continue=%2B/%26"
    assert response.body.decode() == f"POST {target} 1 {{}}"


async def test_keeps_a_query_that_the_path_has() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.raw_path)

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        assert (await transport.request("GET", "/x?a=1")).body == b"/x?a=1"


async def test_joins_headers_that_come_twice() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(headers=[("Warning", '299 - "a"'), ("Warning", '299 - "b"')])

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        response = await transport.request("GET", "/x")
    assert response.header("Warning") == '299 - "a", 299 - "b"'


async def test_streams_an_answer_and_ends_cleanly() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await response.write(b"two\n")
        return response

    async with (
        serving(handle) as url,
        closing(HTTPTransport(url)) as transport,
        transport.stream("GET", "/watch") as stream,
    ):
        text = b"".join([chunk async for chunk in stream.chunks])
    assert (stream.status, text) == (200, b"one\ntwo\n")


async def test_an_aborted_stream_is_a_transport_error() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        with pytest.raises(TransportError, match="GET /watch: the connection broke off"):
            await _read_all(transport)


async def _read_all(transport: HTTPTransport) -> None:
    async with transport.stream("GET", "/watch") as stream:
        async for _ in stream.chunks:
            pass


async def test_no_listener_is_a_transport_error() -> None:
    async with serving(_never) as url:
        pass
    async with closing(HTTPTransport(url)) as transport:
        with pytest.raises(TransportError, match="GET /x"):
            await transport.request("GET", "/x")


async def test_a_server_that_does_not_answer_is_a_transport_error() -> None:
    async with (
        serving(_never) as url,
        closing(HTTPTransport(url, request_timeout=0.05)) as transport,
    ):
        with pytest.raises(TransportError, match="no answer in time"):
            await transport.request("GET", "/x")


async def _never(request: web.BaseRequest) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_a_redirect_is_not_followed_with_credentials() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        assert (await transport.request("GET", "/x")).status == 302


async def test_renews_its_token_once_after_401(tmp_path: Path) -> None:
    seen: list[str] = []
    path = tmp_path / "token"
    path.write_text("old")

    async def handle(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        path.write_text("new")
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async with (
        serving(handle) as url,
        closing(HTTPTransport(url, credentials=TokenFile(path))) as transport,
    ):
        assert (await transport.request("GET", "/x")).status == 200
    assert seen == ["Bearer old", "Bearer new"]


async def test_a_401_without_another_token_is_the_answer(tmp_path: Path) -> None:
    seen: list[str] = []
    path = tmp_path / "token"
    path.write_text("old")

    async def handle(request: web.BaseRequest) -> web.Response:
        seen.append(request.path)
        return web.Response(status=401)

    async with (
        serving(handle) as url,
        closing(HTTPTransport(url, credentials=TokenFile(path))) as transport,
    ):
        assert (await transport.request("GET", "/x")).status == 401
    assert seen == ["/x"]


async def test_acts_as_another_user() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.json_response(
            [(k, v) for k, v in request.headers.items() if k.startswith("Impersonate")]
        )

    who = Impersonation("jane", groups=("devs", "ops"), extra={"Why/not": ("test",)})
    async with serving(handle) as url, closing(HTTPTransport(url, impersonation=who)) as transport:
        body = (await transport.request("GET", "/x")).body.decode()
    assert body == (
        '[["Impersonate-User", "jane"], ["Impersonate-Group", "devs"], '
        '["Impersonate-Group", "ops"], ["Impersonate-Extra-why%2Fnot", "test"]]'
    )


async def _who(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert")
    return web.json_response(peer["subject"] if peer else None)


async def test_verifies_the_server_and_shows_its_own_certificate() -> None:
    authority = Authority()
    async with serving(_who, authority.server_context("api.example")) as url:
        tls = TLSConfig(authority.pem, server_name="api.example")
        transport = HTTPTransport(url, tls=tls, credentials=authority.credentials("jane"))
        async with closing(transport):
            assert b"jane" in (await transport.request("GET", "/x")).body
        async with closing(HTTPTransport(url, tls=TLSConfig(authority.pem))) as transport:
            with pytest.raises(TransportError, match="certificate is not trusted"):
                await transport.request("GET", "/x")
        async with closing(HTTPTransport(url, tls=TLSConfig(verify=False))) as transport:
            assert (await transport.request("GET", "/x")).status == 200


async def test_an_unusable_certificate_is_told_so() -> None:
    with pytest.raises(ConfigurationError, match="certificate authority is not PEM"):
        await _ask_over_tls(TLSConfig(b"nonsense"))


async def _ask_over_tls(tls: TLSConfig) -> None:
    async with closing(HTTPTransport("https://127.0.0.1:1", tls=tls)) as transport:
        await transport.request("GET", "/x")


def test_refuses_a_server_that_is_no_url() -> None:
    with pytest.raises(ConfigurationError, match="write it as https"):
        HTTPTransport("example:6443")


def test_a_key_is_never_printed() -> None:
    assert "SECRET" not in repr(ClientCertificate(b"C", b"SECRET"))


async def _serve_bytes(answers: list[bytes], *, then_close: bool = False) -> asyncio.Server:
    """Serve raw answers, one for each request, on any number of connections."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while answers:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answers.pop(0))
                await writer.drain()
                if then_close:
                    break
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0)


def _url(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_interim_answer_is_followed_by_the_real_one() -> None:
    answer = (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    )
    async with await _serve_bytes([answer]) as server, closing(HTTPTransport(_url(server))) as it:
        response = await it.request("GET", "/x")
    assert (response.status, response.body, response.header("link")) == (200, b"ok", "")


async def test_an_answer_may_end_with_its_connection() -> None:
    answer = b"HTTP/1.0 200 OK\r\n\r\nall of it"
    async with (
        await _serve_bytes([answer], then_close=True) as server,
        closing(HTTPTransport(_url(server))) as it,
    ):
        assert (await it.request("GET", "/x")).body == b"all of it"


async def test_an_answer_that_is_cut_short_is_an_error() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf"
    async with (
        await _serve_bytes([answer], then_close=True) as server,
        closing(HTTPTransport(_url(server))) as it,
    ):
        with pytest.raises(TransportError, match="broke off amid the answer"):
            await it.request("GET", "/x")


async def test_what_is_not_http_is_an_error() -> None:
    async with (
        await _serve_bytes([b"SSH-2.0-OpenSSH\r\n\r\n"]) as server,
        closing(HTTPTransport(_url(server))) as it,
    ):
        with pytest.raises(TransportError, match="the answer is not HTTP"):
            await it.request("GET", "/x")


async def test_connections_are_used_again() -> None:
    ports: list[int] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response(text="x" * 100_000)

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        for _ in range(3):
            await transport.request("GET", "/x")
    assert len(ports) == 3
    assert len(set(ports)) == 1


async def test_a_kept_connection_that_was_closed_costs_a_read_nothing() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with (
        await _serve_bytes([ok, ok], then_close=True) as server,
        closing(HTTPTransport(_url(server))) as it,
    ):
        assert (await it.request("GET", "/x")).body == b"ok"
        assert (await it.request("GET", "/x")).body == b"ok"


async def test_a_write_is_not_repeated() -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        if request.method == "POST":
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="ok")

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        await transport.request("GET", "/x")
        with pytest.raises(TransportError, match="POST /x: the connection broke off"):
            await transport.request("POST", "/x", body=b"{}")
    assert seen == ["GET", "POST"]


async def test_a_request_that_is_given_up_does_not_leave_its_answer_to_the_next() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.path == "/slow":
            await asyncio.sleep(0.05)
        return web.Response(text=request.path)

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        await transport.request("GET", "/first")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await transport.request("GET", "/slow")
        assert (await transport.request("GET", "/next")).body == b"/next"


async def test_a_whole_answer_may_be_of_any_size() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 20_000_000)

    async with serving(handle) as url, closing(HTTPTransport(url)) as transport:
        for _ in range(2):
            assert len((await transport.request("GET", "/x")).body) == 20_000_000


async def test_a_slow_reader_holds_the_server_back() -> None:
    sent = 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(400):
            await response.write(b"x" * 100_000)
            sent += 100_000
        return response

    async with (
        serving(handle) as url,
        closing(HTTPTransport(url)) as transport,
        transport.stream("GET", "/watch") as stream,
    ):
        await asyncio.sleep(0.3)
        held_back_at = sent
        size = 0
        async for chunk in stream.chunks:
            size += len(chunk)
    assert held_back_at < size == 40_000_000


@pytest.mark.parametrize(("path", "value"), [("/x\r\nHost: evil", "1"), ("/x", "1\r\nEvil: 1")])
async def test_a_line_break_cannot_add_a_header(path: str, value: str) -> None:
    async with closing(HTTPTransport("http://127.0.0.1:1")) as transport:
        with pytest.raises(ValueError, match="line break"):
            await transport.request("GET", path, headers={"X-A": value})


async def test_asks_an_http_server_through_a_proxy() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(
            text=f"{request.raw_path} {request.headers['Host']} "
            f"{request.headers['Proxy-Authorization']}"
        )

    async with serving(handle) as url:
        proxy = url.replace("http://", "http://me:pass@")
        async with closing(HTTPTransport("http://api.example:80/base", proxy=proxy)) as transport:
            body = (await transport.request("GET", "/x")).body
    assert body == b"http://api.example:80/base/x api.example:80 Basic bWU6cGFzcw=="


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a proxy that opens one tunnel."""
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.split(b" ", 2)
    host, _, port = target.decode().rpartition(":")
    assert method == b"CONNECT"
    upstream, upward = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()

    await asyncio.gather(carry(reader, upward), carry(upstream, writer))


async def test_asks_an_https_server_through_the_tunnel_of_a_proxy() -> None:
    authority = Authority()
    async with (
        await asyncio.start_server(_tunnel, "127.0.0.1", 0) as proxy,
        serving(_who, authority.server_context("api.example")) as url,
    ):
        tls = TLSConfig(authority.pem, server_name="api.example")
        transport = HTTPTransport(
            url, tls=tls, credentials=authority.credentials("jane"), proxy=_url(proxy)
        )
        async with closing(transport):
            assert b"jane" in (await transport.request("GET", "/x")).body


async def test_a_proxy_that_refuses_is_told_so() -> None:
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with await _serve_bytes([answer]) as proxy:
        transport = HTTPTransport(
            "https://api.example:6443", tls=TLSConfig(verify=False), proxy=_url(proxy)
        )
        async with closing(transport):
            with pytest.raises(TransportError, match=r"the proxy 127.0.0.1 refused a tunnel: 407"):
                await transport.request("GET", "/x")
