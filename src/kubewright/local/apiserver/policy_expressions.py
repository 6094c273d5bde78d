"""The expressions of admission policies: compiled once, evaluated on a write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.cel_library import build_config, build_extensions, load_cel
from kubewright.local.apiserver.crd.expressions import is_cel_available
from kubewright.local.apiserver.field_error import forbidden, invalid

_VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_CODE = re.compile(r"^(?!ERROR)[A-Z_]+: | \[[A-Z_]+\]$")
_STRING = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_AUTHORIZER = re.compile(r"(?<![\w.])authorizer\b")


class ExpressionFailed(Exception):
    """An expression does not compile or could not be evaluated; the text says why."""


@lru_cache(maxsize=512)
def _compile(text: str) -> Any:
    cel = load_cel()
    env = cel.NewEnv(
        config=build_config(),
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=list(build_extensions()),
    )
    return env.compile(text)


def evaluate(text: str, data: Object) -> Any:
    """Return the value of an expression.

    Raises:
        ExpressionFailed: it has none.
    """
    try:
        result = _compile(text).eval(data=data)
    except (RuntimeError, ImportError) as error:
        raise ExpressionFailed(str(error)) from None
    value = result.plain_value()
    if result.type().name() == "ERROR":
        problem = _CODE.sub("", str(value))
        raise ExpressionFailed(
            problem.replace('Key not found in map : "', "no such key: ").rstrip('"')
        )
    return value


def evaluate_variables(policy: Object, data: Object) -> Object:
    """Return the data with the policy's variables, each of which may use those before it.

    A variable that fails is left out: only an expression that uses it fails.
    """
    values: Object = {}
    data = {**data, "variables": values}
    for variable in policy.get("variables") or ():
        try:
            values[variable["name"]] = evaluate(variable["expression"], data)
        except ExpressionFailed:
            continue
    return data


def validate_expressions(policy: Object) -> list[Cause]:
    """Return what is wrong with the expressions of a policy.

    Without an evaluator every policy is refused by name, as is the use of `authorizer`, which this
    server does not offer: none is ignored.
    """
    if not is_cel_available():
        detail = "admission policies (CEL) need an evaluator: install kubewright[cel]"
        return [forbidden("spec.validations", detail)]
    causes: list[Cause] = []
    for field, text in _expressions(policy.get("spec") or {}):
        if _AUTHORIZER.search(_STRING.sub('""', text)):
            causes.append(forbidden(field, "this server does not support the variable authorizer"))
            continue
        try:
            _compile(text)
        except RuntimeError as error:
            fault = f"compilation failed: {_CODE.sub('', str(error))}"
            causes.append(invalid(field, text, fault))
    return causes


def _expressions(spec: Object) -> Iterator[tuple[str, str]]:
    places = (
        ("matchConditions", "expression"),
        ("variables", "expression"),
        ("validations", "expression"),
        ("validations", "messageExpression"),
        ("auditAnnotations", "valueExpression"),
    )
    for key, part in places:
        for index, entry in enumerate(spec.get(key) or ()):
            if text := entry.get(part):
                yield f"spec.{key}[{index}].{part}", text
