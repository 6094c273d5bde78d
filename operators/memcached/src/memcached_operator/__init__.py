"""An operator that runs pools of memcached.

`models` declares the kind, `objects` builds what should exist, `operator` ties both to the runtime.
"""

from memcached_operator.models import Memcached, MemcachedSpec, MemcachedStatus
from memcached_operator.operator import operator

__all__ = ["Memcached", "MemcachedSpec", "MemcachedStatus", "operator"]
