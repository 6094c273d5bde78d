from __future__ import annotations

from pathlib import Path

import pytest

import conformance
from conformance.case import Step, load_cases, load_setup
from conformance.recording import recording_of

HOME = Path(conformance.__file__).parent
TREES = {"cases": "golden", "controllers": "controllers-golden", "nodes": "nodes-golden"}


@pytest.mark.parametrize("tree", TREES)
def test_every_case_can_be_read_and_has_a_recording(tree: str) -> None:
    cases = load_cases(HOME / tree)
    assert cases
    assert [c.name for c in cases if not recording_of(c, HOME / TREES[tree]).exists()] == []
    assert [case.name for case in cases if not case.about.endswith((".", "?"))] == []


@pytest.mark.parametrize("tree", TREES)
def test_every_recording_has_a_case(tree: str) -> None:
    golden = HOME / TREES[tree]
    names = {case.name for case in load_cases(HOME / tree)}
    found = {file.relative_to(golden).with_suffix("").as_posix() for file in golden.rglob("*.json")}
    assert found == names


def test_trees_with_a_setup_say_what_a_namespace_must_have() -> None:
    setup = load_setup(HOME / "controllers")
    assert setup is not None
    assert setup.heartbeat
    assert setup.namespace_has
    assert load_setup(HOME / "cases") is None


def test_a_misspelt_field_is_refused_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("about: x\nsteps: [{do: GET /, ignoer: []}]\n")
    with pytest.raises(ValueError, match=r"a\.yaml: .*ignoer"):
        load_cases(tmp_path)


def test_cases_that_run_alone_go_last(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("about: x\nalone: true\nsteps: []\n")
    (tmp_path / "b.yaml").write_text("about: x\nsteps: []\n")
    assert [case.name for case in load_cases(tmp_path)] == ["b", "a"]
    assert [case.name for case in load_cases(tmp_path, "a.ya")] == ["a"]


def test_a_wanted_value_may_be_false() -> None:
    assert Step(until="/", wanted=False).has_wanted
    assert not Step(until="/").has_wanted


def test_a_label_tells_the_kind_of_step() -> None:
    assert Step(do="GET /api").label == "GET /api"
    assert Step(until="/api").label == "until /api"
