from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubewright.local.apiserver.lazy_module import lazy_module


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lazy_sample"
    folder.mkdir()
    (folder / "__init__.py").write_text("runs = []\n")
    (folder / "late.py").write_text("import lazy_sample\nlazy_sample.runs.append(1)\nvalue = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("lazy_sample", "lazy_sample.late"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "lazy_sample"


def test_module_runs_once_at_its_first_use(package: str) -> None:
    late = lazy_module(f"{package}.late")

    assert sys.modules[package].runs == []
    assert (late.value, late.value) == (7, 7)
    assert sys.modules[package].runs == [1]


def test_ordinary_import_finds_the_same_module(package: str) -> None:
    late = lazy_module(f"{package}.late")

    assert sys.modules[package].late is late
    assert __import__(package, fromlist=["late"]).late is late
    assert lazy_module(f"{package}.late") is late


def test_missing_module_is_refused_at_once(package: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        lazy_module(f"{package}.nowhere")
