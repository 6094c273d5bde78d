"""The README's operator runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = pytest.mark.processes


def test_the_greeting_operator_makes_its_config_map(
    admin: Kubectl, cluster: Cluster, tmp_path: Path
) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    program = tmp_path / "greeting.py"
    program.write_text(code[1])
    kubewright = str(Path(sys.prefix) / "bin" / "kubewright")
    process = subprocess.Popen(
        [kubewright, "run", str(program), "--install-crds"],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
    )
    try:
        eventually(
            lambda: "greetings" in admin("get", "crd", "-o", "name"), "the CRD of the README"
        )
        admin("wait", "--for=condition=Established", "crd/greetings.example.com")
        admin.apply(
            {
                "apiVersion": "example.com/v1",
                "kind": "Greeting",
                "metadata": {"name": "hello"},
                "spec": {"text": "hello, world"},
            }
        )
        admin("wait", "--for=condition=Ready", "greeting/hello", "--timeout=30s")

        assert admin.get("configmap", "hello")["data"] == {"text": "hello, world"}
    finally:
        process.terminate()
        assert process.wait(40) == 0


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1100
