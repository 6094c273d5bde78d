"""Measure one operator on three frameworks, interleaved in one run, and print tables.

    python benchmarks/peers.py [--n 200,1000,5000] [--repeat N] [--only kubewright,kopf]

The operator, its driver and its load come from the folder `bench-peers` under KUBEWRIGHT_SHARED:
N Widgets of three children and a status each. controller-runtime runs where Go is, kopf everywhere,
on kube-apiserver + etcd where they are built (`make conformance` builds them), else on ours.
CPU seconds are the figure to compare; wall times move with whatever else the machine does.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("KUBEWRIGHT_SHARED", "../shared")).resolve()
PEERS = SHARED / "bench-peers"
REAL = SHARED / "realcluster" / "up.py"
CACHE = Path.home() / ".cache" / "kubewright-bench"
PHASES = ("empty_start", "create", "restart", "change")


def build_go(name: str, folder: str) -> Path:
    """Build one of the peers' Go programs: eight CPU minutes at first, seconds afterwards."""
    binary = CACHE / name
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(binary), "."],
        cwd=PEERS / folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return binary


def install(name: str, *what: str) -> Path:
    """Install into an environment of its own, as an image has it; return its folder of programs.

    The one of the developers has some ninety distributions, and pydantic reads each at a start.
    """
    programs = CACHE / name / "bin"
    if not (programs / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE / name)], check=True)
    subprocess.run([str(programs / "pip"), "install", "--quiet", *what], check=True)
    return programs


def install_kubewright() -> Path:
    """Install this repository as it is now."""
    root = str(HERE.parent)
    install("kubewright", "--constraint", f"{root}/constraints.txt", f"{root}[fast]")
    return install("kubewright", "--force-reinstall", "--no-deps", root)


def build_operators(wanted: Sequence[str]) -> dict[str, str]:
    """Return the command of each operator, built where it must be."""
    commands: dict[str, Callable[[], str]] = {
        "kubewright": lambda: (
            f"{install_kubewright() / 'kubewright'} run {HERE / 'widget_operator.py'}"
        ),
        "controller-runtime": lambda: str(build_go("cr-operator", "controller-runtime")),
        # As client-go's documentation recommends: by managedFields, so that what is no longer
        # wanted is seen too. The one above does not see that; Kubewright does.
        "controller-runtime-exact": lambda: (
            f"{build_go('cr-operator', 'controller-runtime')} -suppress extract"
        ),
        "kopf": lambda: (
            f"{install('kopf', '-r', str(PEERS / 'kopf' / 'requirements.txt')) / 'kopf'} "
            f"run -A --standalone --quiet {PEERS / 'kopf' / 'widget_operator.py'}"
        ),
    }
    return {name: command() for name, command in commands.items() if name in wanted}


def server_flags() -> list[str]:
    """Choose the server that all of them run on."""
    built = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster")) / "bin"
    if (built / "kube-apiserver").exists() and REAL.exists():
        print("on kube-apiserver + etcd")
        return ["--real", str(REAL)]
    print("on our own API server: kube-apiserver is not built here")
    return ["--start-server", f"{sys.executable} -m kubewright.local.apiserver --dir {{dir}}"]


def run_one(name: str, command: str, n: int, load: Path, server: list[str], out: Path) -> None:
    """Run all phases of one operator once."""
    environment = {**os.environ, "BENCH_LOAD": str(load)}
    # Without compiled files a start would measure Python's compiler.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    driver = [sys.executable, str(PEERS / "run.py"), "operator", "--name", name]
    logs = ["--logs", str(out.parent / "logs")]
    done = subprocess.run(
        [*driver, "--operator", command, *server, "--n", str(n), "--out", str(out), *logs],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{name} with {n} Widgets failed:\n{done.stdout}{done.stderr}")
    print(f"  {name}, {n} Widgets: done", flush=True)


def print_ratios(runs: Sequence[Mapping[str, Any]]) -> None:
    """Print Kubewright's CPU seconds in relation to those of its peers, by medians."""
    by_case: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        by_case.setdefault((run["name"], run["n"]), []).append(run)
    print("\n| Kubewright's CPU seconds by those of | N | create | restart | change |")
    print("|---|---|---|---|---|")
    for (name, n), theirs in sorted(by_case.items()):
        ours = by_case.get(("kubewright", n))
        if name == "kubewright" or ours is None:
            continue
        ratios = [
            statistics.median(run[phase]["operator_cpu_s"] for run in ours)
            / statistics.median(run[phase]["operator_cpu_s"] for run in theirs)
            for phase in PHASES[1:]
        ]
        print(f"| {name} | {n} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def main() -> int:
    """Build, run in turns, print."""
    parser = argparse.ArgumentParser(description="Measure operators side by side.")
    parser.add_argument("--n", default="200,1000", help="numbers of Widgets (default: 200,1000)")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument(
        "--only", default="kubewright,controller-runtime,controller-runtime-exact,kopf"
    )
    options = parser.parse_args()
    if not PEERS.exists() or shutil.which("go") is None:
        print("operators are not compared: that needs Go, and bench-peers under KUBEWRIGHT_SHARED")
        return 0
    CACHE.mkdir(parents=True, exist_ok=True)
    load = build_go("load", "load")
    operators = build_operators(options.only.split(","))
    server = server_flags()
    with tempfile.TemporaryDirectory(prefix="kubewright-bench-") as folder:
        out = Path(folder) / "runs.jsonl"
        for n in map(int, options.n.split(",")):
            for _ in range(options.repeat):
                for name, command in operators.items():
                    run_one(name, command, n, load, server, out)
        subprocess.run([sys.executable, str(PEERS / "run.py"), "table", str(out)], check=True)
        print_ratios([json.loads(line) for line in out.read_text().splitlines()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
