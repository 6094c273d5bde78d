"""Modules that load at first use: what few requests need must not delay the first answer."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType


def lazy_module(name: str) -> ModuleType:
    """Return a module of this package that is run when one of its attributes is first read.

    Meant for the `else` of `if TYPE_CHECKING: from … import module`, so that type checkers see an
    ordinary import. To everybody who imports the module it is the same one, loaded or not.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    # An ordinary import would have bound the module in its package.
    package, _, child = name.rpartition(".")
    setattr(import_module(package), child, module)
    return module
