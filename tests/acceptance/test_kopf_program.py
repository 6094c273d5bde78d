"""A user's program for kopf, unmodified, on our control plane: it does what our operator does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.kopf_environment import ensure_kopf
from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.user_objects import find_user_object

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

CRD = "crd/simpleapps.example.com"


@pytest.fixture
def user(cluster: Cluster) -> Iterator[Kubectl]:
    """Kubectl in the namespace that the user's objects name, with the user's own definition."""
    kubectl = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    kubectl("delete", CRD, "--ignore-not-found")
    kubectl("apply", "-f", str(find_user_object("simpleapp/crd.yaml")))
    kubectl("wait", "--for=condition=Established", CRD)
    yield kubectl
    kubectl("delete", CRD)


@contextmanager
def running_program(cluster: Cluster, log: Path) -> Iterator[None]:
    """Run the program as its README says: `kopf run kopf_operator.py`."""
    program = find_user_object("simpleapp/kopf_operator.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [ensure_kopf(), "run", "--all-namespaces", "--standalone", program],
            env={**environment, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=output,
            stderr=output,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)
    text = log.read_text()
    assert "Traceback" not in text, text


def read_deployment(kubectl: Kubectl) -> Any:
    """Return the Deployment of the user's object, or None."""
    found = kubectl.get("deployments")["items"]
    return next((each for each in found if each["metadata"]["name"] == "my-app"), None)


@pytest.mark.usefixtures("nginx")
def test_the_users_kopf_program_makes_updates_and_deletes_the_deployment(
    user: Kubectl, cluster: Cluster, tmp_path: Path
) -> None:
    with running_program(cluster, tmp_path / "kopf.log"):
        user("apply", "-f", str(find_user_object("simpleapp/simpleapp.yaml")))
        eventually(lambda: read_deployment(user) is not None, "the Deployment is made")
        made = read_deployment(user)["spec"]
        assert made["replicas"] == 2
        assert made["template"]["spec"]["containers"][0]["image"] == "nginx:latest"
        user("rollout", "status", "deployment/my-app", "--timeout=120s")

        change = '{"spec":{"replicas":3,"image":"nginx:1.27"}}'
        user("patch", "simpleapp", "my-app", "--type=merge", "-p", change)
        eventually(lambda: read_deployment(user)["spec"]["replicas"] == 3, "it is updated")
        user("rollout", "status", "deployment/my-app", "--timeout=120s")
        images = "jsonpath={.items[*].spec.containers[0].image}"
        eventually(
            lambda: (
                user("get", "pods", "-l", "app=my-app", "-o", images).split() == ["nginx:1.27"] * 3
            ),
            "three pods of the new image",
        )

        user("delete", "simpleapp", "my-app", "--timeout=60s")
        eventually(lambda: read_deployment(user) is None, "it is deleted")
        eventually(
            lambda: not user("get", "pods", "-l", "app=my-app", "-o", "name"), "its pods end"
        )
