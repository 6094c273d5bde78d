"""One expression rule: compiled, and evaluated on a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.local.apiserver.crd.cel_library import build_config, build_extensions, load_cel
from kubewright.local.apiserver.crd.cel_syntax import SyntaxTree, read_tree
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema

_STRING = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_OLD_SELF = re.compile(r"(?<![\w.])oldSelf\b")
_CODE = re.compile(r"^(?!ERROR)[A-Z_]+: | \[[A-Z_]+\]$")


class ExpressionFault(ValueError):
    """An expression does not compile; the message is the compiler's."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a rule: `message` is what it says when it does not hold."""

    holds: bool
    message: str = ""
    error: str = ""


def uses_old_self(text: str) -> bool:
    """Tell whether an expression looks at the value before."""
    return bool(_OLD_SELF.search(_STRING.sub('""', text)))


class Rule:
    """A compiled rule of `x-kubernetes-validations`.

    Raises:
        ExpressionFault: the rule or its message does not compile.
        ImportError: cel-expr-python is not installed.
    """

    def __init__(self, schema: StructuralSchema, source: Mapping[str, Any]) -> None:
        """Compile a rule that stands at a schema node."""
        self.source = source
        self.text = source["rule"]
        self.message_text = source.get("messageExpression") or ""
        self.uses_old_self = uses_old_self(self.text)
        self.optional_old_self = bool(source.get("optionalOldSelf"))
        self.field_path = source.get("fieldPath") or ""
        self.reason = source.get("reason") or "FieldValueInvalid"
        # Kubernetes has no `cel.bind`; the evaluator needs it to make oldSelf an optional value.
        bindings = [load_cel("ext.ext_bindings").ExtBindings()] if self.optional_old_self else []
        self._env = _environment(schema, bindings)
        self._expression = self._compile(self.text)
        self._message = self._compile(self.message_text) if self.message_text else None

    def _compile(self, text: str) -> Any:
        return _compile(self._env, text if not self.optional_old_self else _bind(text))

    @property
    def default_message(self) -> str:
        """What is told where the rule brings no message of its own."""
        return str(self.source.get("message") or "").strip() or f"failed rule: {self.text.strip()}"

    def evaluate(self, value: Any, old: tuple[Any] | None) -> Outcome:
        """Evaluate on a converted value; `old` holds the one before, where there was one."""
        data = {"self": value, "oldSelf": old[0] if old else None, "hasOldSelf": old is not None}
        result = self._expression.eval(data=data)
        if result.type().name() == "ERROR":
            error = _CODE.sub("", str(result.plain_value()))
            error = error.replace('Key not found in map : "', "no such key: ").rstrip('"')
            return Outcome(False, error=f"{error} evaluating rule: {self.default_message}")
        if result.plain_value() is True:
            return Outcome(True)
        return Outcome(False, self._message_for(data))

    def _message_for(self, data: Mapping[str, Any]) -> str:
        if self._message is not None:
            result = self._message.eval(data=data)
            text = result.plain_value() if result.type().name() == "STRING" else ""
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        return self.default_message


def read_expression(text: str) -> SyntaxTree:
    """Read the tree of an expression.

    Raises:
        ExpressionFault: its syntax is wrong; the message is the parser's.
    """
    env = load_cel().NewEnv(config=build_config(), extensions=list(build_extensions()))
    return read_tree(_compile(env, text, disable_check=True).serialize())


def _compile(env: Any, text: str, *, disable_check: bool = False) -> Any:
    try:
        return env.compile(text, disable_check=disable_check)
    except RuntimeError as error:
        raise ExpressionFault(_CODE.sub("", str(error))) from error


def _bind(text: str) -> str:
    return f"cel.bind(oldSelf, hasOldSelf ? optional.of(dyn(oldSelf)) : optional.none(), ({text}))"


def _environment(schema: StructuralSchema, bindings: list[Any]) -> Any:
    cel, own = load_cel(), _cel_type(schema)
    variables = {"self": own, "oldSelf": cel.Type.DYN, "hasOldSelf": cel.Type.BOOL}
    return cel.NewEnv(
        config=build_config(), variables=variables, extensions=[*build_extensions(), *bindings]
    )


def _cel_type(schema: StructuralSchema) -> Any:
    kind = load_cel().Type
    if schema.raw.get("x-kubernetes-int-or-string"):
        return kind.DYN
    declared = schema.raw.get("type")
    if declared == "string":
        formats = {"date-time": kind.TIMESTAMP, "date": kind.TIMESTAMP, "duration": kind.DURATION}
        return formats.get(schema.raw.get("format") or "", kind.STRING)
    if declared == "array" and schema.items is not None:
        return kind.List(_cel_type(schema.items))
    if declared == "object":
        values = _cel_type(schema.additional) if schema.additional is not None else kind.DYN
        return kind.Map(kind.STRING, values)
    scalars = {"integer": kind.INT, "number": kind.DOUBLE, "boolean": kind.BOOL}
    return scalars.get(declared or "", kind.DYN)
