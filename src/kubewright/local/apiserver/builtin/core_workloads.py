"""Rules of core/v1: what is about pods, beside the pods themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.limits import LIMIT_RANGE, RESOURCE_QUOTA
from kubewright.local.apiserver.builtin.pods import validate_pod_template
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import column, container_cells, format_labels
from kubewright.local.apiserver.builtin.workload_rules import REPLICATION_CONTROLLER


def _validate_pod_template_kind(obj: Object) -> list[Cause]:
    return validate_pod_template(obj.get("template"), "template")


def _template_cells(obj: Object, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [*container_cells(template), format_labels(labels)]


RULES: Mapping[str, Rules] = {
    "LimitRange": LIMIT_RANGE,
    "ResourceQuota": RESOURCE_QUOTA,
    "ReplicationController": REPLICATION_CONTROLLER,
    "PodTemplate": Rules(
        has_generation=True,
        validate=_validate_pod_template_kind,
        table=Table(
            (column("Containers"), column("Images"), column("Pod Labels")), _template_cells
        ),
    ),
}
