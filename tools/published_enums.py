"""Generate the table of enums that kube-apiserver publishes for the built-in kinds.

The sources of `tools/builtin_schemas.py` lack them, so the table is read from a running server:

    python tools/on_kube_apiserver.py python -m tools.published_enums

A value is what the field of a definition adds to its schema: the choices, and the text that says
what they mean.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

from kubewright.client import Client, KubeConfig, connect
from kubewright.testing.real_server import KUBECONFIG

TARGET = Path(__file__).parents[1] / "src/kubewright/local/apiserver/builtin/data/enums.json.gz"
_MEANING = "\n\nPossible enum values:"
_PLACES = ("", "items", "additionalProperties")

Enum = dict[str, Any]


def find_enum(schema: dict[str, Any]) -> Enum | None:
    """Return the enum of a property, of its items or of its values, and where it stands."""
    for place in _PLACES:
        holder = schema.get(place, {}) if place else schema
        if isinstance(holder, dict) and "enum" in holder:
            _, mark, meaning = schema.get("description", "").partition(_MEANING)
            return {"place": place, "enum": holder["enum"], "text": mark + meaning}
    return None


async def read_enums(client: Client) -> dict[str, dict[str, Enum]]:
    """Read the enums of all documents of a server, by definition and property."""
    index = json.loads(await client.request("GET", "/openapi/v3"))
    enums: dict[str, dict[str, Enum]] = {}
    for path in sorted(index["paths"]):
        if path.startswith("api"):
            document = json.loads(await client.request("GET", f"/openapi/v3/{path}"))
            for name, schema in document["components"]["schemas"].items():
                found = {k: find_enum(p) for k, p in schema.get("properties", {}).items()}
                if some := {key: enum for key, enum in found.items() if enum}:
                    enums[name] = some
    return enums


async def write_enums() -> None:
    """Write the table; the same server gives the same bytes."""
    async with connect(KubeConfig.load(os.environ[KUBECONFIG])) as client:
        enums = await read_enums(client)
    text = json.dumps(enums, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes, {len(enums)} definitions")


if __name__ == "__main__":
    asyncio.run(write_enums())
