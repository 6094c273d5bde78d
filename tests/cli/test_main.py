import json
from pathlib import Path

import pytest

from kubewright.cli.command import format_table
from kubewright.cli.main import main


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])

    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("local", "run", "generate", "version"))


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["local"], ["local", "up", "--nodes", "x"], ["version", "-o", "xml"]]
)
def test_a_wrong_command_line_exits_with_2_and_names_the_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)

    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "--help" in error


def test_version_is_data_with_output_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out)["kubernetes"].startswith("v1.37")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["local", "up", "--controllers", "deploymant"],
            "unknown controllers deploymant: known are",
        ),
        (["local", "up", "--nodes", "-1"], "--nodes -1: use a number from 0 to 100"),
        (["local", "up", "--port", "70000"], "--port 70000: use a number from 0 to 65535"),
        (["local", "up", "--name", "Not/Good"], "cluster name 'Not/Good'"),
        (["local", "kubeconfig"], "cluster 'default' is not running: start it with"),
        (["run", "no_such_module"], "there is no module 'no_such_module'"),
        (["run", "absent.py"], "there is no Python file absent.py"),
    ],
)
def test_what_cannot_be_done_exits_with_1_and_one_sentence(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert main(arguments) == 1

    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_a_program_without_an_operator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "empty_program.py"
    program.write_text("x = 1\n")

    assert main(["generate", "crd", str(program)]) == 1
    assert "defines no operator" in capsys.readouterr().err


def test_status_of_nothing_is_empty(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert main(["local", "status", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["local", "status", "--name", "default"]) == 1
    assert main(["local", "down"]) == 0


def test_tables_align_their_columns() -> None:
    table = format_table(["NAME", "AGE"], [["a-long-name", "1s"], ["b", "10m"]])

    assert table.splitlines() == ["NAME          AGE", "a-long-name   1s", "b             10m"]
