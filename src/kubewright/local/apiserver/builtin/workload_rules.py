"""Rules that the controllers of pods share: templates, selectors, counts of replicas."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_not_negative, selects
from kubewright.local.apiserver.builtin.pods import validate_pod_template
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import (
    AGE,
    column,
    container_cells,
    format_age,
    format_labels,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

MISMATCH = "`selector` does not match template `labels`"
CONTAINERS = (column("Containers", wide=True), column("Images", wide=True))
SELECTOR = column("Selector", wide=True)
REPLICAS = (column("Desired", "integer"), column("Current", "integer"), column("Ready", "integer"))


def validate_template(
    template: Object | None, selector: Object, field: str, kind: str = "ReplicaSet"
) -> list[Cause]:
    """Return what is wrong with the template of a controller whose pods run for ever.

    `kind` is the one that messages name, see `validate_endless`.
    """
    template = template or {}
    labels = (template.get("metadata") or {}).get("labels")
    causes: list[Cause] = []
    if not _is_empty(selector) and not selects(selector, labels or {}):
        causes.append(invalid(f"{field}.metadata.labels", labels, MISMATCH))
    causes += validate_pod_template(template, field)
    return causes + validate_endless(template, field, kind)


def _is_empty(selector: Object) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def validate_endless(template: Object, field: str, kind: str = "ReplicaSet") -> list[Cause]:
    """Refuse what makes no sense for pods that are always replaced.

    `kind` is the one that messages name: most kinds say ReplicaSet.
    """
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy")
    causes: list[Cause] = []
    if policy in ("OnFailure", "Never"):
        causes.append(not_supported(f"{field}.spec.restartPolicy", policy, ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{field}.spec.activeDeadlineSeconds", detail))
    return causes


def check_counts(status: Object, parts: Iterable[str], field: str = "status") -> list[Cause]:
    """Check the counts of a status: none is negative, none above `replicas`."""
    causes: list[Cause] = []
    total = status.get("replicas") or 0
    for key in ("replicas", *parts):
        causes += check_not_negative(status.get(key) or 0, f"{field}.{key}")
    causes += check_not_negative(
        status.get("observedGeneration") or 0, f"{field}.observedGeneration"
    )
    causes += [
        invalid(f"{field}.{key}", status.get(key) or 0, "cannot be greater than status.replicas")
        for key in parts
        if (status.get(key) or 0) > total
    ]
    return causes


def _validate_controller(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = check_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        causes.append(required("spec.selector"))
    causes += check_not_negative(spec.get("replicas"), "spec.replicas")
    if template is None:
        return [*causes, required("spec.template")]
    return causes + validate_template(template, {"matchLabels": selector}, "spec.template")


def _controller_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    counts = [
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
    ]
    template = spec.get("template") or {}
    labels = format_labels(spec.get("selector"))
    return [*counts, format_age(obj, now), *container_cells(template), labels]


REPLICATION_CONTROLLER = Rules(
    has_generation=True,
    validate=_validate_controller,
    validate_status_update=lambda obj, old: check_counts(
        obj["status"], ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    ),
    fields={"status.replicas": text_at("status", "replicas")},
    table=Table((*REPLICAS, AGE, *CONTAINERS, SELECTOR), _controller_cells),
)
