"""Play sessions of kubectl and helm, and compare with the recordings or make them.

python -m conformance.sessions check [--server real] [--only kubectl-1.34]
python -m conformance.sessions record [--only helm]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from conformance.sessions.play import Answer
from conformance.sessions.plays import Play, plan_plays, play_all
from conformance.sessions.recording import (
    compare,
    load_known_differences,
    load_recording,
    recording_path,
    save_recording,
)


def main() -> int:
    """Run the command line; exit code 1 says that answers differ from the recordings."""
    parser = argparse.ArgumentParser(prog="python -m conformance.sessions", description=__doc__)
    parser.add_argument("command", choices=["check", "record"])
    parser.add_argument("--server", choices=["local", "real"], default="local")
    parser.add_argument("--only", default="", help="part of BINARY-VERSION/SESSION")
    options = parser.parse_args()
    server = "real" if options.command == "record" else options.server
    plays = plan_plays(options.only)
    with tempfile.TemporaryDirectory(prefix="ks-") as folder:
        played = play_all(plays, server, Path(folder))
    if options.command == "record":
        for play, answers in zip(plays, played, strict=True):
            save_recording(recording_path(play.session, play.binary), answers)
        return 0
    agree = [_report(play, answers, server) for play, answers in zip(plays, played, strict=True)]
    return 0 if all(agree) else 1


def _report(play: Play, answers: list[Answer], server: str) -> bool:
    """Print how the answers differ; tell whether they do so as expected."""
    recorded = load_recording(recording_path(play.session, play.binary))
    differences = compare(recorded, answers)
    known = load_known_differences(play.session, play.binary) if server == "local" else set()
    unexpected = [difference for difference in differences if difference.command not in known]
    for difference in unexpected:
        print(difference, end="\n\n")
    print(
        f"{play.name}: {len(answers)} commands, {len(answers) - len(differences)} agree, "
        f"{len(differences) - len(unexpected)} differ as listed, {len(unexpected)} otherwise"
    )
    return not unexpected
