"""Logs have the fields of the reconcile, in text and in JSON, and no credentials."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.attempt import Attempt
from kubewright.runtime.attempt_logger import AttemptLogger
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.telemetry.logs import LogFormat, configure_logging
from kubewright.telemetry.redaction import redact

KEY = NamespacedName("team-a", "web")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def start(format: LogFormat) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(format, level=logging.DEBUG, stream=stream)
    return stream


def parse(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def build_logger() -> AttemptLogger:
    attempt = Attempt("c", builtin.DEPLOYMENT, KEY, started=0.0, ids=Random(1))
    return AttemptLogger(logging.getLogger("kubewright.controller.c"), attempt)


def test_json_has_the_reconcile_as_fields_and_not_in_the_message() -> None:
    stream = start("json")
    build_logger().warning("created %s", "it", extra={"children": 3})

    line = parse(stream)[0]

    assert UUID(line.pop("reconcileID")).version == 4
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warn",
        "logger": "kubewright.controller.c",
        "msg": "created it",
        "controller": "c",
        "group": "apps",
        "kind": "Deployment",
        "namespace": "team-a",
        "name": "web",
        "children": 3,
    }


def test_text_begins_with_the_object_and_ends_with_the_reconcile() -> None:
    stream = start("text")
    build_logger().info("created it")

    time, level, logger, rest = stream.getvalue().strip().split(" ", 3)

    assert (time[-1], level, logger) == ("Z", "I", "kubewright.controller.c")
    assert rest.startswith("c: team-a/web: created it kind=Deployment reconcileID=")


def test_a_traceback_is_a_field_of_the_same_line() -> None:
    stream = start("json")
    try:
        raise ValueError(f"refused: Bearer {TOKEN}")
    except ValueError:
        logging.getLogger("mine").exception("it failed", extra={"when": object})

    (line,) = parse(stream)

    assert line["error"] == "ValueError: refused: Bearer ***"
    assert "test_logs.py" in line["stacktrace"]
    assert TOKEN not in stream.getvalue()


@pytest.mark.parametrize("format", ["text", "json"])
async def test_what_users_and_libraries_log_in_a_reconcile_has_its_one_id(
    format: LogFormat,
) -> None:
    stream = start(format)
    done = asyncio.Event()

    async def deeper() -> None:
        logging.getLogger("library").info("library-line")

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        if key.name != "target":
            return
        ctx.logger.info("own-line")
        logging.getLogger("user").info("user-line")
        await asyncio.create_task(deeper())
        await asyncio.to_thread(logging.getLogger("thread").info, "thread-line")
        done.set()

    async with serve(ServerOptions(listening=False)) as server:
        client = Client(server.client_transport())
        meta = {"name": "target", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        manager = Manager(client, namespaces=["default"])
        manager.add(Controller("c", builtin.SECRET, reconcile))
        task = asyncio.create_task(manager.run())
        async with asyncio.timeout(5):
            await done.wait()
        task.cancel()
        await asyncio.wait((task,))

    lines = [line for line in stream.getvalue().splitlines() if "-line" in line]
    assert len(lines) == 4
    assert all("target" in line for line in lines)
    if format == "json":
        ids = {json.loads(line)["reconcileID"] for line in lines}
    else:
        ids = {line.rpartition("reconcileID=")[2] for line in lines}
    assert len(ids) == 1
    assert all(str(UUID(id)) == id for id in ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer ***"),
        (f"token {TOKEN} is expired", "token *** is expired"),
        ("Basic dXNlcjpwYXNzd29yZA==", "Basic ***"),
        ("postgres://app:s3cret@db:5432/app", "postgres://app:***@db:5432/app"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nmore",
            "***\nmore",
        ),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "***"),
        # Ordinary words stay.
        ("the bearer of bad news", "the bearer of bad news"),
        ("continue token expired", "continue token expired"),
        ("https://10.0.0.1:6443/api", "https://10.0.0.1:6443/api"),
    ],
)
def test_masks_what_is_a_credential_by_its_form(text: str, expected: str) -> None:
    assert redact(text) == expected
