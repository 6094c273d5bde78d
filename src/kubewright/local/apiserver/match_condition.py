"""matchConditions of webhooks: CEL expressions that narrow what they are asked about."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.cel_library import build_config, build_extensions, load_cel

_CODE = re.compile(r"^(?!ERROR)[A-Z_]+: | \[[A-Z_]+\]$")
_VARIABLES = ("object", "oldObject", "request")


class ConditionFailed(Exception):
    """A condition could not be evaluated; the text names it and says why."""


@lru_cache(maxsize=512)
def _compile(text: str) -> Any:
    cel = load_cel()
    env = cel.NewEnv(
        config=build_config(),
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=list(build_extensions()),
    )
    return env.compile(text)


def holds(text: str, data: Object) -> bool:
    """Evaluate a condition on `object`, `oldObject` and `request`.

    Raises:
        ConditionFailed: it does not compile, or fails.
    """
    try:
        result = _compile(text).eval(data=data)
    except (RuntimeError, ImportError) as error:
        raise ConditionFailed(f"expression '{text}' resulted in error: {error}") from None
    if result.type().name() == "ERROR":
        problem = _CODE.sub("", str(result.plain_value()))
        problem = problem.replace('Key not found in map : "', "no such key: ").rstrip('"')
        raise ConditionFailed(f"expression '{text}' resulted in error: {problem}")
    return result.plain_value() is True
