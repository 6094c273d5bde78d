"""Quantities: numbers with a suffix, such as `500m`, `64Mi`, `1e3` (resource.Quantity)."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import total_ordering

_SYNTAX = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?"
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Exa down to nano needs 27 digits and some: the default of 28 would round.
_EXACT = Context(prec=100)


@total_ordering
class Quantity:
    """An exact amount of a resource.

    Two quantities are equal when their amounts are: `Quantity("1000m") == Quantity("1")`. `str`
    gives the canonical form: no fraction, the largest suffix of the family it was written in.
    `value` is the amount as an exact Decimal. What is finer than a nano is rounded away from zero.

    Raises:
        ValueError: the text is no quantity, such as `1.5 GB`; the message has the pattern.
    """

    __slots__ = ("_family", "value")

    def __init__(self, text: str | int) -> None:
        match = _SYNTAX.fullmatch(str(text))
        if match is None:
            raise ValueError(
                f"quantities must match the regular expression '{_SYNTAX.pattern}': got {text!r}"
            )
        number, exponent, suffix = match[1], match[2], match[3] or ""
        if suffix in _BINARY:
            self.value = Decimal(number) * (1 << _BINARY[suffix])
            self._family = "binary"
        elif exponent:
            self.value = Decimal(number).scaleb(int(exponent[1:]))
            self._family = "exponent"
        else:
            self.value = Decimal(number).scaleb(_DECIMAL[suffix])
            self._family = "decimal"
        # The finest amount is one nano; what is finer is rounded away from zero.
        nanos = self.value.scaleb(9, _EXACT)
        if nanos != nanos.to_integral_value():
            self.value = nanos.to_integral_value(ROUND_UP).scaleb(-9, _EXACT)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        # Binary suffixes cannot express fractions, so those fall back to decimal ones, and whole
        # amounts below 1024 need no suffix.
        if self._family == "binary" and self.value == int(self.value) and abs(self.value) >= 1024:
            return self._binary()
        mantissa, power = self._scaled()
        if self._family == "exponent":
            return f"{mantissa}e{power}" if power else str(mantissa)
        suffix = next(name for name, exponent in _DECIMAL.items() if exponent == power)
        return f"{mantissa}{suffix}"

    def _binary(self) -> str:
        amount, suffix = int(self.value), ""
        for name in _BINARY:
            if amount % 1024:
                break
            amount, suffix = amount // 1024, name
        return f"{amount}{suffix}"

    def _scaled(self) -> tuple[int, int]:
        """Return the whole mantissa and the largest power of ten, a multiple of three."""
        if self.value == 0:
            return 0, 0
        mantissa, power = int(self.value.scaleb(9)), -9
        while mantissa % 1000 == 0 and power < 18:
            mantissa, power = mantissa // 1000, power + 3
        return mantissa, power

    def to_int(self) -> int:
        """Return the amount as a whole number, rounded up as `Quantity.Value` does."""
        return int(self.value.to_integral_value(ROUND_CEILING))

    def to_milli(self) -> int:
        """Return the amount in thousandths, rounded up as `Quantity.MilliValue` does."""
        return int((self.value * 1000).to_integral_value(ROUND_CEILING))
