"""The command line of the checker."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from conformance.case import Case, Setup, load_cases, load_setup
from conformance.case_run import NOT_REACHED, CaseRun, run_case
from conformance.placeholders import Placeholders
from conformance.recording import RunCase, Verdict, check_case, record_case, recording_of
from conformance.server import Server, open_server
from kubewright.client.clock import Clock, SystemClock
from kubewright.local.apiserver.serving import ServerOptions, serve

T = TypeVar("T")

KUBECONFIG = "KUBEWRIGHT_TEST_KUBECONFIG"
"""Names the kubeconfig where the command line does not."""

_HOME = Path(__file__).resolve().parent
_HEARTBEAT_SECONDS = 10.0
_JOBS = {"check": 4, "record": 1}


class _Options(msgspec.Struct, frozen=True):
    command: str
    kubeconfig: Path | None
    cases: Path
    golden: Path
    only: str
    show: int
    jobs: int
    json: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `check` or `record`; the exit code is 0 unless they could not run."""
    options = _parse(arguments)
    cases = load_cases(options.cases, options.only)
    if options.command == "check":
        cases = [case for case in cases if recording_of(case, options.golden).exists()]
    if not cases:
        print("no case matches", file=sys.stderr)
        return 2
    return asyncio.run(_run(options, cases, random.Random(), SystemClock()))


async def _run(options: _Options, cases: list[Case], rng: random.Random, clock: Clock) -> int:
    setup = load_setup(options.cases)
    async with (
        _find_kubeconfig(options) as kubeconfig,
        open_server(kubeconfig) as server,
        _prepare(setup, server, rng, clock) as unmet,
    ):
        if unmet:
            print(f"{options.cases}/setup.yaml: not reached: {unmet[0]}", file=sys.stderr)
            return 2

        async def run(case: Case) -> list[dict[str, object]]:
            return await run_case(case, setup, server, rng, clock)

        if options.command == "record":
            await _record(options, cases, run)
        else:
            await _check(options, cases, run)
    return 0


@asynccontextmanager
async def _find_kubeconfig(options: _Options) -> AsyncIterator[Path]:
    """Lend the kubeconfig that was named, or that of an API server of ours for this run."""
    if options.kubeconfig is not None:
        yield options.kubeconfig
        return
    with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
        async with serve(ServerOptions(folder=Path(folder))) as running:
            yield running.kubeconfig(Path(folder) / "kubeconfig")


async def _record(options: _Options, cases: list[Case], run: RunCase) -> None:
    record = functools.partial(record_case, folder=options.golden, run=run)
    for _, lines in await _do_all(cases, options.jobs, record):
        print("\n  ".join(lines), flush=True)


async def _check(options: _Options, cases: list[Case], run: RunCase) -> None:
    verdicts: dict[str, Verdict] = {}
    check = functools.partial(check_case, folder=options.golden, run=run)
    for case, verdict in await _do_all(cases, options.jobs, check):
        verdicts[case.name] = verdict
        if verdict.differences and options.show:
            print(f"{case.name}: {verdict.agree} of {verdict.exchanges} agree. {case.about}")
            print("\n".join(f"  {line}" for line in verdict.differences[: options.show]))
    if options.json is not None:
        options.json.write_text(json.dumps(msgspec.to_builtins(verdicts), indent=1))
    print(summarise(list(verdicts.values())))


def summarise(verdicts: Sequence[Verdict]) -> str:
    """Say in one line how much agrees."""
    total = sum(verdict.exchanges for verdict in verdicts)
    agree = sum(verdict.agree for verdict in verdicts)
    full = sum(verdict.agree == verdict.exchanges for verdict in verdicts)
    percent = 100 * agree / max(total, 1)
    return (
        f"{agree} of {total} exchanges agree ({percent:.1f} %), "
        f"{full} of {len(verdicts)} cases in full"
    )


async def _do_all(
    cases: list[Case], jobs: int, work: Callable[[Case], Awaitable[T]]
) -> list[tuple[Case, T]]:
    """Do the work for each case, so many at a time, then for those that must run alone."""
    places = asyncio.Semaphore(jobs)

    async def bounded(case: Case) -> T:
        async with places:
            return await work(case)

    async with asyncio.TaskGroup() as tasks:
        started = [(case, tasks.create_task(bounded(case))) for case in cases if not case.alone]
    done = [(case, task.result()) for case, task in started]
    return done + [(case, await work(case)) for case in cases if case.alone]


@asynccontextmanager
async def _prepare(
    setup: Setup | None, server: Server, rng: random.Random, clock: Clock
) -> AsyncIterator[list[str]]:
    """Make what a tree's cases rely on and keep it alive; lend the steps that were not reached."""
    if setup is None:
        yield []
        return
    whole = Case(about=setup.about, steps=setup.steps, namespace=False)
    run = CaseRun(whole, None, server, Placeholders(rng), {}, clock)

    async def beat() -> None:
        while True:
            for step in setup.heartbeat:
                await run.do(step)
            await clock.sleep(_HEARTBEAT_SECONDS)

    async with asyncio.TaskGroup() as tasks:
        heart = tasks.create_task(beat())
        try:
            exchanges = await run.run()
            yield [each["what"] for each in exchanges if NOT_REACHED in str(each.get("body"))]
        finally:
            heart.cancel()


def _parse(arguments: Sequence[str] | None) -> _Options:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Hold an API server against recorded answers of the real kube-apiserver.",
    )
    parser.add_argument("command", choices=sorted(_JOBS))
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        default=os.environ.get(KUBECONFIG),
        help=f"the server; by default ${KUBECONFIG}, else one of ours is started for the run",
    )
    parser.add_argument("--cases", default="cases", help="a tree of cases: cases, controllers, …")
    parser.add_argument("--golden", help="its recordings; GOLDEN beside it by default")
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--show", type=int, default=12, help="lines of difference for each case")
    parser.add_argument("--jobs", type=int, help="cases at a time: 4 to check, 1 to record")
    parser.add_argument("--json", type=Path, help="write what became of each case here")
    parsed = parser.parse_args(arguments)
    if parsed.kubeconfig is None and parsed.command == "record":
        parser.error(f"name a real kube-apiserver: --kubeconfig FILE, or {KUBECONFIG}")
    golden = parsed.golden or ("golden" if parsed.cases == "cases" else f"{parsed.cases}-golden")
    return _Options(
        command=parsed.command,
        kubeconfig=Path(parsed.kubeconfig) if parsed.kubeconfig else None,
        cases=_folder(parsed.cases),
        golden=_folder(golden),
        only=parsed.only,
        show=parsed.show,
        jobs=parsed.jobs or _JOBS[parsed.command],
        json=parsed.json,
    )


def _folder(name: str) -> Path:
    """Find a folder of this package by its bare name, any other by its path."""
    beside = _HOME / name
    return beside if os.sep not in name and beside.is_dir() else Path(name)
