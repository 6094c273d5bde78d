"""Large public definitions install: those of the folder that KUBEWRIGHT_LARGE_DEFINITIONS names.

None is in this repository. Put the CustomResourceDefinitions of other projects there as YAML, in
any subfolders: the Prometheus Operator's (example/prometheus-operator-crd), the Gateway API's,
CloudNativePG's, Kyverno's, cert-manager's, Strimzi's, Argo Workflows'.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.local.apiserver.caller import Caller
from tests.local.apiserver.test_definitions import CRDS, is_established

FOLDER = os.environ.get("KUBEWRIGHT_LARGE_DEFINITIONS")


class Loader(yaml.CSafeLoader):
    """Reads `=` as text: PyYAML takes it for a tag of YAML 1.1 that it cannot build."""


Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def read_definitions() -> list[dict[str, Any]]:
    files = sorted(Path(FOLDER).rglob("*.y*ml")) if FOLDER else []
    documents = [
        document for file in files for document in yaml.load_all(file.read_text(), Loader=Loader)
    ]
    return [d for d in documents if d and d.get("kind") == "CustomResourceDefinition"]


@pytest.mark.skipif(not FOLDER, reason="KUBEWRIGHT_LARGE_DEFINITIONS names no folder of them")
async def test_large_definitions_are_served(call: Caller) -> None:
    definitions = read_definitions()
    assert definitions, f"no CustomResourceDefinition below {FOLDER}"
    for definition in definitions:
        created = await call("POST", CRDS, definition)
        assert created.status == 201, created.body.get("message")
        selector = f"fieldSelector=metadata.name={definition['metadata']['name']}"
        watch = await call.answer("GET", f"{CRDS}?watch=1&timeoutSeconds=30&{selector}")
        assert any(map(is_established, await call.read(watch, 9, is_established)))
    for definition in definitions:
        group, names = definition["spec"]["group"], definition["spec"]["names"]
        for version in definition["spec"]["versions"]:
            if version["served"]:
                path = f"/apis/{group}/{version['name']}/{names['plural']}"
                listed = await call("GET", path)
                assert listed.status == 200
                assert listed.body["items"] == []
                document = await call("GET", f"/openapi/v3/apis/{group}/{version['name']}")
                assert names["kind"] in str(list(document.body["components"]["schemas"]))
