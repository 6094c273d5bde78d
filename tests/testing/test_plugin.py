"""The pytest plugin, in a project that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kubewright.testing import Cluster, FakeClock, plugin

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def run_pytest(folder: Path, code: str, *arguments: str, **environment: str) -> str:
    """Run pytest on a file in a folder of its own and return what it prints."""
    (folder / "test_it.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments]
    # The installed package may have the entry point already, or not yet.
    command += ["-p", "no:kubewright", "-p", "kubewright.testing.plugin", "test_it.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"kubewright": plugin.__name__}


def test_a_run_that_does_not_use_it_pays_nothing() -> None:
    code = (
        "import sys, pytest, pytest_asyncio; before = set(sys.modules)\n"
        "import kubewright.testing.plugin; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str(
        ["kubewright", "kubewright.testing", "kubewright.testing.plugin"]
    )


@pytest.mark.processes
def test_fixtures_work_in_pytest_asyncios_strict_mode(tmp_path: Path) -> None:
    code = """
import pytest
from kubewright.api import builtin

@pytest.mark.asyncio
async def test_cluster(cluster, fake_clock):
    await cluster.client.get(builtin.NAMESPACE, cluster.namespace)
    await fake_clock.advance(1)
"""

    assert "1 passed" in run_pytest(tmp_path, code)


@pytest.mark.processes
def test_without_pytest_asyncio_a_fixture_says_what_is_missing(tmp_path: Path) -> None:
    code = """
def test_cluster(cluster):
    pass

def test_other():
    pass
"""
    hidden = "import importlib.util as u; f = u.find_spec\n"
    hidden += "u.find_spec = lambda n, *a: None if n == 'pytest_asyncio' else f(n, *a)\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    printed = run_pytest(tmp_path, code, "-p", "no:asyncio", PYTHONPATH=path)

    assert "the fixture cluster needs pytest-asyncio" in printed
    assert "1 passed, 1 error" in printed


@pytest.mark.processes
def test_the_real_cluster_is_skipped_by_name_where_it_is_not_built(tmp_path: Path) -> None:
    code = """
import pytest

@pytest.mark.asyncio
async def test_real(real_cluster):
    pass
"""
    nowhere = {"RC": str(tmp_path), "KUBEBUILDER_ASSETS": "", "KUBEWRIGHT_TEST_KUBECONFIG": ""}

    printed = run_pytest(tmp_path, code, **nowhere)

    assert "1 skipped" in printed
    assert "set KUBEWRIGHT_TEST_KUBECONFIG to a kubeconfig" in printed


async def test_the_fixtures_are_there(cluster: Cluster, fake_clock: FakeClock) -> None:
    assert cluster.namespace == "default"
    assert fake_clock.monotonic() == 0
