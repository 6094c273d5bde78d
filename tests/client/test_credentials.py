from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.api.time import format_time
from kubewright.client.connection import build_credentials
from kubewright.client.credentials import StaticCredentials, TokenFile
from kubewright.client.exec_plugin import (
    API_VERSIONS,
    ExecConfig,
    ExecPlugin,
    decode_exec_credential,
)
from kubewright.client.kubeconfig import User
from tests.client.scripted_transport import FakeClock

PRINT = "import os, sys; open(sys.argv[1], 'a').write('x'); print(os.environ['ANSWER'])"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def plugin_of(tmp_path: Path, status: dict[str, Any], **fields: Any) -> ExecConfig:
    answer = {"apiVersion": API_VERSIONS[0], "kind": "ExecCredential", "status": status}
    return ExecConfig(
        command=sys.executable,
        args=("-c", PRINT, str(tmp_path / "runs")),
        env={"ANSWER": json.dumps(answer)},
        **fields,
    )


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


async def test_a_password_is_sent_as_basic_authentication() -> None:
    credential = await StaticCredentials(username="u", password="p").current()
    assert credential.headers == {"Authorization": "Basic dTpw"}
    assert "dTpw" not in repr(credential)


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = TokenFile(path, clock=clock)
    assert (await credentials.current()).headers == bearer("one")
    path.write_text("two")
    clock.elapsed = 59
    assert (await credentials.current()).headers == bearer("one")
    clock.elapsed = 60
    assert (await credentials.current()).headers == bearer("two")


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock=FakeClock())
    await credentials.current()
    path.write_text("two")
    credentials.invalidate()
    assert (await credentials.current()).headers == bearer("two")


async def test_the_last_token_serves_while_the_file_is_away(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await TokenFile(path).current()
    path.write_text("one")
    credentials = TokenFile(path, clock=FakeClock())
    await credentials.current()
    path.unlink()
    credentials.invalidate()
    assert (await credentials.current()).headers == bearer("one")


async def test_a_plugin_runs_once_for_all_requests_until_it_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    expiry = format_time(clock.now() + timedelta(hours=1))
    config = plugin_of(tmp_path, {"token": "t", "expirationTimestamp": expiry})
    plugin = ExecPlugin(config, clock=clock)
    found = await asyncio.gather(*[plugin.current() for _ in range(3)])
    assert [credential.headers for credential in found] == [bearer("t")] * 3
    assert runs(tmp_path) == 1
    clock.elapsed = 3595
    await plugin.current()
    assert runs(tmp_path) == 2


async def test_a_plugin_runs_again_when_its_token_is_refused(tmp_path: Path) -> None:
    plugin = ExecPlugin(plugin_of(tmp_path, {"token": "t"}), clock=FakeClock())
    await plugin.current()
    plugin.invalidate()
    await plugin.current()
    assert runs(tmp_path) == 2


async def test_a_plugin_learns_its_cluster(tmp_path: Path) -> None:
    script = "import os, sys; sys.exit(os.environ['KUBERNETES_EXEC_INFO'])"
    config = ExecConfig(sys.executable, ("-c", script), cluster={"server": "https://x"})
    with pytest.raises(ConfigurationError, match="failed with exit code 1") as caught:
        await ExecPlugin(config).current()
    told = json.loads(str(caught.value).partition(": ")[2])
    assert told["kind"] == "ExecCredential"
    assert told["spec"]["cluster"] == {"server": "https://x"}


async def test_a_missing_plugin_is_told_with_its_hint() -> None:
    config = ExecConfig("/nowhere/login", install_hint="install it with care")
    with pytest.raises(ConfigurationError, match=r"/nowhere/login cannot be started.*with care"):
        await ExecPlugin(config).current()


def test_a_plugin_may_give_a_client_certificate() -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    printed = json.dumps({"apiVersion": API_VERSIONS[0], "status": status}).encode()
    credential, expiry = decode_exec_credential(printed, ExecConfig("x"))
    assert credential.certificate is not None
    assert credential.certificate.key == b"KEY"
    assert credential.headers == {}
    assert expiry is None


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        (b"please log in", "printed no ExecCredential"),
        (b'{"apiVersion": "v2", "status": {"token": "t"}}', "make them the same"),
        (b'{"apiVersion": "client.authentication.k8s.io/v1"}', "neither a token nor"),
        (b'{"status": {"token": "t", "expirationTimestamp": "soon"}}', "no ExecCredential"),
    ],
)
def test_refuses_what_is_no_credential(printed: bytes, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        decode_exec_credential(printed, ExecConfig("login"))


def test_a_token_file_goes_before_a_token_and_a_token_before_a_plugin(tmp_path: Path) -> None:
    plugin, clock = ExecConfig("x"), FakeClock()
    both = User(token="t", token_file=tmp_path / "token", exec=plugin)
    assert isinstance(build_credentials(both, clock), TokenFile)
    assert isinstance(build_credentials(User(token="t", exec=plugin), clock), StaticCredentials)
    assert isinstance(build_credentials(User(username="u", exec=plugin), clock), ExecPlugin)
