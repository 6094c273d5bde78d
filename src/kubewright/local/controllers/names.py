"""The names of the controllers, apart from their code: choosing loads none of them."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.errors import ConfigurationError

NAMES = (
    "namespace",
    "serviceaccount",
    "root-ca-certificate-publisher",
    "serviceaccount-token",
    "garbage-collector",
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "ttl-after-finished",
    "node-lifecycle",
    "taint-eviction",
    "pod-garbage-collector",
    "disruption",
    "horizontal-pod-autoscaler",
    "resourcequota",
    "endpointslice",
    "endpoints",
    "endpointslice-mirroring",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "persistentvolumeclaim-protection",
    "persistentvolume-protection",
    "ephemeral-volume",
    "scheduler",
)
"""All controllers, in the order in which they start."""


def select_controllers(names: Iterable[str]) -> list[str]:
    """Resolve names as kube-controller-manager's `--controllers` does.

    `*` and `all` stand for all, `-name` leaves one out.

    Raises:
        ConfigurationError: a name is unknown; the message lists those that are known.
    """
    wanted = [name.strip() for name in names if name.strip()]
    unknown = [
        name for name in wanted if name not in ("*", "all") and name.lstrip("-") not in NAMES
    ]
    if unknown:
        known = ", ".join(NAMES)
        raise ConfigurationError(f"unknown controllers {', '.join(unknown)}: known are {known}")
    everyone = "*" in wanted or "all" in wanted
    return [name for name in NAMES if (everyone or name in wanted) and f"-{name}" not in wanted]
