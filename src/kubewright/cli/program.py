"""The user's program: import it and find its operators."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kubewright.api.errors import ConfigurationError

if TYPE_CHECKING:
    from kubewright.runtime import Operator


def load_operators(module: str) -> list[Operator]:
    """Import a module by dotted name, or a file by its path, and return its operators.

    Raises:
        ConfigurationError: it cannot be imported, or defines no operator.
    """
    from kubewright.runtime import Operator

    if not module:
        raise ConfigurationError("MODULE is empty: name a module or a Python file")
    try:
        program = _load_file(Path(module)) if module.endswith(".py") else _load_module(module)
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ConfigurationError(f"{module} is not Python: {error.msg} ({where})") from error
    found = {id(value): value for value in vars(program).values() if isinstance(value, Operator)}
    if not found:
        raise ConfigurationError(
            f"module {module!r} defines no operator: assign one to a name at its top level, "
            "such as operator = kw.Operator('memcached-operator')"
        )
    return list(found.values())


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # the program itself lacks something: its traceback says where
        raise ConfigurationError(
            f"there is no module {name!r} in {Path.cwd()} or among the installed packages"
        ) from error


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigurationError(f"there is no Python file {path}")
    # Neighbours of the file can be imported, as with `python FILE`.
    sys.path.insert(0, str(path.parent.absolute()))
    program = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = program
    spec.loader.exec_module(program)
    return program
