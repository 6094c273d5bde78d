from __future__ import annotations

import json
import os
from pathlib import Path

from conformance.case import Case
from conformance.case_run import NOT_REACHED
from conformance.command import summarise
from conformance.recording import Verdict, check_case, compare_exchanges, record_case
from kubewright.api.resource import Object

CASE = Case(about="x", steps=[], name="area/one")


def exchange(body: object, step: int = 0) -> Object:
    return {"step": step, "what": "GET /", "status": 200, "body": body}


class Runs:
    """Answers one list of exchanges after the other."""

    def __init__(self, *answers: list[Object]) -> None:
        self._answers = list(answers)

    async def __call__(self, case: Case) -> list[Object]:
        return self._answers.pop(0)


async def fail(case: Case) -> list[Object]:
    raise OSError("refused")


async def test_what_two_runs_agree_on_is_recorded_and_then_agrees(tmp_path: Path) -> None:
    answer = [exchange({"a": 1})]
    lines = await record_case(CASE, tmp_path, Runs(answer, answer))
    assert lines == ["area/one: 1 recorded"]
    verdict = await check_case(CASE, tmp_path, Runs(answer))
    assert verdict == Verdict(exchanges=1, agree=1, differences=[])


async def test_what_two_runs_answer_differently_is_not_recorded(tmp_path: Path) -> None:
    lines = await record_case(CASE, tmp_path, Runs([exchange(1)], [exchange(2)]))
    assert "NOT RECORDED" in lines[0]
    assert lines[1] == "GET / /body: 1 / 2"
    assert os.listdir(tmp_path) == []


async def test_what_was_not_reached_is_not_recorded(tmp_path: Path) -> None:
    waited = [exchange({NOT_REACHED: None})]
    assert "NOT RECORDED" in (await record_case(CASE, tmp_path, Runs(waited, waited)))[0]


async def test_a_case_that_cannot_run_counts_as_wrong(tmp_path: Path) -> None:
    (tmp_path / "area").mkdir()
    (tmp_path / "area" / "one.json").write_text(json.dumps([exchange(1), exchange(2)]))
    verdict = await check_case(CASE, tmp_path, fail)
    assert (verdict.exchanges, verdict.agree) == (2, 0)
    assert "refused" in verdict.differences[0]


def test_a_difference_names_its_step_and_both_values() -> None:
    verdict = compare_exchanges([exchange({"a": 1}, step=3)], [exchange({"a": 2}, step=4)])
    assert (verdict.exchanges, verdict.agree) == (1, 0)
    assert [line.strip() for line in verdict.differences] == [
        "step 3: GET /",
        "/body/a",
        "real 1",
        "ours 2",
    ]


def test_the_summary_counts_exchanges_and_whole_cases() -> None:
    verdicts = [Verdict(3, 3, []), Verdict(1, 0, ["x"])]
    assert summarise(verdicts) == "3 of 4 exchanges agree (75.0 %), 1 of 2 cases in full"
