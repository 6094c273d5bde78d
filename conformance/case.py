"""Cases: what is asked of an API server, as their YAML files say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from kubewright.api.resource import Object

T = TypeVar("T")

_SETUP = "setup.yaml"
_VERBS = ("do", "watch", "until", "pods", "received", "forget", "sleep")


class WebhookScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a webhook answers.

    `response` and `patch` are for AdmissionReviews; `result`, and `rename` towards the version
    that ends with `to`, for ConversionReviews. One that is to `fail` answers 500.
    """

    response: Object = msgspec.field(default_factory=lambda: {"allowed": True})
    patch: list[Object] | None = None
    result: Object = msgspec.field(default_factory=lambda: {"status": "Success"})
    rename: list[tuple[str, str]] = []
    to: str = ""
    fail: bool = False


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a case; README.md says what each field means."""

    do: str | None = None
    watch: str | None = None
    until: str | None = None
    pods: str | None = None
    received: str | None = None
    forget: str | None = None
    sleep: float | None = None

    headers: dict[str, str] = {}
    user: str | None = msgspec.field(default=None, name="as")
    groups: list[str] = []
    body: Any = None
    base64: str | None = None

    save: dict[str, str] = {}
    only: list[str] | None = None
    ignore: list[str] = []
    compare: str = "all"
    with_headers: list[str] = []
    sort: list[str] | None = None
    any_order: bool = False

    events: int = 1
    seconds: float | None = None
    last_only: bool = False
    at: str | None = None
    wanted: Any = msgspec.field(default=msgspec.UNSET, name="is")
    exists: bool | None = None
    code: int | None = None
    whole: bool = True

    become: str = "ready"
    count: int = 1
    exit: int = 1

    @property
    def has_wanted(self) -> bool:
        """Tell whether the step names a value, which may be false or null."""
        return self.wanted is not msgspec.UNSET

    @property
    def label(self) -> str:
        """What recordings and reports call the step."""
        verb = next((verb for verb in _VERBS if getattr(self, verb) is not None), "")
        text = str(getattr(self, verb)) if verb else ""
        return text if verb == "do" else f"{verb} {text}"


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all cases of a tree rely on: steps to run once, a heartbeat, what to ignore."""

    about: str = ""
    steps: list[Step] = []
    heartbeat: list[Step] = []
    namespace_has: list[str] = []
    ignore: list[str] = []


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A few requests in a fresh namespace.

    `name` is the file's path below the root of its tree, without its suffix.
    """

    about: str
    steps: list[Step]
    name: str = ""
    namespace: bool = True
    webhooks: dict[str, WebhookScript] = {}
    cleanup: list[str] = []
    alone: bool = False


def load_cases(root: Path, only: str = "") -> list[Case]:
    """Load the cases of a tree whose name contains a text; those that must run alone go last.

    Raises:
        ValueError: a file is not a case; the message names it.
    """
    cases = []
    for file in sorted(root.rglob("*.yaml")):
        if only in str(file.relative_to(root)) and file != root / _SETUP:
            fields = _load(file)
            fields["name"] = file.relative_to(root).with_suffix("").as_posix()
            cases.append(_convert(fields, Case, file))
    return sorted(cases, key=lambda case: case.alone)


def load_setup(root: Path) -> Setup | None:
    """Load what the cases of a tree rely on; None where they need nothing."""
    file = root / _SETUP
    return _convert(_load(file), Setup, file) if file.exists() else None


def _load(file: Path) -> Object:
    loaded = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(loaded, dict):
        raise ValueError(f"{file}: a case is a mapping with `about` and `steps`")
    return loaded


def _convert(fields: Object, kind: type[T], file: Path) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{file}: {error}") from error
