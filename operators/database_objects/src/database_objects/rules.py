"""Rules of fields that every database has, in CEL, each with its sentence. Pure."""

from __future__ import annotations

import kubewright as kw

QUANTITY = r"^[1-9][0-9]*(Mi|Gi|Ti)$"
"""Sizes of volumes."""


def keep(field: str, kind: str) -> kw.Rule:
    """Return the rule that a field cannot be changed."""
    return kw.Rule("self == oldSelf", f"{field} cannot be changed: make a new {kind}")


def grow(field: str, kind: str) -> kw.Rule:
    """Return the rule that the size of a volume never becomes smaller."""
    return kw.Rule(
        "quantity(self).compareTo(quantity(oldSelf)) >= 0",
        f"{field}: a volume cannot shrink: restore a backup into a new {kind}",
    )


def refuse_words(field: str, words: tuple[str, ...], *, prefix: str = "") -> kw.Rule:
    """Return the rule that a name is none of the server's own, nor begins as those do."""
    quoted = ", ".join(f"'{word}'" for word in words)
    if not prefix:
        return kw.Rule(
            f"!(self in [{quoted}])", f"{field}: {', '.join(words)} are the server's own"
        )
    return kw.Rule(
        f"!(self in [{quoted}]) && !self.startsWith('{prefix}')",
        f"{field}: {', '.join(words)} and names that begin with {prefix} are the server's own",
    )
