"""An application behind a Service keeps answering while it is rolled out again and again.

In full: `KUBEWRIGHT_ROLLING_UPDATES=20 KUBEWRIGHT_REQUESTS=10000 pytest` on this file.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.kubectl import Kubectl

UPDATES = int(os.environ.get("KUBEWRIGHT_ROLLING_UPDATES", "2"))
REQUESTS = int(os.environ.get("KUBEWRIGHT_REQUESTS", "300"))
CLIENTS = 4
UPDATE_SECONDS = 60.0
REQUEST = b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(120 + UPDATES * UPDATE_SECONDS + REQUESTS / 10),
]


def build_site() -> list[dict[str, Any]]:
    """Build nginx as its users deploy it: ready when it answers, and ending a while after it is
    told to, so that those who still send it connections get answers."""
    container = {
        "name": "nginx",
        "image": "nginx:1.22",
        "ports": [{"name": "http", "containerPort": 80}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "3"]}}},
    }
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 20},
            },
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {
            "type": "NodePort",
            "selector": labels,
            "ports": [{"port": 80, "targetPort": "http"}],
        },
    }
    return [deployment, service]


class Clients:
    """Ask again and again, each time over a new connection, until told to stop."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._stop = threading.Event()
        self.outcomes: Counter[str] = Counter()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask while the context lasts."""
        threads = [threading.Thread(target=self._ask_on) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _ask_on(self) -> None:
        while not self._stop.is_set():
            self.outcomes[self._ask()] += 1
            self._stop.wait(0.01)

    def _ask(self) -> str:
        try:
            with socket.create_connection(self._address, timeout=20) as connection:
                connection.sendall(REQUEST)
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError as error:
            return repr(error)
        is_whole = answer.startswith(b"HTTP/1.1 200") and answer.rstrip().endswith(b"</html>")
        return "answered" if is_whole else f"cut short: {answer[:80]!r}"


def find_address(admin: Kubectl) -> tuple[str, int]:
    """Find where the host reaches the node port."""
    service = json.loads(admin("get", "service", "web", "-o", "json"))
    nodes = json.loads(admin("get", "nodes", "-o", "json"))
    addresses = nodes["items"][0]["status"]["addresses"]
    address = next(entry["address"] for entry in addresses if entry["type"] == "InternalIP")
    return address, service["spec"]["ports"][0]["nodePort"]


def test_no_request_fails_during_rolling_updates(admin: Kubectl, cluster: Cluster) -> None:
    if cluster.simulated:
        pytest.skip("simulated pods answer no requests")
    for manifest in build_site():
        admin.apply(manifest)
    admin("rollout", "status", "deployment/web", "--timeout=100s")
    clients = Clients(find_address(admin))
    with clients.asking():
        for number in range(UPDATES):
            admin("set", "env", "deployment/web", f"UPDATE={number}")
            admin("rollout", "status", "deployment/web", f"--timeout={UPDATE_SECONDS:.0f}s")
        # The last pods of the old revision are still ending.
        deadline = time.monotonic() + REQUESTS / 10
        while clients.outcomes.total() < REQUESTS and time.monotonic() < deadline:
            time.sleep(0.1)
    assert set(clients.outcomes) == {"answered"}, clients.outcomes
    assert clients.outcomes.total() >= REQUESTS
