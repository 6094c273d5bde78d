"""One expression rule: compiled, and evaluated on a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.local.apiserver.crd.cel_fields import UndefinedField, find_undefined_fields
from kubewright.local.apiserver.crd.cel_library import build_config, build_extensions, load_cel
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


class Rule:
    """A compiled rule of `x-kubernetes-validations`.

    Raises:
        ExpressionFault: the rule does not compile, or is not a truth.
        ImportError: cel-expr-python is not installed.
    """

    def __init__(
        self,
        schema: StructuralSchema,
        source: Mapping[str, Any],
        *,
        is_resource: bool = False,
    ) -> None:
        """Compile a rule that stands at a schema node; `is_resource` tells that it is the root."""
        self.source = source
        self.text = source["rule"].strip()
        self.uses_old_self = bool(_OLD_SELF.search(_STRING.sub('""', self.text)))
        self.optional_old_self = bool(source.get("optionalOldSelf"))
        self.field_path = source.get("fieldPath") or ""
        self.reason = source.get("reason") or "FieldValueInvalid"
        self._env = _environment(schema)
        self._check_fields(schema, is_resource=is_resource)
        self._expression = self._compile(self.text, ("BOOL", "DYN"), "a bool")
        message = (source.get("messageExpression") or "").strip()
        self._message = self._compile(message, ("STRING", "DYN"), "a string") if message else None

    def _compile(self, text: str, types: tuple[str, ...], wanted: str) -> Any:
        try:
            plain = self._env.compile(text if not self.optional_old_self else _bind(text))
            if plain.return_type().name() not in types:
                raise ExpressionFault(f"cel expression must evaluate to {wanted}")
        except RuntimeError as error:
            raise ExpressionFault(f"compilation failed: {_CODE.sub('', str(error))}") from error
        return plain

    def _check_fields(self, schema: StructuralSchema, *, is_resource: bool) -> None:
        try:
            tree = self._env.compile(self.text).serialize()
        except RuntimeError:
            # With an optional oldSelf it compiles only when bound; else this is told right after.
            return
        undefined = find_undefined_fields(tree, schema, is_resource=is_resource)
        if undefined:
            raise ExpressionFault(f"compilation failed: {_locate(self.text, undefined[0])}")

    @property
    def default_message(self) -> str:
        """What is told where the rule brings no message of its own."""
        return str(self.source.get("message") or "").strip() or f"failed rule: {self.text}"

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


def _locate(text: str, field: UndefinedField) -> str:
    """Word an undefined field as the compiler words its own faults."""
    before = text[: field.offset]
    line, column = before.count("\n"), field.offset - (before.rfind("\n") + 1)
    return (
        f"ERROR: <input>:{line + 1}:{column + 1}: undefined field '{field.name}'\n"
        f" | {text.splitlines()[line]}\n | {'.' * column}^"
    )


def _bind(text: str) -> str:
    return f"cel.bind(oldSelf, hasOldSelf ? optional.of(dyn(oldSelf)) : optional.none(), ({text}))"


def _environment(schema: StructuralSchema) -> Any:
    cel, own = load_cel(), _cel_type(schema)
    variables = {"self": own, "oldSelf": cel.Type.DYN, "hasOldSelf": cel.Type.BOOL}
    return cel.NewEnv(
        config=build_config(), variables=variables, extensions=list(build_extensions())
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
