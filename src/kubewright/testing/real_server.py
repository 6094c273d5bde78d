"""The real kube-apiserver with its etcd, for tests."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from kubewright.api.errors import ConfigurationError
from kubewright.local.apiserver.certificates import Certificates, ensure_certificates
from kubewright.local.apiserver.kubeconfig import build_kubeconfig, write_kubeconfig

KUBECONFIG = "KUBEWRIGHT_TEST_KUBECONFIG"
"""Names the kubeconfig of an API server that tests may use."""

ASSETS = "KUBEBUILDER_ASSETS"
"""Names the folder of etcd and kube-apiserver, as setup-envtest prints it."""

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_PAUSE_SECONDS = 0.1
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def find_binaries(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of etcd and kube-apiserver; None where they are not built.

    $KUBEBUILDER_ASSETS goes first, then where `make conformance` builds them ($RC/bin, by default
    ~/.cache/realcluster/bin).
    """
    built = Path(environment.get("RC") or Path.home() / ".cache" / "realcluster") / "bin"
    folders = [Path(environment[ASSETS])] if environment.get(ASSETS) else []
    for folder in [*folders, built]:
        if all(os.access(folder / name, os.X_OK) for name in ("etcd", "kube-apiserver")):
            return folder
    return None


@contextmanager
def serve_kube_apiserver(binaries: Path, folder: Path) -> Iterator[Path]:
    """Run etcd and kube-apiserver while the block lasts, and lend the administrator's kubeconfig.

    It takes some three seconds. Nothing but these two runs: no controllers and no nodes. Logs and
    data are in `folder`, and the programs in `binaries`.

    Raises:
        ConfigurationError: one of them ended or was not ready in time; the message shows its log.
    """
    certificates = ensure_certificates(folder, [_HOST, "10.96.0.1"], datetime.now(UTC))
    etcd_port, peer_port, port = _free_ports(3)
    etcd = [
        str(binaries / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://{_HOST}:{etcd_port}",
        f"--advertise-client-urls=http://{_HOST}:{etcd_port}",
        f"--listen-peer-urls=http://{_HOST}:{peer_port}",
        f"--initial-advertise-peer-urls=http://{_HOST}:{peer_port}",
        f"--initial-cluster=default=http://{_HOST}:{peer_port}",
        "--unsafe-no-fsync",
    ]
    server = build_server_command(binaries, certificates, port=port, etcd_port=etcd_port)
    url = f"https://{_HOST}:{port}"
    with (
        _process(etcd, folder / "etcd.log") as etcd_process,
        _process(server, folder / "kube-apiserver.log") as server_process,
    ):
        _wait_ready(url, certificates, (etcd_process, server_process), folder)
        config = build_kubeconfig(url, certificates.ca.decode(), certificates.token)
        write_kubeconfig(folder / "kubeconfig", config)
        yield folder / "kubeconfig"


def build_server_command(
    binaries: Path, certificates: Certificates, *, port: int, etcd_port: int
) -> list[str]:
    """Build kube-apiserver's command line; writes the file of its one user's token."""
    tokens = certificates.path("tokens.csv")
    tokens.write_text(f"{certificates.token},admin,admin,system:masters\n")
    tokens.chmod(0o600)
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://{_HOST}:{etcd_port}",
        f"--bind-address={_HOST}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={certificates.path('apiserver.crt')}",
        f"--tls-private-key-file={certificates.path('apiserver.key')}",
        f"--token-auth-file={tokens}",
        f"--service-account-key-file={certificates.path('sa.pub')}",
        f"--service-account-signing-key-file={certificates.path('sa.key')}",
        f"--service-account-issuer={_ISSUER}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(
    url: str,
    certificates: Certificates,
    processes: tuple[subprocess.Popen[bytes], ...],
    folder: Path,
) -> None:
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    request = urllib.request.Request(f"{url}/readyz")
    request.add_header("Authorization", f"Bearer {certificates.token}")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass  # not yet: it refuses connections, then answers 500
        if any(process.poll() is not None for process in processes):
            raise ConfigurationError(f"the real API server ended: {_tail(folder)}")
        if time.monotonic() >= deadline:
            raise ConfigurationError(f"the real API server is not ready: {_tail(folder)}")
        time.sleep(_PAUSE_SECONDS)


def _tail(folder: Path) -> str:
    logs = (folder / name for name in ("etcd.log", "kube-apiserver.log"))
    return "\n".join(line for log in logs for line in log.read_text().splitlines()[-10:])


def _free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server((_HOST, 0)) for _ in range(count)]
    try:
        return [opened.getsockname()[1] for opened in with_ports]
    finally:
        for opened in with_ports:
            opened.close()
