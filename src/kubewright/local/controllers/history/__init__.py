"""The history of StatefulSets and DaemonSets: each template they had, as a ControllerRevision."""

from __future__ import annotations

from kubewright.local.controllers.history.revision import Revision, sort_revisions
from kubewright.local.controllers.history.revisions import History, claim_revisions

__all__ = ["History", "Revision", "claim_revisions", "sort_revisions"]
