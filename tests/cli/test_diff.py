"""`kubewright diff` shows what would change, and what it cannot find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.api.resource import Object
from kubewright.cli.main import main
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve

PROGRAM = '''
from pydantic import BaseModel
import kubewright as kw

class NoteSpec(BaseModel):
    text: str = ""

class Note(kw.CustomResource[NoteSpec, kw.Status], group="notes.example.com", version="v1"):
    """A note."""

operator = kw.Operator("note-operator")

@operator.desired(Note, owns=[kw.builtin.SECRET])
def children(note):
    if not note.spec.text:
        raise ValueError("spec.text: write something")
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": note.metadata.name},
        "stringData": {"text": note.spec.text},
    }
'''


@pytest.fixture
async def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Serve an API with the kind of the program, and make it the current one."""
    (tmp_path / "notes.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    async with serve(ServerOptions(folder=tmp_path / "server")) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        client = Client(server.client_transport())
        from kubewright.cli.program import load_operators

        (operator,) = load_operators("notes.py")
        await operator.ensure_crds(client)
        yield client


def build_note(name: str, text: str) -> Object:
    return {
        "apiVersion": "notes.example.com/v1",
        "kind": "Note",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"text": text},
    }


async def run(*arguments: str) -> int:
    return await asyncio.to_thread(main, ["diff", "notes.py", *arguments])


async def test_prints_each_step_and_its_diff_and_writes_nothing(
    notes: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await notes.create(build_note("empty", ""))
    await notes.create(build_note("one", "hello"))
    assert await run() == 0
    printed = capsys.readouterr().out
    assert (
        "# Note default/empty\n# would stall: ValueError: spec.text: write something (" in printed
    )
    assert "# create Secret default/one: it does not exist\n--- /dev/null\n" in printed
    assert "+  text: '***'" in printed
    assert await run("note/one", "--exit-code") == 3
    assert "empty" not in capsys.readouterr().out


async def test_says_when_nothing_would_change(
    notes: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run("--exit-code") == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "nothing would change\n"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("one", "error: one: write it as KIND/NAME"),
        ("note/absent", "error: there is no note/absent that the operator manages"),
        ("pod/one", "error: there is no pod/one that the operator manages"),
    ],
)
async def test_what_cannot_be_found_is_one_sentence(
    notes: Client, capsys: pytest.CaptureFixture[str], target: str, says: str
) -> None:
    assert await run(target) == 1
    assert capsys.readouterr().err.strip() == says
