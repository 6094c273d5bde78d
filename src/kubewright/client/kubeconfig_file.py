"""Kubeconfig files: found, read, merged, and and read with errors that name the place."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Object

_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}


class Section(msgspec.Struct, frozen=True):
    """One named part of a kubeconfig, such as a user, and the file that it is written in.

    Relative paths in it are relative to that file.
    """

    file: Path
    where: str
    fields: Object

    def __repr__(self) -> str:
        # Without the fields: some are secret.
        return f"<Section {self.where} of {self.file}>"

    def text(self, name: str) -> str:
        """Return a text field; empty where it is missing.

        Raises:
            ConfigurationError: the field is not a text.
        """
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, f"must be a text, not {value!r}: put it in quotes")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean field; false where it is missing."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {value!r}")
        return bool(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty where it is missing."""
        value = self.fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(name, "must be a list of texts")
        return tuple(value)

    def section(self, name: str) -> Section | None:
        """Return a nested part, if there is one."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "must be a mapping")
        return Section(self.file, f"{self.where}.{name}", value)

    def path(self, name: str) -> Path | None:
        """Return a path field, made absolute, if there is one."""
        value = self.text(name)
        return self.file.parent / Path(value).expanduser() if value else None

    def file_of(self, name: str) -> Path | None:
        """Return the file that `data` reads; None where the content is inline or missing."""
        return None if self.text(f"{name}-data") else self.path(name)

    def data(self, name: str) -> bytes | None:
        """Return the content of NAME-data, else of the file that NAME says, if there is either.

        Raises:
            ConfigurationError: the data is not base64, or the file cannot be read.
        """
        inline = self.text(f"{name}-data")
        if inline:
            try:
                return base64.b64decode(inline, validate=True)
            except binascii.Error as error:
                raise self.error(f"{name}-data", f"is not base64: {error}") from error
        path = self.path(name)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.error(name, f"cannot be read: {error}") from error

    def error(self, name: str, problem: str) -> ConfigurationError:
        """Build the error for a field."""
        return ConfigurationError(f"{self.file}: {self.where}.{name} {problem}")


class MergedFiles(msgspec.Struct, frozen=True):
    """Several kubeconfig files as one: of parts with one name, the first file's counts."""

    files: tuple[Path, ...]
    current_context: str
    sections: Mapping[str, Mapping[str, Section]]

    def find(self, list_name: str, name: str, why: str) -> Section:
        """Return a part by its name.

        Raises:
            ConfigurationError: there is none; the message tells the names there are.
        """
        found = self.sections[list_name].get(name)
        if found is not None:
            return found
        names = ", ".join(sorted(self.sections[list_name])) or "none"
        files = ", ".join(map(str, self.files))
        raise ConfigurationError(
            f"{files}: {why} {name!r}, which is not in {list_name} (there: {names})"
        )


def find_files(environment: Mapping[str, str]) -> list[Path]:
    """Return the kubeconfig files that exist: those of $KUBECONFIG, else ~/.kube/config.

    As kubectl does, missing files of $KUBECONFIG are passed over.
    """
    listed = environment.get("KUBECONFIG", "")
    if listed:
        candidates = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    else:
        candidates = [Path(environment.get("HOME") or Path.home()) / ".kube" / "config"]
    return [path for path in candidates if path.exists()]


def merge_files(files: Sequence[Path]) -> MergedFiles:
    """Read kubeconfig files and merge them in order.

    Raises:
        ConfigurationError: a file cannot be read or is not a kubeconfig.
    """
    current = ""
    sections: dict[str, dict[str, Section]] = {name: {} for name in _LISTS}
    for file in files:
        content = read_file(file)
        current = current or content.text("current-context")
        for list_name, part in _LISTS.items():
            for name, section in _named_sections(content, list_name, part):
                sections[list_name].setdefault(name, section)
    return MergedFiles(tuple(files), current, sections)


def read_file(file: Path) -> Section:
    """Read one kubeconfig file.

    Raises:
        ConfigurationError: it cannot be read, or is not YAML, or not a mapping.
    """
    try:
        content = _parse(file, file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{file}: is not a kubeconfig: it must be a mapping")
    return Section(file.absolute(), "kubeconfig", content)


def _parse(file: Path, text: bytes) -> Any:
    """Parse JSON, as programs write kubeconfigs, or else YAML, as people do."""
    if text.startswith(b"{"):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # a flow mapping of YAML, or broken: YAML's error is the one to tell
    # Where it is not needed, a start is 30 ms shorter.
    import yaml

    # The C loader is ten times faster, and not in every build of PyYAML.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file}: is not YAML: {error}") from error


def _named_sections(content: Section, list_name: str, part: str) -> list[tuple[str, Section]]:
    entries = content.fields.get(list_name) or []
    if not isinstance(entries, list):
        raise content.error(list_name, "must be a list")
    found: list[tuple[str, Section]] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise content.error(f"{list_name}[{number}]", "has no name")
        fields = entry.get(part)
        name: str = entry["name"]
        where = f"{list_name}[{name}]"
        if fields is not None and not isinstance(fields, dict):
            raise ConfigurationError(f"{content.file}: {where}.{part} must be a mapping")
        found.append((name, Section(content.file, where, fields or {})))
    return found
