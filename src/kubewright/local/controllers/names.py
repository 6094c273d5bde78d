"""The names of the controllers, apart from their code: choosing loads none of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


METRICS_SERVER = "metrics-server"
"""No controller, but chosen like one: what a cluster with nodes runs beside them."""


def select_controllers(names: Iterable[str]) -> list[str]:
    """Resolve names as kube-controller-manager's `--controllers` does.

    `*` and `all` stand for all, `-name` leaves one out. The metrics server may be named, and is
    not among what is returned.

    Raises:
        ConfigurationError: a name is unknown; the message lists those that are known.
    """
    wanted = [name.strip() for name in names if name.strip()]
    known = (*NAMES, METRICS_SERVER)
    unknown = [
        name for name in wanted if name not in ("*", "all") and name.lstrip("-") not in known
    ]
    if unknown:
        raise ConfigurationError(
            f"unknown controllers {', '.join(unknown)}: known are {', '.join(known)}"
        )
    return [name for name in NAMES if _is_chosen(name, wanted)]


def selects_metrics_server(names: Iterable[str]) -> bool:
    """Tell whether names choose the metrics server, as `select_controllers` reads them."""
    return _is_chosen(METRICS_SERVER, [name.strip() for name in names])


def _is_chosen(name: str, wanted: Sequence[str]) -> bool:
    everyone = "*" in wanted or "all" in wanted
    return (everyone or name in wanted) and f"-{name}" not in wanted
