"""Webhooks of a program that `kubewright run` runs, asked by the API server of the cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.clusters import Cluster
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes

PROGRAM = Path(__file__).parent / "brick_operator.py"


@contextmanager
def replica(cluster: Cluster, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run one replica of the program, with the webhooks at a port of their own."""
    command = [str(Path(sys.prefix) / "bin" / "kubewright"), "run", str(PROGRAM), "--install-crds"]
    flags = ["--leader-elect", "--webhook-bind-address", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *flags],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.terminate()
            code = process.wait(40)
    text = log.read_text()
    assert code == 0, text
    assert "Traceback" not in text, text


def build_brick(name: str, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"bricks.example.com/{version}",
        "kind": "Brick",
        "metadata": {"name": name},
        "spec": spec,
    }


def until_checked(kubectl: Kubectl) -> None:
    """Wait until the API server asks: what is too heavy is refused."""
    heavy = build_brick("heavy", weight=11)
    eventually(lambda: "nobody lifts more than 10" in apply(kubectl, heavy), "a refusal")


def apply(kubectl: Kubectl, brick: dict[str, Any]) -> str:
    arguments = ("apply", "--dry-run=server", "-f", "-")
    return kubectl(*arguments, stdin=yaml.safe_dump(brick), code=None)


def test_objects_are_filled_in_checked_and_converted(
    cluster: Cluster, admin: Kubectl, tmp_path: Path
) -> None:
    with replica(cluster, tmp_path / "log"):
        until_checked(admin)
        assert "Warning: lift it with both hands" in admin.apply(build_brick("a", weight=7))
        admin.apply(build_brick("b", "v1beta1", weight="3"))
        assert "nobody lifts" in apply(admin, build_brick("c", "v1beta1", weight="11"))

        fields = "jsonpath={.spec.weight} {.spec.colour}"
        assert admin("get", "bricks.v1.bricks.example.com", "b", "-o", fields) == "3 red"
        assert admin("get", "bricks.v1beta1.bricks.example.com", "a", "-o", fields) == "7 red"
        child = ("get", "configmap", "b", "-o", "yaml")
        eventually(lambda: "colour: red" in admin(*child, code=None), "the child")


def test_a_replica_that_stands_by_answers_while_and_after_the_other_leads(
    cluster: Cluster, admin: Kubectl, tmp_path: Path
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    with ExitStack() as replicas:
        with replica(cluster, first):
            # It answers before it leads.
            until_checked(admin)
            until_logged(first, "leading: acquired")
            replicas.enter_context(replica(cluster, second))
            until_logged(second, "registered webhooks: CustomResourceDefinition")
            assert "leading: acquired" not in second.read_text()
            until_checked(admin)
        until_checked(admin)
        until_logged(second, "leading: acquired")
    # Nobody answers any more, and the configurations are still there: nothing goes unchecked.
    refused = apply(admin, build_brick("late"))
    assert "failed calling webhook" in refused, refused


def until_logged(log: Path, text: str) -> None:
    eventually(lambda: text in log.read_text(), text)
