"""Keep credentials out of text that people and machines read."""

from __future__ import annotations

import re

MASK = "***"

# What each looks like is fixed by a standard, so that ordinary words are left alone: RFC 6750
# (bearer tokens), RFC 7519 (JWTs, as service account tokens are), RFC 7468 (keys), RFC 3986 (the
# password in the authority of a URL).
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(\.[A-Za-z0-9_-]*)?"), MASK),
    (
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL),
        MASK,
    ),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{MASK}@"),
)


def redact(text: str) -> str:
    """Mask tokens, private keys and passwords of URLs in a text.

    It is the second line: no message of Kubewright has any of them on purpose. What a Secret holds
    is not recognised by its looks; a program that writes it into a message is not saved.
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
