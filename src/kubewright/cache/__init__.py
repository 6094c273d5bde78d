"""A local view of the API server's objects that is never silently wrong."""

from __future__ import annotations

from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.reflector import Reflector
from kubewright.cache.store import Store

__all__ = ["Cache", "Change", "ChangeType", "Entry", "Reflector", "Store"]
