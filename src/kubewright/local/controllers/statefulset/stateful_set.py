"""A StatefulSet as its controller sees it: ordinals, strategy, names. Pure."""

from __future__ import annotations

import re

from kubewright.api.resource import Object
from kubewright.local.controllers.deployment.deployment import resolve
from kubewright.local.controllers.workload import Workload

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"

_POD = re.compile(r"(.*)-([0-9]{1,10})")
_LARGEST_ORDINAL = 2**31 - 1


class StatefulSet(Workload, frozen=True):
    """Typed reads of a decoded StatefulSet; the defaults are the API's."""

    @property
    def replicas(self) -> int:
        """The wished pods."""
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else int(replicas)

    @property
    def start(self) -> int:
        """The first ordinal."""
        return int((self.spec.get("ordinals") or {}).get("start") or 0)

    @property
    def ordinals(self) -> range:
        """The ordinals that there should be pods of."""
        return range(self.start, self.start + self.replicas)

    @property
    def is_parallel(self) -> bool:
        """Tell whether pods need not wait for each other."""
        return bool(self.spec.get("podManagementPolicy") == "Parallel")

    @property
    def min_ready_seconds(self) -> int:
        """How long a pod must be ready to count as available."""
        return int(self.spec.get("minReadySeconds") or 0)

    @property
    def history_limit(self) -> int:
        """How many revisions that no pod has are kept."""
        limit = self.spec.get("revisionHistoryLimit")
        return 10 if limit is None else int(limit)

    @property
    def _strategy(self) -> Object:
        return self.spec.get("updateStrategy") or {}

    @property
    def is_on_delete(self) -> bool:
        """Tell whether a pod gets the new template only when somebody deletes it."""
        return bool(self._strategy.get("type") == "OnDelete")

    @property
    def partition(self) -> int:
        """How many pods, counted from the first, keep the old template."""
        return int((self._strategy.get("rollingUpdate") or {}).get("partition") or 0)

    @property
    def max_unavailable(self) -> int:
        """The pods that an update may make unavailable at once: one at least."""
        value = (self._strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        return 1 if value is None else max(resolve(value, self.replicas, round_up=False), 1)

    @property
    def claim_templates(self) -> list[Object]:
        """The templates of the claims that each pod gets."""
        templates: list[Object] = self.spec.get("volumeClaimTemplates") or []
        return templates

    @property
    def deletes_claims_when_scaled(self) -> bool:
        """Tell whether the claims of a surplus pod go with it."""
        return self._retention("whenScaled")

    @property
    def deletes_claims_when_deleted(self) -> bool:
        """Tell whether all claims go with the StatefulSet."""
        return self._retention("whenDeleted")

    def _retention(self, when: str) -> bool:
        policy = self.spec.get("persistentVolumeClaimRetentionPolicy") or {}
        return bool(policy.get(when) == "Delete")

    def pod_name(self, ordinal: int) -> str:
        """Return the name of the pod of an ordinal."""
        return f"{self.name}-{ordinal}"

    def claim_name(self, template: Object, ordinal: int) -> str:
        """Return the name of the claim of an ordinal."""
        return f"{template['metadata']['name']}-{self.name}-{ordinal}"

    def is_member(self, pod: Object) -> bool:
        """Tell whether a pod's name is one of this StatefulSet, whatever its ordinal."""
        match = _POD.fullmatch(pod["metadata"]["name"])
        return match is not None and match[1] == self.name

    def has_claim(self, name: str) -> bool:
        """Tell whether a claim of this name belongs to one of the pods, present or not."""
        prefixes = (f"{t['metadata']['name']}-{self.name}-" for t in self.claim_templates)
        return any(name.startswith(p) and name[len(p) :].isdecimal() for p in prefixes)


def pod_ordinal(pod: Object) -> int | None:
    """Return the number at the end of a pod's name; None where there is none."""
    match = _POD.fullmatch(pod["metadata"]["name"])
    if match is None or int(match[2]) > _LARGEST_ORDINAL:
        return None
    return int(match[2])


def pod_revision(pod: Object) -> str:
    """Return the name of the revision that a pod was made of."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION) or "")
