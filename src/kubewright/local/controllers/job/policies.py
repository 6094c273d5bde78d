"""What a Job's policies say of failed pods and of succeeded indexes. Pure.

Sources: KEP-3329 (podFailurePolicy), KEP-3998 (successPolicy).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.job.indexes import Indexes
from kubewright.local.controllers.job.job import Job

FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
IGNORE = "Ignore"

_LISTED = {"In": True, "NotIn": False}


class Match(msgspec.Struct, frozen=True):
    """What the policy says of one failed pod; no action where no rule matched."""

    action: str = ""
    message: str = ""

    @property
    def is_counted(self) -> bool:
        """Tell whether the failure counts towards the limits."""
        return self.action != IGNORE


_NO_MATCH = Match()


def match_failure(job: Job, pod: Object) -> Match:
    """Return what the first rule says that matches a failed pod."""
    if job.failure_policy is None:
        return _NO_MATCH
    for index, rule in enumerate(job.failure_policy.get("rules") or ()):
        if (what := _describe_match(pod, rule)) is not None:
            message = f"{what} matching {rule['action']} rule at index {index}"
            return Match(rule["action"], message)
    return _NO_MATCH


def _describe_match(pod: Object, rule: Object) -> str | None:
    """Say what of a pod matches a rule; None where nothing does."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        for key in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(key) or ():
                if (code := _failing_code(container, codes)) is not None:
                    who = f"Container {container['name']} for pod {name}"
                    return f"{who} failed with exit code {code}"
        return None
    for condition in status.get("conditions") or ():
        if any(_fits(condition, pattern) for pattern in patterns or ()):
            return f"Pod {name} has condition {condition['type']}"
    return None


def _failing_code(container: Object, codes: Object) -> int | None:
    terminated = (container.get("state") or {}).get("terminated")
    wanted = codes.get("containerName")
    if terminated is None or wanted not in (None, container["name"]):
        return None
    code = int(terminated.get("exitCode") or 0)
    is_listed = code in (codes.get("values") or ())
    return code if code != 0 and is_listed is _LISTED.get(codes.get("operator", "")) else None


def _fits(condition: Object, pattern: Object) -> bool:
    same_type = condition.get("type") == pattern.get("type")
    return same_type and condition.get("status") == pattern.get("status", "True")


def match_success(job: Job, succeeded: Indexes) -> str | None:
    """Return the message of the first rule of the success policy that is met; None without one."""
    rules: Sequence[Object] = (job.spec.get("successPolicy") or {}).get("rules") or ()
    if not succeeded:
        return None
    for index, rule in enumerate(rules):
        if _is_met(rule, succeeded, job.index_count):
            return f"Matched rules at index {index}"
    return None


def _is_met(rule: Object, succeeded: Indexes, completions: int) -> bool:
    text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None:
        return count is not None and len(succeeded) >= int(count)
    wanted = Indexes.parse(text, completions)
    if not wanted:
        return False
    shared = wanted.count_shared(succeeded)
    return shared == len(wanted) or (count is not None and shared >= int(count))
