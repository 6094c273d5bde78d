"""Run the test suites of kopf, lightkube, the official Python client and kr8s on a local cluster.

Sources are fetched each time that they are missing and never become part of this repository:
source distributions by pip, repositories by git. Where a repository cannot be reached, give a copy
of it: `--source lightkube=PATH`. Each suite has a virtual environment and a cluster of its own.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent
BIN = Path(sys.prefix) / "bin"
SYSTEM_POD = "metrics-server"
"""Suites expect a pod in kube-system, and lightkube's one of this name."""


class Patched(msgspec.Struct, frozen=True):
    """A dependency that a suite wants in an unreleased state."""

    name: str
    url: str
    commit: str


class Suite(msgspec.Struct, frozen=True):
    """A suite: `sdist` or `git`, `tag` and `folders` say where its tests are."""

    name: str
    version: str
    packages: list[str]
    arguments: list[str]
    sdist: str = ""
    git: str = ""
    tag: str = ""
    folders: list[str] = []
    overlay: bool = False
    plugin: str = ""
    patched: list[Patched] = []
    reasons: dict[str, str] = {}


class Result(msgspec.Struct):
    """What became of a suite's tests; `failed` are their names."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = []


def load_suites() -> list[Suite]:
    """Load the list of suites."""
    data = tomllib.loads((HERE / "foreign_suites.toml").read_text())
    return msgspec.convert(data["suites"], list[Suite])


def ensure_environment(suite: Suite, folder: Path, sources: Mapping[str, str]) -> Path:
    """Make the suite's virtual environment if its packages are others; return its folder."""
    venv, stamp = folder / "venv", folder / "venv" / ".packages"
    wanted = json.dumps([suite.packages, [p.commit for p in suite.patched]])
    if stamp.exists() and stamp.read_text() == wanted:
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *suite.packages], check=True)
    for package in suite.patched:
        url = sources.get(package.name, package.url)
        url = url if "://" in url else f"file://{url}"
        subprocess.run([*pip, f"git+{url}@{package.commit}"], check=True)
    stamp.write_text(wanted)
    return venv


def ensure_source(suite: Suite, folder: Path, venv: Path, sources: Mapping[str, str]) -> Path:
    """Fetch the suite's tests unless they are there; return the folder that they run in."""
    target = folder / f"source-{suite.version}"
    if not target.exists():
        fresh = folder / "source.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        if suite.sdist:
            _unpack_sdist(suite, venv, fresh)
        else:
            _unpack_repository(suite, sources.get(suite.name, suite.git), fresh)
        fresh.rename(target)
    if not suite.overlay:
        return target
    site = next((venv / "lib").glob("python3*/site-packages"))
    for part in suite.folders:
        shutil.copytree(target / part, site / part, dirs_exist_ok=True)
    return site


def _unpack_sdist(suite: Suite, venv: Path, target: Path) -> None:
    pip = [str(venv / "bin" / "pip"), "download", "--quiet", "--no-deps"]
    with TemporaryDirectory() as downloads:
        only = ["--no-binary", suite.name, "--dest", downloads, suite.sdist]
        subprocess.run([*pip, *only], check=True)
        with tarfile.open(next(Path(downloads).glob("*.tar.gz"))) as archive:
            archive.extractall(downloads, filter="data")
        unpacked = next(path for path in Path(downloads).iterdir() if path.is_dir())
        shutil.copytree(unpacked, target, dirs_exist_ok=True)


def _unpack_repository(suite: Suite, url: str, target: Path) -> None:
    with TemporaryDirectory() as clone:
        git = ["git", "clone", "--quiet", "--bare", "--depth=1", f"--branch={suite.tag}"]
        subprocess.run([*git, url, clone], check=True)
        archive = ["git", "-C", clone, "archive", suite.tag, *suite.folders]
        content = subprocess.run(archive, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        files.extractall(target, filter="data")


@contextmanager
def local_cluster(folder: Path) -> Iterator[Path]:
    """Start a cluster as a user would, with a system pod; yield its kubeconfig."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    kubewright = [str(BIN / "kubewright"), "local"]
    up = [*kubewright, "up", "--name", "suite", "-o", "json"]
    started = subprocess.run(up, env=environment, check=True, capture_output=True)
    kubeconfig = Path(json.loads(started.stdout)["kubeconfig"])
    try:
        _add_client_certificate(kubeconfig)
        run = ["run", SYSTEM_POD, "-n", "kube-system", "--image=registry.k8s.io/pause:3.10"]
        kubectl = [str(BIN.parent / "kubectl-34" / "kubectl"), f"--kubeconfig={kubeconfig}"]
        subprocess.run([*kubectl, *run], check=True, capture_output=True)
        yield kubeconfig
    finally:
        down = [*kubewright, "down", "--name", "suite"]
        subprocess.run(down, env=environment, check=True, capture_output=True)


def _add_client_certificate(kubeconfig: Path) -> None:
    """Let the user have a certificate in place of a token, as kind's and kubeadm's users have."""
    config: Any = json.loads(kubeconfig.read_text())
    pki = kubeconfig.parent / "pki"
    key, request, certificate = (kubeconfig.with_suffix(end) for end in (".key", ".csr", ".crt"))
    subject = ["-subj", "/O=system:masters/CN=kubernetes-admin"]
    new_key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        str(key),
    ]
    authority = ["-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"), "-set_serial", "2"]
    for command in (
        ["openssl", "req", *new_key, *subject, "-out", str(request)],
        ["openssl", "x509", "-req", *authority, "-in", str(request), "-out", str(certificate)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    kubeconfig.write_text(json.dumps(config))


def run_suite(suite: Suite, cache: Path, sources: Mapping[str, str]) -> Result:
    """Run a suite on a cluster of its own."""
    folder = cache / suite.name
    folder.mkdir(parents=True, exist_ok=True)
    venv = ensure_environment(suite, folder, sources)
    source = ensure_source(suite, folder, venv, sources)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [str(venv / "bin" / "pytest"), "-p", "no:cacheprovider", f"--junitxml={report}", "-q"]
    command += ["-p", suite.plugin] if suite.plugin else []
    with TemporaryDirectory() as state, local_cluster(Path(state)) as kubeconfig:
        path = f"{venv / 'bin'}:{BIN.parent / 'kubectl-34'}:{os.environ['PATH']}"
        environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "KUBECONFIG": str(kubeconfig),
            "PATH": path,
            **({"PYTHONPATH": str(HERE)} if suite.plugin else {}),
        }
        with (folder / "log").open("wb") as log:
            arguments = [*command, *suite.arguments]
            subprocess.run(
                arguments, cwd=source, env=environment, stdout=log, stderr=log, check=False
            )
    if not report.exists():
        raise SystemExit(f"{suite.name}: pytest did not run; see {folder / 'log'}")
    return read_report(report)


def read_report(report: Path) -> Result:
    """Count what a JUnit report tells; a test that fails in itself and after it counts once."""
    outcomes: dict[tuple[str, str], str] = {}
    for case in ET.parse(report).iter("testcase"):
        key = case.get("classname", ""), case.get("name", "")
        found = {child.tag for child in case}
        outcome = (
            "failed" if found & {"failure", "error"} else "skipped" if "skipped" in found else ""
        )
        outcomes[key] = "failed" if outcomes.get(key) == "failed" else outcome
    words = list(outcomes.values())
    failed = [name for (_, name), outcome in outcomes.items() if outcome == "failed"]
    return Result(words.count(""), words.count("skipped"), failed)


def find_reason(suite: Suite, test: str) -> str:
    """Return why a test is known to fail; "" where it is not."""
    return suite.reasons.get(test.partition("[")[0], "")


def build_row(suite: Suite, result: Result) -> str:
    """Build the row of a suite, as in docs/compatibility.md."""
    counts = [result.passed, len(result.failed), result.skipped]
    named = [f"`{name}`: {find_reason(suite, name) or 'unexplained'}" for name in result.failed]
    cells = [suite.name, suite.version, *map(str, counts), "; ".join(named)]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Run the suites that are asked for, print the table, and fail on an unexplained failure."""
    suites = load_suites()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SUITE", help="default: all")
    parser.add_argument("--source", action="append", default=[], metavar="NAME=REPOSITORY")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    parser.add_argument("--cache", type=Path, default=Path(home, "kubewright-suites"))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - {suite.name for suite in suites}:
        parser.error(f"no suite is called {', '.join(sorted(unknown))}")
    sources = dict(source.split("=", 1) for source in options.source)
    print("| suite | version | passed | failed | skipped | failures |\n|---|---|---|---|---|---|")
    unexplained = False
    for suite in suites:
        if options.names and suite.name not in options.names:
            continue
        result = run_suite(suite, options.cache, sources)
        print(build_row(suite, result), flush=True)
        unexplained |= not all(find_reason(suite, name) for name in result.failed)
    return int(unexplained)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
