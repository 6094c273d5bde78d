"""Replacing what differs by nature: UIDs, times, versions, generated names, hashes, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.placeholders import Placeholders
from kubewright.api.resource import Object

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_VERSION = re.compile(r"(?i)resource ?version[a-z ]*(: |\()\d+( \(\d+\)|, current: \d+)?")
_VERSION_DIGITS = re.compile(r"\d{2,}")
_AGE = re.compile(r"^(<unknown>|\d+[smhdy](\d+[smh])?)$")
_ORDINAL = re.compile(r"\d{1,4}")
# The name of a pod of a ReplicaSet that no answer shows.
_HASHED_NAME = re.compile(r"(<hash\d+>)-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_PATTERNS = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<jwt>"),
    (re.compile(r"\brevision=\d+"), "revision=<rv>"),
    (re.compile(r"\bkube-api-access-[a-z0-9]{5}\b"), "kube-api-access-<random>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<ip>"),
    # A CronJob names its Jobs by the minutes since 1970.
    (re.compile(r"-(29|3[0-3])\d{6}\b"), "-<minute>"),
)
_HASH_LABELS = (
    "pod-template-hash",
    "controller-revision-hash",
    "controller.kubernetes.io/hash",
)
_REVISIONS = ("currentRevision", "updateRevision")
_LONGEST_PREFIX = 58
_LOWEST_NODE_PORT = 30000
_LIST: Object = {"items": []}


class Normaliser:
    """Replaces what differs between two runs; what is equal within a run stays equal.

    UIDs become `<uid1>`, `<uid2>`, … in the order in which they show, versions `<rv1>`, … in their
    own order, so that the order of writes still counts.
    """

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._versions: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}

    def normalise(self, exchanges: list[Object], bodies: Sequence[Any] = ()) -> Any:
        """Return the exchanges with tokens in place of what differs.

        `bodies` are the answers as they came, of which exchanges may hold a part only: they tell
        what is a generated name or a hash.
        """
        versions = {int(text) for text in _object_versions(exchanges) if str(text).isdigit()}
        self._versions = {
            str(version): f"<rv{rank}>" for rank, version in enumerate(sorted(versions), 1)
        }
        self._learn_hash_labels(exchanges)
        self._learn_names(exchanges)
        for body in bodies:
            self._learn_hash_labels(body)
            self._learn_revisions(body)
            self._learn_names(body)
        return self._replace(exchanges)

    def _learn_hash_labels(self, value: Any) -> None:
        for labels in _find_all(value, "labels"):
            if isinstance(labels, dict):
                for key in _HASH_LABELS:
                    if key in labels:
                        self._learn_hash(labels[key])

    def _learn_revisions(self, value: Any) -> None:
        for key in _REVISIONS:
            for revision in _find_all(value, key):
                if isinstance(revision, str) and revision:
                    self._learn_hash(revision)

    def _learn_hash(self, text: str) -> None:
        self._hashes.setdefault(text, f"<hash{len(self._hashes) + 1}>")

    def _learn_names(self, value: Any) -> None:
        if isinstance(value, dict):
            metadata = value.get("metadata")
            if isinstance(metadata, dict) and metadata.get("generateName"):
                prefix = metadata["generateName"][:_LONGEST_PREFIX]
                self._learn_name(str(metadata.get("name", "")), prefix)
            for item in value.values():
                self._learn_names(item)
        elif isinstance(value, list):
            for item in value:
                self._learn_names(item)

    def _learn_name(self, name: str, prefix: str) -> None:
        # A StatefulSet's pods have the prefix too, and ordinals that are not random.
        if name.startswith(prefix) and not _ORDINAL.fullmatch(name[len(prefix) :]):
            self._names.setdefault(name, f"{prefix}<name{len(self._names) + 1}>")

    def _replace(self, value: Any, key: str = "", holder: Any = None) -> Any:
        if isinstance(value, dict):
            return self._replace_object(value, holder)
        if isinstance(value, list):
            return [self._replace(item, key, value) for item in value]
        if isinstance(value, str):
            return self._replace_text(value, key)
        if key == "nodePort" and isinstance(value, int) and value >= _LOWEST_NODE_PORT:
            return "<nodePort>"
        return value

    def _replace_object(self, value: Object, holder: Any) -> Object:
        replaced: Object = {}
        in_list = _is_list(holder)
        for name, item in value.items():
            key = name.rsplit("/", 1)[-1]
            if key == "resourceVersion" and isinstance(item, str):
                replaced[name] = self._replace_version(item, in_list=in_list)
            elif key == "resourceVersion" and isinstance(item, list) and name != key:
                replaced[name] = [self._versions.get(text, text) for text in item]
            elif value.get("type") == "BOOKMARK" and name == "object":
                replaced[name] = self._replace_bookmark(item)
            else:
                # Tokens are numbered by the value first: the name of a field may hold a UID too.
                new = self._replace(item, key, value)
                replaced[self._replace_text(name)] = new
        return replaced

    def _replace_version(self, text: str, *, in_list: bool) -> str:
        if in_list and text.isdigit() and text != "0":
            return "<rv>"
        return self._versions.get(text, text)

    def _replace_bookmark(self, item: Any) -> Any:
        """A bookmark's version is one of the server, as a list's is."""
        replaced = self._replace(item, "object", _LIST)
        return replaced | {"metadata": self._replace(item.get("metadata", {}), "metadata", _LIST)}

    def _replace_text(self, text: str, key: str = "") -> str:
        if key == "continue" and text:
            return "<continue>"
        for name in sorted(self._names, key=len, reverse=True):
            text = text.replace(name, self._names[name])
        for found, token in self._hashes.items():
            text = text.replace(found, token)
        text = _HASHED_NAME.sub(r"\1-<random>", text)
        text = text.replace(self._placeholders.namespace, "NS")
        text = text.replace(self._placeholders.word, "ID")
        for name, meaning in self._placeholders.webhooks.items():
            text = text.replace(meaning, f"<{name}>")
        text = _UUID.sub(self._uid_token, text)
        for pattern, token in _PATTERNS:
            text = pattern.sub(token, text)
        text = _VERSION.sub(lambda match: _VERSION_DIGITS.sub("<rv>", match[0]), text)
        return "<age>" if key in ("cells", "age") and _AGE.match(text) else text

    def _uid_token(self, match: re.Match[str]) -> str:
        return self._uids.setdefault(match[0], f"<uid{len(self._uids) + 1}>")


def _object_versions(value: Any) -> Iterator[Any]:
    """Yield the versions of objects; those of lists and bookmarks depend on other writers."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name.rsplit("/", 1)[-1] == "resourceVersion":
                yield from item if isinstance(item, list) else [item]
            elif not (name == "metadata" and _is_list(value)) and value.get("type") != "BOOKMARK":
                yield from _object_versions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _object_versions(item)


def _is_list(value: Any) -> bool:
    return isinstance(value, dict) and ("items" in value or "rows" in value)


def _find_all(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key:
                yield item
            yield from _find_all(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _find_all(item, key)
