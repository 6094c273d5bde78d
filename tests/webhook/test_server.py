"""The HTTPS side: what is no review, is too large or comes to the wrong place gets a sentence."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubewright.client.client import Client
from kubewright.telemetry.metrics import Metrics
from kubewright.webhook.certificate_source import FileCertificates
from kubewright.webhook.handler import read_timeout
from kubewright.webhook.server import WebhookServer
from tests.webhook.conftest import build_certificates, eventually
from tests.webhook.widgets import (
    GROUP,
    add_conversion,
    build_operator,
    build_review,
    build_widget,
)

VALIDATE = f"/validate/{GROUP}/v1/widgets"


class Caller:
    """An API server as far as a webhook sees it."""

    def __init__(self, session: aiohttp.ClientSession, port: int, folder: Path) -> None:
        self._session = session
        self._base = f"https://127.0.0.1:{port}"
        self._context = ssl.create_default_context(cafile=folder / "ca.crt")

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **headers}
        async with self._session.post(
            self._base + path, data=io.BytesIO(body), headers=headers, ssl=self._context
        ) as answer:
            text = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(text) if is_json else text.decode()


@pytest.fixture
async def folder(tmp_path: Path, client: Client, namespace: str) -> Path:
    made = await build_certificates(client, namespace).load(["127.0.0.1"], b"")
    for name, text in (
        ("tls.crt", made.certificate),
        ("tls.key", made.key),
        ("ca.crt", made.authorities),
    ):
        (tmp_path / name).write_bytes(text)
    return tmp_path


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def caller(folder: Path, metrics: Metrics) -> AsyncIterator[Caller]:
    server = WebhookServer(
        [add_conversion(build_operator())],
        host="127.0.0.1",
        port=0,
        certificates=FileCertificates(folder, interval=timedelta(seconds=0.05)),
        observer=metrics.webhooks,
    )
    task = asyncio.create_task(server.run())
    await eventually(lambda: is_serving(server))
    async with aiohttp.ClientSession() as session:
        yield Caller(session, server.port, folder)
    task.cancel()
    await asyncio.wait((task,))


async def is_serving(server: WebhookServer) -> bool:
    return not server.find_problems()


async def test_a_review_is_answered_with_its_uid(caller: Caller) -> None:
    status, review = await caller.post(VALIDATE, build_review(object=build_widget()))

    assert (status, review["response"]) == (200, {"uid": "u-1", "allowed": True})


async def test_calls_are_counted(caller: Caller, metrics: Metrics) -> None:
    def count(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"controller_runtime_webhook_{name}", labels)

    await caller.post(VALIDATE, build_review(object=build_widget()))
    await caller.post(VALIDATE, build_review(object=build_widget(colour="fault")))
    await caller.post(VALIDATE, b"{")

    assert count("requests_total", webhook=VALIDATE, code="200") == 2
    assert count("requests_total", webhook=VALIDATE, code="400") == 1
    assert count("latency_seconds_count", webhook=VALIDATE) == 3
    assert count("requests_in_flight", webhook=VALIDATE) == 0
    assert count("panics_total") == 1


async def test_objects_are_converted(caller: Caller) -> None:
    request = {
        "uid": "u-2",
        "desiredAPIVersion": f"{GROUP}/v1",
        "objects": [build_widget(version="v1beta1", size="7")],
    }
    review = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }

    status, answer = await caller.post("/convert", json.dumps(review).encode())

    assert status == 200
    assert answer["response"]["result"] == {"status": "Success"}
    assert answer["response"]["convertedObjects"][0]["spec"]["size"] == 7


async def test_a_conversion_that_fails_is_told_with_its_place(caller: Caller) -> None:
    request = {
        "uid": "u-2",
        "desiredAPIVersion": f"{GROUP}/v1",
        "objects": [build_widget(version="v1beta1", size="many")],
    }
    review = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }

    status, answer = await caller.post("/convert", json.dumps(review).encode())

    assert status == 200
    result = answer["response"]["result"]
    assert (result["status"], result["code"]) == ("Failure", 500)
    assert "ValueError: invalid literal for int()" in result["message"]
    assert "(webhook/widgets.py:" in result["message"]


@pytest.mark.parametrize(
    ("body", "content_type", "code", "sentence"),
    [
        (b"{", "application/json", 400, "the body is no AdmissionReview"),
        (b"", "application/json", 400, "the body is no AdmissionReview"),
        (b"{}", "text/plain", 415, "send application/json, not text/plain"),
        (
            b" " * (7 << 20) + b"{}",
            "application/json",
            413,
            "the review has more than 7340032 bytes",
        ),
    ],
)
async def test_what_is_no_review_gets_a_status_with_a_sentence(
    caller: Caller, body: bytes, content_type: str, code: int, sentence: str
) -> None:
    status, answer = await caller.post(VALIDATE, body, **{"Content-Type": content_type})

    assert (status, answer["kind"], answer["code"]) == (code, "Status", code)
    assert sentence in answer["message"]
    assert (await caller.post(VALIDATE, build_review(object=build_widget())))[0] == 200


async def test_another_path_is_not_found(caller: Caller) -> None:
    assert (await caller.post("/validate", build_review()))[0] == 404


async def test_a_changed_file_is_served_to_new_connections(
    caller: Caller, folder: Path, client: Client, namespace: str
) -> None:
    made = await build_certificates(client, namespace).load(["127.0.0.1", "other.example"], b"")
    (folder / "tls.crt").write_bytes(made.certificate)  # for a moment the pair does not fit
    await asyncio.sleep(0.2)
    assert (await caller.post(VALIDATE, build_review(object=build_widget())))[0] == 200
    (folder / "tls.key").write_bytes(made.key)

    async def is_served() -> bool:
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        port = int(caller._base.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        names = writer.get_extra_info("peercert")["subjectAltName"]
        writer.close()
        await writer.wait_closed()
        return ("DNS", "other.example") in names

    await eventually(is_served)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("10s", 9.0),
        ("1s", 0.8),
        ("30s", 29.0),
        ("", 9.0),
        ("soon", 9.0),
        ("-1s", 9.0),
        ("nan", 9.0),
    ],
)
def test_functions_end_before_the_api_server_gives_up(query: str, seconds: float) -> None:
    assert read_timeout({"timeout": query}, 10) == pytest.approx(seconds)
