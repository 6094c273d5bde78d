"""Applications that the tests build, and Dapr's definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import kubewright as kw
from webapp_operator import Guestbook, MyApp, SimpleApp

PACKAGE = Path(__file__).resolve().parents[1]
DAPR = Path(__file__).with_name("dapr_components.yaml")


def read_sample(name: str) -> kw.Object:
    """Read one of the objects that users apply."""
    sample: kw.Object = yaml.safe_load((PACKAGE / "samples" / f"{name}.yaml").read_text())
    sample["metadata"].setdefault("namespace", "default")
    return sample


def read_dapr_definition() -> kw.Object:
    """Read the definition of Dapr's Component."""
    definition: kw.Object = yaml.safe_load(DAPR.read_text())
    return definition


def build_simple_app(name: str = "app", **spec: Any) -> SimpleApp:
    return SimpleApp.decode(_encode(name, spec))


def build_guestbook(name: str = "book", **spec: Any) -> Guestbook:
    return Guestbook.decode(_encode(name, spec))


def build_my_app(name: str = "app", **spec: Any) -> MyApp:
    return MyApp.decode(_encode(name, spec))


def _encode(name: str, spec: dict[str, Any]) -> bytes:
    return json.dumps({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}).encode()
