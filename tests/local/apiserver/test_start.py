"""What a start loads: time to the first answer is mostly imports, so they are held here."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import asyncio, json, sys
from types import ModuleType

from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.serving import ServerOptions, serve

async def main():
    async with serve(ServerOptions(listening=False)) as running:
        answer = await running.server.handle(Request("GET", "/readyz"))
        # A lazy module is listed before it runs; its type tells.
        loaded = [name for name, module in sys.modules.items() if type(module) is ModuleType]
        print(json.dumps([answer.status, loaded]))

asyncio.run(main())
"""
THIRD_PARTY = {"aiohttp", "cel_expr_python", "cryptography", "google", "pydantic", "uvloop", "yaml"}
APISERVER = "kubewright.local.apiserver"
LATER = {
    "kubewright.cache",
    "kubewright.client",
    "kubewright.local.controllers",
    "kubewright.runtime",
    f"{APISERVER}.crd.custom_kinds",
    f"{APISERVER}.crd.definition_validation",
    f"{APISERVER}.crd.value_validation",
    f"{APISERVER}.discovery",
    f"{APISERVER}.match_condition",
    f"{APISERVER}.openapi",
    f"{APISERVER}.patch.json_patch",
    f"{APISERVER}.patch.strategic_merge",
    f"{APISERVER}.protobuf",
    f"{APISERVER}.rest.list",
    f"{APISERVER}.rest.review",
    f"{APISERVER}.rest.subresources",
    f"{APISERVER}.rest.watch",
}


def run_python(program: str) -> str:
    """Run a program in a fresh interpreter and return what it prints."""
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


def test_first_answer_loads_only_what_it_needs() -> None:
    status, loaded = json.loads(run_python(PROGRAM))

    assert status == 200
    assert f"{APISERVER}.rest.create" in loaded
    assert sorted({name.partition(".")[0] for name in loaded} & THIRD_PARTY) == []
    assert sorted(LATER & set(loaded)) == []


def test_supervisor_loads_no_controller_before_the_server_runs() -> None:
    loaded = run_python(
        "import sys, kubewright.local.cluster.supervisor; print(*sys.modules, sep='\\n')"
    ).splitlines()

    assert [name for name in loaded if name.startswith("kubewright.local.controllers")] == []
    assert "kubewright.runtime.controller" not in loaded


def test_command_line_loads_no_event_loop_before_a_command_needs_it() -> None:
    loaded = run_python("import sys, kubewright.cli.main; print(*sys.modules, sep='\\n')")

    assert {"asyncio", "importlib.metadata", "msgspec"} & set(loaded.splitlines()) == set()
