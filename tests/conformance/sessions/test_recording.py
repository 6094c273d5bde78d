"""Recordings are read as they were written, and differences are found on both sides."""

from __future__ import annotations

from pathlib import Path

from conformance.sessions.play import Answer
from conformance.sessions.recording import compare, load_recording, save_recording
from conformance.sessions.session import Session, Step, identify_commands

_GET = Answer("kubectl get pods", 0, "NAME  READY\nweb  1/1", "")


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    refused = Answer("kubectl get nosuch", 1, "", "error: the server\n* says “no”: {a: 1}")

    save_recording(tmp_path / "helm" / "4.1.yaml", [_GET, refused])

    assert load_recording(tmp_path / "helm" / "4.1.yaml") == [_GET, refused]
    assert "  output: |-\n" in (tmp_path / "helm" / "4.1.yaml").read_text()


def test_equal_answers_do_not_differ() -> None:
    assert compare([_GET], [_GET]) == []


def test_a_difference_shows_the_lines_and_the_exit_code() -> None:
    [difference] = compare([_GET], [Answer(_GET.command, 1, "NAME  READY\nweb  0/1", "no")])

    assert difference.command == _GET.command
    assert {"-web  1/1", "+web  0/1", "+stderr: no", "+exit code 1"} <= set(difference.lines)


def test_commands_of_one_side_only_differ() -> None:
    assert [one.command for one in compare([_GET], [])] == [_GET.command]
    assert [one.command for one in compare([], [_GET])] == [_GET.command]


def test_a_step_runs_from_its_first_version_up_to_its_last() -> None:
    steps = [Step("helm old", before="4.0"), Step("helm new", since="4.0"), Step("helm both")]
    session = Session("about", "helm", steps)

    assert [step.run for step in session.steps_for("3.17")] == ["helm old", "helm both"]
    assert [step.run for step in session.steps_for("4.1")] == ["helm new", "helm both"]


def test_commands_that_are_run_again_are_numbered() -> None:
    steps = [Step("kubectl  get x"), Step("kubectl get x"), Step("kubectl get y")]

    assert identify_commands(steps) == ["kubectl get x", "kubectl get x #2", "kubectl get y"]
