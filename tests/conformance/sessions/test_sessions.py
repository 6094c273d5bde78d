"""Sessions of kubectl and helm print on our server what they print on the real one."""

from __future__ import annotations

import pytest

from conformance.sessions.play import Answer
from conformance.sessions.plays import Play, plan_plays, play_all
from conformance.sessions.recording import (
    compare,
    load_known_differences,
    load_recording,
    recording_path,
)

pytestmark = pytest.mark.processes

_PLAYS = plan_plays()


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Answer]]:
    """What each binary answers in each session, by the name of the play."""
    answers = play_all(_PLAYS, "local", tmp_path_factory.mktemp("s"))
    return {play.name: each for play, each in zip(_PLAYS, answers, strict=True)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("play", _PLAYS, ids=lambda play: play.name)
def test_a_binary_prints_what_it_prints_on_the_real_server(
    play: Play, played: dict[str, list[Answer]]
) -> None:
    recorded = load_recording(recording_path(play.session, play.binary))
    known = load_known_differences(play.session, play.binary)

    differences = {one.command: one for one in compare(recorded, played[play.name])}

    unexpected = [str(one) for one in differences.values() if one.command not in known]
    assert not unexpected, "\n\n".join(unexpected)
    agree = known - differences.keys()
    assert not agree, f"take these out of differences.yaml, they agree now: {sorted(agree)}"


@pytest.mark.parametrize("play", _PLAYS, ids=lambda play: play.name)
def test_a_session_has_sixty_commands_of_its_binary(play: Play) -> None:
    steps = play.session.steps_for(play.binary.version)

    if not play.session.controllers:
        assert sum(step.run.startswith(play.binary.program) for step in steps) >= 60
