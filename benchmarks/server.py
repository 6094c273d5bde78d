"""Measure our API server beside kube-apiserver + etcd, in turns in one run, and print a table.

    python benchmarks/server.py [--repeat N] [--objects 5000] [--only create,get]

The driver and its load tool come from the folder `bench-peers` under KUBEWRIGHT_SHARED. CPU
milliseconds of the server per operation are the figure to compare, by medians; wall times move with
whatever else the machine does. For a list, one operation is the whole list; for a watch, one event
at one watcher.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import CACHE, PEERS, REAL, build_go

OURS, THEIRS = "kubewright", "kube-apiserver"
TESTS = (
    "create, 1 connection",
    "create",
    "get rv=0",
    "get",
    "list JSON",
    "watch 100",
    "watch 500",
    "patch merge",
    "SSA no-op",
    "SSA change",
)


def build_commands() -> dict[str, list[str]] | None:
    """Return how each server is started; None where the real one is not built here."""
    built = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster")) / "bin"
    if not (built / "kube-apiserver").exists() or not REAL.exists():
        return None
    ours = f"{sys.executable} -m kubewright.local.apiserver --dir {{dir}}"
    return {OURS: ["--start-server", ours], THEIRS: ["--real", str(REAL)]}


def run_one(name: str, server: Sequence[str], options: argparse.Namespace, out: Path) -> None:
    """Run all tests of one server once."""
    environment = {**os.environ, "BENCH_LOAD": str(CACHE / "load")}
    # Without compiled files a start would measure Python's compiler.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    driver = [sys.executable, str(PEERS / "run.py"), "server", "--name", name, *server]
    driver += ["--objects", str(options.objects), "--only", options.only, "--out", str(out)]
    done = subprocess.run(driver, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout}{done.stderr}")
    print(f"  {name}: done", flush=True)


def cost(row: Mapping[str, Any]) -> float:
    """Return the server's CPU milliseconds per operation."""
    operations: int = row["load"].get("n") or row["load"]["events"]
    seconds: float = row["server_cpu_s"]
    return seconds * 1000 / max(1, operations)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the medians of both servers and how they compare."""
    print("\n| server CPU ms per operation | Kubewright | kube-apiserver + etcd | ratio |")
    print("|---|---|---|---|")
    for test in dict.fromkeys(row["test"] for row in rows):
        found = [row for row in rows if row["test"] == test]
        if any(row["load"]["errors"] or row["load"].get("watches_closed_early") for row in found):
            print(f"| {test} | not comparable: errors, or watches that were closed | | |")
            continue
        ours, theirs = (
            statistics.median(cost(row) for row in found if row["name"] == name)
            for name in (OURS, THEIRS)
        )
        print(f"| {test} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |")
    for title, values in (("memory at the end, MiB", read_memory), ("start, s", read_start)):
        ours, theirs = (statistics.median(values(rows, name)) for name in (OURS, THEIRS))
        print(f"| {title} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")


def read_memory(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the memory of all processes of a server at the end of each turn."""
    last = {(row["name"], row["run"]): row for row in rows}
    return [sum(row["server_mib"].values()) for key, row in last.items() if key[0] == name]


def read_start(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the seconds until the first custom object of a new definition was served."""
    return [row["ready_s"] for row in rows if row["name"] == name]


def main() -> int:
    """Build, run in turns, print."""
    parser = argparse.ArgumentParser(description="Measure API servers side by side.")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--objects", type=int, default=5000, help="objects to get and to list")
    parser.add_argument("--only", default=",".join(TESTS), help="words of the tests' titles")
    options = parser.parse_args()
    commands = build_commands()
    if commands is None or not PEERS.exists() or shutil.which("go") is None:
        print("servers are not compared: that needs Go, bench-peers under KUBEWRIGHT_SHARED, and")
        print("kube-apiserver + etcd as `make conformance` builds them")
        return 0
    CACHE.mkdir(parents=True, exist_ok=True)
    build_go("load", "load")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="kubewright-bench-") as folder:
        for turn in range(options.repeat):
            for name, server in commands.items():
                out = Path(folder) / f"{turn}-{name}.jsonl"
                run_one(name, server, options, out)
                rows += [json.loads(line) | {"run": turn} for line in out.read_text().splitlines()]
    print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
