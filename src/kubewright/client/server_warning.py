"""Warnings that an API server sends beside an answer, such as a deprecation or an unknown field."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping

from kubewright.client.transport import find_header

logger = logging.getLogger(__name__)

# RFC 7234, section 5.5, of which Kubernetes uses code 299 and no date (KEP-1693).
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_REMEMBERED = 1000


def read_warnings(headers: Mapping[str, str]) -> list[str]:
    """Return the texts of an answer's Warning headers."""
    texts = _WARNING.findall(find_header(headers, "Warning"))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


class WarningLog:
    """Log each warning once, since a reconciler meets the same one at every turn."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, None] = OrderedDict()

    def tell(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Log the warnings of an answer that were not logged before."""
        for text in read_warnings(headers):
            if text not in self._told:
                logger.warning("the API server warns about %s %s: %s", method, path, text)
                self._told[text] = None
            if len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
