"""Names for pods that make creating one twice impossible.

A random name would make a creation that is repeated, after an answer that got lost or a crash, a
second pod. Here the name of the next pod follows from what is there: an index is counted up from
the highest index among the owner's pods, and written as the five letters at the end of the name by
a bijection that the owner's UID picks. Whoever repeats a creation asks for the same name again,
and the API server refuses it with AlreadyExists. To people the names look as random as usual.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

# The API's alphabet for generated names.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5
_SPACE: int = len(_ALPHABET) ** _LENGTH
# The API cuts a generated name's prefix to leave 63 characters in all.
_PREFIX_LENGTH = 63 - _LENGTH
# Prime to the space (a power of 3), and large: neighbouring indexes do not look alike.
_STEP = 8_765_431
_STEP_INVERSE = pow(_STEP, -1, _SPACE)


# What admission says before the API server has made a name of `generateName`.
_BEFORE_NAMING = (
    "error looking up service account",
    "no PriorityClass with name",
    "pod rejected: RuntimeClass",
)


def describe_refusal(text: str, name: str, generate_name: str) -> str:
    """Say why a pod was refused as if its name were generated: early refusals do not know it."""
    if any(reason in text for reason in _BEFORE_NAMING):
        return text.replace(f'"{name}"', f'"{generate_name}"', 1)
    return text


class PodNames:
    """The names of the pods of one owner, in order."""

    def __init__(self, owner_name: str, owner_uid: str) -> None:
        self.generate_name = f"{owner_name}-"
        self._prefix = self.generate_name[:_PREFIX_LENGTH]
        digest = hashlib.sha256(owner_uid.encode()).digest()
        self._offset = int.from_bytes(digest[:8]) % _SPACE

    def name(self, index: int) -> str:
        """Return the name of an index; indexes start again after 14 million."""
        number = (index * _STEP + self._offset) % _SPACE
        letters = []
        for _ in range(_LENGTH):
            number, digit = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[digit])
        return self._prefix + "".join(letters)

    def index(self, name: str) -> int | None:
        """Return the index of a name; None for names that are not of this form."""
        letters = name.removeprefix(self._prefix)
        if len(letters) != _LENGTH or not name.startswith(self._prefix):
            return None
        number = 0
        for letter in reversed(letters):
            digit = _ALPHABET.find(letter)
            if digit < 0:
                return None
            number = number * len(_ALPHABET) + digit
        return (number - self._offset) * _STEP_INVERSE % _SPACE

    def next_names(
        self, existing: Iterable[str], is_taken: Callable[[str], bool], *, after: int = -1
    ) -> Iterator[str]:
        """Yield the names of new pods, without end.

        Args:
            existing: The names of the owner's pods, also of those that end or have ended.
            is_taken: Whether somebody else's pod has a name.
            after: The highest index that is known to have been used already. It keeps the name of
                a pod that just went from being used at once; forgetting it is harmless.
        """
        indexes = [index for index in map(self.index, existing) if index is not None]
        index = max([after, *indexes])
        while True:
            index += 1
            if not is_taken(name := self.name(index)):
                yield name
