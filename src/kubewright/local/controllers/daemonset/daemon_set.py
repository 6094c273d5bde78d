"""A DaemonSet as its controller sees it: strategy and template in numbers. Pure."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.controllers.deployment.deployment import resolve
from kubewright.local.controllers.workload import Workload

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSet(Workload, frozen=True):
    """Typed reads of a decoded DaemonSet; the defaults are the API's."""

    @property
    def pod_spec(self) -> Object:
        """The spec of the template."""
        return self.spec["template"].get("spec") or {}

    @property
    def min_ready_seconds(self) -> int:
        """How long a pod must be ready to count as available."""
        return int(self.spec.get("minReadySeconds") or 0)

    @property
    def history_limit(self) -> int:
        """How many old revisions are kept."""
        limit = self.spec.get("revisionHistoryLimit")
        return 10 if limit is None else int(limit)

    @property
    def selects_everything(self) -> bool:
        """Tell whether the selector has no condition, so that it would claim every pod."""
        return not any((self.spec.get("selector") or {}).values())

    @property
    def template_generation(self) -> int | None:
        """The template's number as older versions counted; None where it is none."""
        text = (self.obj["metadata"].get("annotations") or {}).get(_GENERATION, "")
        return int(text) if text.lstrip("-").isdecimal() else None

    @property
    def is_rolling(self) -> bool:
        """Tell whether pods of an old template are replaced without being asked for."""
        return self._strategy.get("type") != "OnDelete"

    @property
    def _strategy(self) -> Object:
        return self.spec.get("updateStrategy") or {}

    def max_surge(self, desired: int) -> int:
        """Return how many nodes may have an old and a new pod at once."""
        value = (self._strategy.get("rollingUpdate") or {}).get("maxSurge") or 0
        return resolve(value, desired, round_up=True) if self.is_rolling else 0

    def max_unavailable(self, desired: int) -> int:
        """Return how many nodes may be without an available pod during an update."""
        value = (self._strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        count = resolve(1 if value is None else value, desired, round_up=True)
        # Both 0 would never move.
        return count or int(desired > 0 and self.max_surge(desired) == 0)

    @property
    def allows_surge(self) -> bool:
        """Tell whether a node may have two pods during an update."""
        return self.max_surge(1) > 0

    def is_updated(self, pod: Object, hashed: str) -> bool:
        """Tell whether a pod was made of the template of now."""
        labels = pod["metadata"].get("labels") or {}
        generation = self.template_generation
        by_number = generation is not None and labels.get(GENERATION_LABEL) == str(generation)
        return by_number or labels.get(HASH_LABEL) == hashed
