"""The words of a case that stand for what is known only when it runs."""

from __future__ import annotations

import random
import re
from typing import Any

from kubewright.api.resource import Object

_PLACEHOLDER = re.compile(r"\{([\w.]+)\}")
_LETTERS = "bcdfghjklmnpqrstvwxz"
_LENGTH = 8


class Placeholders:
    """What `{ns}`, `{id}`, `{now}`, `{NAME.url}` and saved words mean in one run of a case.

    `{ns}` is the name of the run's namespace, `{id}` a random word for names outside it.
    """

    def __init__(self, rng: random.Random) -> None:
        word = "".join(rng.choice(_LETTERS) for _ in range(_LENGTH))
        self._meanings: Object = {"ns": f"ns-{word}", "id": f"id{word}"}

    @property
    def namespace(self) -> str:
        """The name of the run's namespace."""
        return str(self._meanings["ns"])

    @property
    def word(self) -> str:
        """The random word for names outside the namespace."""
        return str(self._meanings["id"])

    @property
    def webhooks(self) -> dict[str, str]:
        """What is known of the webhooks, `NAME.url` and `NAME.ca`, by those names."""
        return {
            name: value for name, value in self._meanings.items() if name.endswith((".url", ".ca"))
        }

    def set(self, name: str, meaning: Any) -> None:
        """Give a word a meaning, of any type."""
        self._meanings[name] = meaning

    def fill(self, value: Any) -> Any:
        """Return a value with its words replaced.

        A text that is nothing but one word becomes its meaning, whatever the type; in a longer
        text the meaning is written out. An unknown word stays as it is.
        """
        if isinstance(value, str):
            whole = _PLACEHOLDER.fullmatch(value)
            if whole and whole[1] in self._meanings:
                return self._meanings[whole[1]]
            return _PLACEHOLDER.sub(lambda m: str(self._meanings.get(m[1], m[0])), value)
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        return value

    def fill_text(self, text: str) -> str:
        """Return a text with its words replaced."""
        return str(self.fill(text))

    def fill_bytes(self, data: bytes) -> bytes:
        """Return an encoded body with `ns-aaaaaaaa` and `idaaaaaaaa` replaced.

        They are as long as what takes their place, so lengths inside stay true.
        """
        data = data.replace(b"ns-aaaaaaaa", self.namespace.encode())
        return data.replace(b"idaaaaaaaa", self.word.encode())
