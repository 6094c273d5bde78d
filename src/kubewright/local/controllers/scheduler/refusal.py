"""Why a node does not take a pod."""

from __future__ import annotations

import enum

import msgspec


class Plugin(enum.Enum):
    """Who refused, by the names of kube-scheduler's plugins: what changed may help some of them."""

    NODE_NAME = "NodeName"
    UNSCHEDULABLE = "NodeUnschedulable"
    TAINTS = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    PORTS = "NodePorts"
    RESOURCES = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"


class Refusal(msgspec.Struct, frozen=True):
    """Why a node does not take a pod, and whether it would with fewer pods on it."""

    plugin: Plugin
    reasons: tuple[str, ...]
    is_resolvable: bool = False
