"""CEL expressions of admission, of webhooks and policies: compiled once, evaluated on a write."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.cel_library import build_config, build_extensions, load_cel

# What the evaluator, which has no types of Kubernetes' own, takes for them.
_PLAIN = {"Object": "map", "list(JSONPatch)": "list"}
_CODE = re.compile(r"^(?!ERROR)[A-Z_]+: | \[[A-Z_]+\]$")


class ExpressionFailed(Exception):
    """An expression does not compile or could not be evaluated; the text says why."""


@lru_cache(maxsize=1024)
def compile_expression(text: str, variables: tuple[str, ...]) -> Any:
    """Compile an expression that may use these variables, whose types are not known.

    Raises:
        RuntimeError: it does not compile.
        ImportError: the evaluator is not installed.
    """
    cel = load_cel()
    env = cel.NewEnv(
        config=build_config(),
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=list(build_extensions()),
    )
    return env.compile(text)


def find_fault(text: str, variables: tuple[str, ...], wanted: str = "") -> str:
    """Tell why an expression does not compile, or is of another type than the one wanted.

    Empty where nothing is wrong. `wanted` is `bool`, `string`, `Object` or `list(JSONPatch)`.

    Raises:
        ImportError: the evaluator is not installed.
    """
    try:
        compiled = compile_expression(text, variables)
    except RuntimeError as error:
        return f"compilation failed: {strip_code(str(error))}"
    found = compiled.return_type().name().lower().replace("<", "(").replace(">", ")")
    if not wanted or found == "dyn" or found.startswith(_PLAIN.get(wanted, wanted)):
        return ""
    return f"must evaluate to {wanted} but got {found}"


def evaluate(text: str, variables: tuple[str, ...], data: Object) -> Any:
    """Return the value of an expression.

    Raises:
        ExpressionFailed: it has none.
    """
    try:
        result = compile_expression(text, variables).eval(data=data)
    except (RuntimeError, ImportError) as error:
        raise ExpressionFailed(str(error)) from None
    value = result.plain_value()
    if result.type().name() == "ERROR":
        problem = strip_code(str(value))
        raise ExpressionFailed(
            problem.replace('Key not found in map : "', "no such key: ").rstrip('"')
        )
    return value


def strip_code(problem: str) -> str:
    """Return the evaluator's words without its status code, which Kubernetes does not print."""
    return _CODE.sub("", problem)
