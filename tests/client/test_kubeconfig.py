from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubewright.api.errors import ConfigurationError
from kubewright.client import KubeConfig
from kubewright.client.kubeconfig import load_in_cluster

CLUSTER = {"server": "https://example:6443"}


def config_of(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: str
) -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": CLUSTER if cluster is None else cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **context}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def write(path: Path, config: object) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def load(tmp_path: Path, config: object, context: str | None = None) -> KubeConfig:
    return KubeConfig.load(write(tmp_path / "config", config), context)


def test_reads_the_current_context(tmp_path: Path) -> None:
    config = load(tmp_path, config_of(user={"token": "t"}, namespace="ns"))
    assert config.server == "https://example:6443"
    assert config.namespace == "ns"
    assert config.context == "c"
    assert config.user.token == "t"
    assert config.tls.verify


def test_takes_inline_data_and_files_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "key.pem").write_bytes(b"KEY")
    encoded = base64.b64encode(b"CERT").decode()
    user = {"client-certificate-data": encoded, "client-key": "pki/key.pem"}
    cluster = {**CLUSTER, "certificate-authority-data": encoded, "tls-server-name": "other"}
    config = load(tmp_path, config_of(cluster, user))
    assert config.user.certificate is not None
    assert (config.user.certificate.certificate, config.user.certificate.key) == (b"CERT", b"KEY")
    assert (config.tls.ca, config.tls.server_name) == (b"CERT", "other")
    assert "KEY" not in repr(config)


def test_merges_the_files_of_the_environment_and_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = config_of({"server": "https://first"})
    del first["contexts"], first["users"]
    second = config_of({"server": "https://second"}, {"token": "t"})
    second["current-context"] = "other"
    paths = [write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    config = KubeConfig.load()
    assert (config.server, config.user.token, config.context) == ("https://first", "t", "c")


def test_finds_the_file_of_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config_of())
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert KubeConfig.load().server == "https://example:6443"


def test_says_what_to_do_where_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="kubewright local up"):
        KubeConfig.load()


def test_names_the_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/absent, which does not exist"):
        KubeConfig.load()


def test_reads_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-groups": ["devs"], "as-user-extra": {"reason": ["test"]}}
    impersonation = load(tmp_path, config_of(user=user)).user.impersonation
    assert impersonation is not None
    assert (impersonation.user, impersonation.groups) == ("jane", ("devs",))
    assert impersonation.extra == {"reason": ("test",)}


def test_reads_a_credential_plugin(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--now"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    config = load(tmp_path, config_of(user={"exec": plugin})).user.exec
    assert config is not None
    assert config.command == str(tmp_path / "bin" / "login")
    assert (config.args, config.env, config.interactive) == (("--now",), {"A": "b"}, False)
    assert config.cluster == CLUSTER


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"current-context": ""}, "current-context is not set"),
        ({"current-context": "x"}, r"context is 'x', which is not in contexts \(there: c\)"),
        ({"clusters": []}, r"names the cluster 'k', which is not in clusters \(there: none\)"),
        ({"users": None}, "names the user 'u'"),
        ({"clusters": [{"name": "k", "cluster": {}}]}, r"clusters\[k\].server is missing"),
        ({"clusters": {"k": 1}}, "clusters must be a list"),
        ({"contexts": [{"context": {}}]}, r"contexts\[0\] has no name"),
    ],
)
def test_names_the_file_and_the_field(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        load(tmp_path, {**config_of(), **change})
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"client-certificate-data": "Q0E="}, r"users\[u\].client-key is missing"),
        (
            {"client-certificate-data": "?", "client-key": "k"},
            "client-certificate-data is not base",
        ),
        ({"client-key": "/nowhere/key"}, "client-key cannot be read"),
        ({"token": 12}, "token must be a text"),
        ({"auth-provider": {"name": "oidc"}}, "use an exec plugin"),
        ({"as-groups": ["devs"]}, "users.u..as is missing"),
        ({"exec": {"command": "x"}}, "exec.apiVersion must be one of"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "exec.command is missing"),
    ],
)
def test_refuses_users_that_cannot_be_used(
    tmp_path: Path, user: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load(tmp_path, config_of(user=user))


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"server": "ftp://x"}, "server must be an https or http URL"),
        ({**CLUSTER, "proxy-url": "socks5://x"}, "SOCKS is not supported"),
        (
            {**CLUSTER, "insecure-skip-tls-verify": True, "certificate-authority-data": "Q0E="},
            "contradicts certificate-authority",
        ),
        ({**CLUSTER, "insecure-skip-tls-verify": "yes"}, "must be true or false"),
    ],
)
def test_refuses_clusters_that_cannot_be_used(
    tmp_path: Path, cluster: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load(tmp_path, config_of(cluster))


@pytest.mark.parametrize("text", ["a: [", "- a\n", "just text"])
def test_refuses_files_that_are_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="is not"):
        KubeConfig.load(path)


def test_a_file_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        KubeConfig.load(tmp_path / "missing")


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"CA")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("ns\n")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    config = load_in_cluster(environment, tmp_path)
    assert config.server == "https://[fd00::1]:6443"
    assert config.namespace == "ns"
    assert config.tls.ca == b"CA"
    assert config.user.token_file == tmp_path / "token"


def test_a_pod_without_a_whole_service_account_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="automountServiceAccountToken"):
        load_in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        """{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://host"}}]}""",
        """{current-context: c, contexts: [{name: c, context: {cluster: k}}],
            clusters: [{name: k, cluster: {server: 'https://host'}}]}""",
    ],
    ids=["json", "flow mapping"],
)
def test_reads_what_begins_with_a_brace(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    assert KubeConfig.load(tmp_path / "config").server == "https://host"


def test_a_broken_text_with_a_brace_is_told_as_yaml(tmp_path: Path) -> None:
    (tmp_path / "config").write_text('{"current-context": "c", ')

    with pytest.raises(ConfigurationError, match="config: is not YAML"):
        KubeConfig.load(tmp_path / "config")


def test_a_kubeconfig_in_json_needs_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(msgspec.json.encode(config_of()).decode())
    program = (
        "import sys; from pathlib import Path; from kubewright.client import KubeConfig; "
        "KubeConfig.load(Path(sys.argv[1])); print('yaml' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "config")]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
