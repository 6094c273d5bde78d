"""The refusal that every creation meets in a namespace that is being deleted."""

from __future__ import annotations

from kubewright.api.errors import APIError, KubewrightError

NAMESPACE_TERMINATING = "NamespaceTerminating"


def is_namespace_terminating(error: KubewrightError) -> bool:
    """Tell whether a creation was refused because its namespace is going away.

    There is nothing to retry: the namespace's deletion ends the owner too.
    """
    details = error.details if isinstance(error, APIError) else None
    causes = details.causes if details else ()
    return any(cause.reason == NAMESPACE_TERMINATING for cause in causes)
