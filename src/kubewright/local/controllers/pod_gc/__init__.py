"""Pod garbage collection: pods that nobody will end any more."""

from kubewright.local.controllers.pod_gc.controller import build_pod_collector
from kubewright.local.controllers.pod_gc.decision import Verdict, judge_pod

__all__ = ["Verdict", "build_pod_collector", "judge_pod"]
